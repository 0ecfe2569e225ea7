/** Creates the errors that allocations are rejected with. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import { buildHealth } from '../../rules/model/status.js'
import { noServerCode } from '../../rules/planning/allocation.js'
import type { BuildEntry } from '../state/entries.js'

/** Creates a `max-reached` or `none-standing-by` error, whose message says how long the caller waited. */
export function noServerError(build: BuildEntry, waitedMs: number): FleetError {
  const { record, buckets } = build
  const { name, spec } = record
  const after = waitedMs > 0 ? ` (waited ${Math.round(waitedMs / 100) / 10} s)` : ''
  const isUnhealthy = buildHealth(record) === 'Unhealthy'
  const code = noServerCode(buckets.active.size + buckets.reserved.size, spec.max)
  switch (code) {
    case 'max-reached': {
      const advice = isUnhealthy ? unhealthyAdvice : '; retry when a match has ended'
      return new FleetError(code, `every server of build ${name} is in use, and max is ${spec.max}${after}${advice}`)
    }
    case 'none-standing-by': {
      const advice = isUnhealthy ? unhealthyAdvice : '; retry soon'
      return new FleetError(code, `no server of build ${name} is standing by${after}${advice}`)
    }
  }
}

const unhealthyAdvice =
  '; the build is Unhealthy and gets no new ones until its crashesToMarkUnhealthy is raised or removed'

export function isNoServerError(error: unknown): boolean {
  return FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached')
}

/** Used if the store did not confirm the write, so the session may or may not have the server. */
export function outcomeUnknownError(cause: unknown): FleetError {
  return new FleetError(
    'unavailable',
    `allocation outcome unknown; retry with the same sessionID (${messageOf(cause)})`,
    { cause },
  )
}
