/** Chooses the server for an allocation, or says why there is none. Pure. */
import { noData, type ServerData } from '../lifecycle/server-data.js'
import type { AllocationOrder } from '../model/allocation-request.js'
import type { Condition, ConditionType, Server } from '../model/resources.js'
import { counted } from '../validation/problem.js'

/** True if the server is standing by, is not Unhealthy, and its address is known. */
export function isAllocatable(server: Server): boolean {
  return (
    server.state === 'StandingBy' &&
    server.health !== 'Unhealthy' &&
    server.address !== undefined &&
    server.address !== ''
  )
}

/**
 * Picks the server that became ready first, preferably one that runs the current template. A server that this host has not
 * heard since it began to lead, or since it was suspended, may learn of its session only minutes later. Such an unheard server is
 * picked only if the caller cannot wait for another one.
 */
export function pickServer<T>(
  { ready, outdatedReady, unheard, outdatedUnheard }: ReadyServers<T>,
  canWait: boolean,
): T | undefined {
  const heard = ready.first ?? outdatedReady.first
  if (heard !== undefined || canWait) return heard
  return unheard.first ?? outdatedUnheard.first
}

/** Servers that can be allocated, by whether this host has heard them and whether they run the current template. */
interface ReadyServers<T> {
  readonly ready: Candidates<T>
  readonly outdatedReady: Candidates<T>
  readonly unheard: Candidates<T>
  readonly outdatedUnheard: Candidates<T>
}

/**
 * Picks the server whose game receives its session first: one whose heartbeat is waiting for its answer, or else the one whose
 * next heartbeat is due next. Skips servers whose heartbeat is overdue, but looks at no more than a few of them. Picks an unheard
 * server only if the caller cannot wait.
 */
export function pickSoonest<T>(
  candidates: SoonestCandidates<T>,
  isOverdue: (server: T) => boolean,
  canWait: boolean,
): T | undefined {
  const { held, due } = candidates
  if (held.first) return held.first
  let overdue = 0
  for (const server of due) {
    if (!isOverdue(server)) return server
    if (++overdue === maxOverdue) break
  }
  return pickServer(candidates, canWait)
}

const maxOverdue = 8

interface SoonestCandidates<T> extends ReadyServers<T> {
  /** Ready servers whose heartbeats are waiting for their answers. */
  readonly held: Candidates<T>
  /** The other ready servers that have sent heartbeats, least recent heartbeat first. */
  readonly due: Iterable<T>
}

/** True if a server that last sent a heartbeat `silentMs` ago has missed one. */
export function isHeartbeatOverdue(silentMs: number, heartbeatIntervalMs: number): boolean {
  return silentMs > 2 * heartbeatIntervalMs
}

interface Candidates<T> {
  readonly first: T | undefined
}

/**
 * Returns `max-reached` if a server becomes available only when a session ends, or `none-standing-by` if one may be ready
 * soon. `inUse` is the number of servers that have a session or are being allocated.
 */
export function noServerCode(inUse: number, max: number): 'max-reached' | 'none-standing-by' {
  return inUse >= max ? 'max-reached' : 'none-standing-by'
}

export interface Candidate {
  /** Since when it has been standing by, in elapsed ms. */
  readonly since: number
  /** Number of servers with a session on its machine. 0 unless the order depends on machines. */
  readonly machineLoad: number
  readonly data: ServerData | undefined
}

/** True if the order depends on how many servers of a machine have a session. */
export function isByMachine(order: AllocationOrder | undefined): boolean {
  return order?.by === 'packed' || order?.by === 'distributed'
}

/** True if the order depends only on since when a server has been standing by. */
export function isByTime(order: AllocationOrder | undefined): boolean {
  return order === undefined || order.by === 'first-ready' || order.by === 'newest'
}

/**
 * The server with the lowest rank is taken first, and of those with the same rank, the one that has been standing by for longest. A server
 * without the counter of the order comes last.
 */
export function rankOf(order: AllocationOrder | undefined, { since, machineLoad, data }: Candidate): number {
  switch (order?.by) {
    case 'packed':
      return -machineLoad
    case 'distributed':
      return machineLoad
    case 'newest':
      return -since
    case 'least-available':
      return availableIn(data, order.counter) ?? Infinity
    case 'most-available':
      return -(availableIn(data, order.counter) ?? -Infinity)
    case 'first-ready':
    case undefined:
      return 0
  }
}

function availableIn({ counters }: ServerData = noData, name = ''): number | undefined {
  const counter = Object.hasOwn(counters, name) ? counters[name] : undefined
  return counter && counter.capacity - counter.count
}

export interface Shortage {
  readonly conditions: readonly Condition[]
  readonly initializing: number
  readonly pending: number
  /** Why one of the Pending servers has not started, from the backend. */
  readonly pendingReason: string | undefined
}

/** Conditions that keep servers from becoming ready, the most specific first. */
const causes: readonly ConditionType[] = [
  'Invalid',
  'CreateBlocked',
  'Crashing',
  'Disappearing',
  'LateServers',
  'BudgetReached',
]

/** Returns undefined if no cause is known: a server may be about to be started. */
export function causeOfShortage({ conditions, initializing, pending, pendingReason }: Shortage): string | undefined {
  for (const type of causes) {
    const condition = conditions.find((one) => one.type === type)
    if (condition) return condition.message
  }
  if (initializing > 0) {
    const games = initializing === 1 ? 'its game has' : 'their games have'
    return `${counted(initializing, 'server is', 'servers are')} Initializing: ${games} not called readyForPlayers()`
  }
  if (pending === 0) return undefined
  const why = pendingReason === undefined ? '' : `: ${pendingReason}`
  return `${counted(pending, 'server is', 'servers are')} Pending${why}`
}
