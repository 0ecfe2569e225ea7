/** Creates the errors that allocations are rejected with. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import { counted, shown } from '../../rules/validation/problem.js'
import { buildHealth } from '../../rules/model/build-status.js'
import { causeOfShortage, noServerCode } from '../../rules/planning/server-choice.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { countsOf, inUse, maxServersOf } from '../state/queries.js'

/** The caller may have given the name of a build instead of its buildID. */
export function noBuildError(builds: Iterable<BuildEntry>, buildID: string): FleetError {
  const named = [...builds].find(({ record }) => record.name === buildID)
  const hint = named && `; build ${named.record.name} has the buildID ${shown(named.record.spec.buildID)}`
  return new FleetError('not-found', `no build has the buildID ${shown(buildID)}${hint ?? ''}`)
}

/** Creates a `max-reached` or `none-standing-by` error, which says why there is no server and how long the caller waited. */
export function noServerError(build: BuildEntry, waitedMs: number): FleetError {
  const { record, buckets } = build
  const { name, spec, conditions } = record
  const after = afterWaiting(waitedMs)
  const isUnhealthy = buildHealth(record) === 'Unhealthy'
  const code = noServerCode(inUse(build), maxServersOf(build))
  const cause = causeOfShortage({
    conditions,
    initializing: buckets.initializing.size,
    pending: buckets.pending.size,
    pendingReason: firstReason(buckets.pending),
  })
  const details = {
    build: build.ref,
    servers: countsOf(build),
    standingBy: spec.standingBy,
    max: spec.max,
    waitedMs: Math.round(waitedMs),
    conditions: conditions.map(({ type, reason, message }) => ({ type, reason, message })),
    ...(cause !== undefined && code === 'none-standing-by' && { reason: cause }),
  }
  switch (code) {
    case 'max-reached': {
      const advice = isUnhealthy ? unhealthyAdvice : '; retry when a match has ended'
      const isBudget = build.budgetMax < spec.max
      const limit = isBudget ? "the fleet's budget has no room for another" : `max is ${spec.max}`
      const all =
        isBudget && inUse(build) === 0 ? `build ${name} has no server` : `every server of build ${name} is in use`
      const message = `${all}, and ${limit}${after}${advice}`
      return new FleetError(code, message, { details })
    }
    case 'none-standing-by': {
      const why = cause === undefined ? '' : `: ${cause}`
      const advice = isUnhealthy ? unhealthyAdvice : cause === undefined ? '; retry soon' : ''
      return new FleetError(code, `no server of build ${name} is standing by${after}${why}${advice}`, { details })
    }
  }
}

/** Why the first build that has a cause has no server. */
export function causeOf(builds: readonly BuildEntry[], waitedMs: number): string {
  for (const build of builds) {
    const reason = noServerError(build, waitedMs).details?.reason
    if (typeof reason === 'string') return builds.length > 1 ? `: ${build.record.name}: ${reason}` : `: ${reason}`
  }
  return ''
}

/** Looks at a few servers only: a build can have thousands. */
function firstReason(pending: Iterable<ServerEntry>): string | undefined {
  let looked = 0
  for (const { pendingReason } of pending) {
    if (pendingReason !== undefined) return pendingReason
    if (++looked === 20) break
  }
  return undefined
}

const unhealthyAdvice =
  '; the build is Unhealthy and gets no new ones until its crashesToMarkUnhealthy is raised or removed'

/** For a call whose session has an earlier call that asks for something else, and that decides. */
export function otherRequestError(sessionID: string, waitedMs: number): FleetError {
  const message = `an earlier call for session ${sessionID} is still waiting with another request${afterWaiting(waitedMs)}; retry soon`
  return new FleetError('none-standing-by', message)
}

export function isNoServerError(error: unknown): boolean {
  return FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached')
}

/** `build`: the build that is draining. Undefined if the whole fleet is. */
export function drainingError(build: BuildEntry | undefined): FleetError {
  const what = build ? `build ${build.record.name}` : 'the fleet'
  return new FleetError('draining', `${what} is draining and allocates no servers`)
}

export function queueFullError(total: number, maxWaiting: number): FleetError {
  const waiting = counted(total, 'caller is', 'callers are')
  return new FleetError('unavailable', `${waiting} waiting, and maxWaiting is ${maxWaiting}`)
}

/** Used if the store did not confirm the write, so the session may or may not have the server. */
export function outcomeUnknownError(cause: unknown): FleetError {
  return new FleetError(
    'unavailable',
    `allocation outcome unknown; retry with the same sessionID (${messageOf(cause)})`,
    { cause },
  )
}

/** For the end of a session whose game may take others meanwhile. */
export function gameUnheardError(sessionID: string): FleetError {
  return new FleetError(
    'unavailable',
    `session ${shown(sessionID)} cannot be ended yet, because this host has not heard its game, which may take other sessions; retry soon`,
  )
}

/** `waitedMs` is how long the caller waited for the game to report Active. */
export function notConfirmedError({ record }: ServerEntry, sessionID: string, waitedMs: number): FleetError {
  const after = afterWaiting(waitedMs)
  return new FleetError(
    'not-confirmed',
    `server ${record.name} has not confirmed session ${sessionID} yet${after}; ` +
      'the session keeps this server: retry with the same sessionID',
  )
}

export function endedUnconfirmedError(server: string, sessionID: string): FleetError {
  return new FleetError(
    'not-confirmed',
    `${server} ended before it confirmed session ${sessionID}; ` +
      'retry with the same sessionID to get another server once this one is gone',
  )
}

/** Empty for a caller that did not wait, whose call took a few ms. */
function afterWaiting(waitedMs: number): string {
  return waitedMs >= 50 ? ` (waited ${Math.round(waitedMs / 100) / 10} s)` : ''
}
