/** Chooses the server for an allocation, or the error code if there is none. Pure. */
import type { Server } from '../model/resources.js'

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
export interface ReadyServers<T> {
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

export interface SoonestCandidates<T> extends ReadyServers<T> {
  /** Ready servers whose heartbeats are waiting for their answers. */
  readonly held: Candidates<T>
  /** The other ready servers that have sent heartbeats, least recent heartbeat first. */
  readonly due: Iterable<T>
}

/** True if a server that last sent a heartbeat `silentMs` ago has missed one. */
export function isHeartbeatOverdue(silentMs: number, heartbeatIntervalMs: number): boolean {
  return silentMs > 2 * heartbeatIntervalMs
}

export interface Candidates<T> {
  readonly first: T | undefined
}

/**
 * Returns `max-reached` if a server becomes available only when a session ends, or `none-standing-by` if one may be ready
 * soon. `inUse` is the number of servers that have a session or are being allocated.
 */
export function noServerCode(inUse: number, max: number): 'max-reached' | 'none-standing-by' {
  return inUse >= max ? 'max-reached' : 'none-standing-by'
}

/** How long an allocation without `waitMs` waits until the game has confirmed its session. */
export const defaultConfirmMs = 10_000

/** How long an allocation with `confirm` may take in all. */
export function confirmTimeoutMs(waitMs: number | undefined, maxWaitMs: number): number {
  return waitMs ?? Math.min(defaultConfirmMs, maxWaitMs)
}
