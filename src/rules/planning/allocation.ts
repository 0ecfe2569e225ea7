/** Chooses the server for an allocation, and the error code when there is none. Pure. */
import type { Server } from '../model/resources.js'

/** True when the server is standing by, not Unhealthy, and its address is known. */
export function isAllocatable(server: Server): boolean {
  return (
    server.state === 'StandingBy' &&
    server.health !== 'Unhealthy' &&
    server.address !== undefined &&
    server.address !== ''
  )
}

/**
 * Picks the server that became ready first. Servers of an earlier template are used only if none of the current template is
 * ready.
 */
export function pickServer<T>(candidates: Candidates<T>, outdated?: Candidates<T>): T | undefined {
  return candidates.first ?? outdated?.first
}

export interface Candidates<T> {
  readonly first: T | undefined
}

/**
 * `max-reached` if a server becomes free only when a session ends; `none-standing-by` if one may be ready soon. `inUse`:
 * servers that have a session or are being allocated.
 */
export function noServerCode(inUse: number, max: number): 'max-reached' | 'none-standing-by' {
  return inUse >= max ? 'max-reached' : 'none-standing-by'
}

/** GUIDs that differ only in case are the same session. */
export function sessionKey(sessionID: string): string {
  return sessionID.toLowerCase()
}
