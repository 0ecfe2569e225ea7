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
 * Picks the server that became ready first. Uses a server that runs an earlier template only if none that runs the current
 * template is ready.
 */
export function pickServer<T>(candidates: Candidates<T>, outdated?: Candidates<T>): T | undefined {
  return candidates.first ?? outdated?.first
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

/** Returns the same key for GUIDs that differ only in case, because they identify the same session. */
export function sessionKey(sessionID: string): string {
  return sessionID.toLowerCase()
}
