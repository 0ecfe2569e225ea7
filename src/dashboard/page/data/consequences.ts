/** What an action would do, in numbers, before it is taken. Pure. */
import { standingByOf } from '../../../rules/model/build-status.js'
import type { ConditionType } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import type { Counts } from './model.js'
import { plural } from './words.js'

export interface Scale {
  readonly standingBy: number
  readonly max: number
}

/** Why a scale is not possible, or undefined. The host checks it again. */
export function scaleProblem({ standingBy, max }: Scale): string | undefined {
  if (![standingBy, max].every((value) => Number.isInteger(value) && value >= 0))
    return 'Both must be whole numbers from 0.'
  return standingBy > max ? 'Standing by must be at most max.' : undefined
}

/** Only what differs from the spec: somebody else may be changing the other field. */
export function scaleChange(before: Scale, { standingBy, max }: Scale): Partial<Scale> {
  return { ...(standingBy !== before.standingBy && { standingBy }), ...(max !== before.max && { max }) }
}

/** `blocked`: why the build starts no servers, if so. */
export function scaleConsequence(counts: Counts, { standingBy, max }: Scale, blocked?: string): string {
  const idle = idleOf(counts)
  const wanted = Math.max(0, Math.min(standingBy, max - counts.Active))
  const kept = 'Matches go on in any case.'
  const missing = standingBy - idle
  if (missing > 0 && blocked !== undefined) return `Starts no server now: ${blocked}. ${kept}`
  const limit = missing > 0 && wanted < standingBy ? maxText(missing, { max, active: counts.Active }) : ''
  if (wanted > idle) return `Starts ${plural(wanted - idle, 'server')}${limit}. ${kept}`
  if (wanted < idle) return `Ends ${plural(idle - wanted, 'idle server')}${limit}. ${kept}`
  return `Starts and ends no server now${limit}. ${kept}`
}

function maxText(missing: number, { max, active }: { readonly max: number; readonly active: number }): string {
  const inUse = active === 0 ? '' : `, and ${active.toLocaleString('en')} ${active === 1 ? 'is' : 'are'} in use`
  return `, not ${missing.toLocaleString('en')}: max is ${max.toLocaleString('en')}${inUse}`
}

/** Why a build starts no servers, whatever its spec wants: completes "Starts no server now: ". */
export function blockedReason({ spec, status }: Pick<GameServerBuild, 'spec' | 'status'>): string | undefined {
  const has = (type: ConditionType) => status.conditions?.some((condition) => condition.type === type) ?? false
  if (has('Draining')) return 'the build is drained until it is resumed'
  return stoppedReason({ spec, status })
}

/** The same for a build that is not drained, or that is resumed. */
export function stoppedReason({ spec, status }: Pick<GameServerBuild, 'spec' | 'status'>): string | undefined {
  if (status.conditions?.some(({ type }) => type === 'Invalid')) return 'the spec is invalid'
  if (status.health !== 'Unhealthy') return undefined
  const limit = spec.crashesToMarkUnhealthy?.toLocaleString('en') ?? ''
  return `the build is stopped after ${plural(status.crashesCount, 'crash', 'crashes')} (crashesToMarkUnhealthy is ${limit})`
}

/** Why a build has no servers, and whether any will come. */
export function noServersText({ spec, status }: Pick<GameServerBuild, 'spec' | 'status'>): string {
  const blocked = blockedReason({ spec, status })
  if (blocked !== undefined) return `No servers, and none will be started: ${blocked}.`
  if (spec.max === 0) return 'No servers, and none will be started: max is 0.'
  if (standingByOf({ spec, status }) === 0)
    return 'No servers: the build keeps none standing by. An allocation that waits starts one.'
  return 'No servers. They appear here as the fleet starts them.'
}

/** The matches that an action concerns, which may be several on a server. */
export interface Matches {
  readonly sessions: number
  readonly players: number
}

function matchesText({ sessions, players }: Matches, servers: number): string {
  const where = sessions === servers ? '' : ` on ${plural(servers, 'server')}`
  return `${plural(sessions, 'match', 'matches')}${where} with ${plural(players, 'player')}`
}

export function drainConsequence(counts: Counts, matches: Matches, endsMatches: boolean): string {
  const idle = idleOf(counts)
  const text = matchesText(matches, counts.Active)
  const active = counts.Active === 0 ? '' : endsMatches ? ` Ends ${text}.` : ` Lets ${text} go on until they are over.`
  return `Ends ${plural(idle, 'idle server')}.${active} Afterwards the build is neither allocated nor started again until it is resumed.`
}

export function deleteConsequence(counts: Counts, matches: Matches): string {
  const servers = idleOf(counts) + counts.Active
  const ended = counts.Active === 0 ? 'No match is running.' : `${matchesText(matches, counts.Active)} will be ended.`
  return `Ends ${plural(servers, 'server')} and removes the build. ${ended}`
}

/** Of a single server. `who`: the players of its sessions, as `2 players`. */
export function terminateConsequence(sessions: number, who: string): string {
  const what = sessions === 1 ? 'Its match' : `Its ${sessions.toLocaleString('en')} matches`
  return `Ends the server and replaces it. ${sessions === 0 ? 'It has no match.' : `${what} with ${who} will be ended.`}`
}

export function drainServerConsequence(sessions: number): string {
  if (sessions === 0) return 'Ends the server now and replaces it.'
  const when = sessions === 1 ? 'its match is over' : `all its ${sessions.toLocaleString('en')} matches are over`
  return `Replaces the server when ${when}.`
}

function idleOf({ Pending, Initializing, StandingBy }: Counts): number {
  return Pending + Initializing + StandingBy
}
