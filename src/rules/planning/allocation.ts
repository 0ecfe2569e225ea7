/** Chooses the server of an allocation, and the reason when there is none. Pure. */
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
 * Picks the server that became ready first. Those of an earlier template are only used when there is none of the present
 * one.
 */
export function pick<T>(candidates: Candidates<T>, outdated?: Candidates<T>): T | undefined {
  return candidates.first ?? outdated?.first
}

export interface Candidates<T> {
  readonly first: T | undefined
}

/**
 * Why there is no server: `max-reached` when one only becomes free after a session ends, else one may be ready soon.
 * `inUse`: servers with a session or being allocated.
 */
export function refusal(inUse: number, max: number): 'max-reached' | 'none-standing-by' {
  return inUse >= max ? 'max-reached' : 'none-standing-by'
}

/** Upper and lower case of a GUID are one session. */
export function sessionKey(sessionID: string): string {
  return sessionID.toLowerCase()
}
