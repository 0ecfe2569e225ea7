/** Which server is handed out, and why none is. Pure. */
import type { Server } from '../model/resources.js'

/** Ready, not Unhealthy, and its address known. A server that is not all three is never handed out. */
export function isAllocatable(server: Server): boolean {
  return (
    server.state === 'StandingBy' &&
    server.health !== 'Unhealthy' &&
    server.address !== undefined &&
    server.address !== ''
  )
}

/**
 * First ready, first handed out: candidates stand in the order in which they became ready. Those of an earlier template
 * only when there is none of the present one.
 */
export function pick<T>(candidates: Candidates<T>, outdated?: Candidates<T>): T | undefined {
  return candidates.first ?? outdated?.first
}

export interface Candidates<T> {
  readonly first: T | undefined
}

/**
 * Why there is no server: `max-reached` when only the end of a match can bring one, else one may be ready soon. In use are
 * the servers with a match and those on their way into one.
 */
export function refusal(inUse: number, max: number): 'max-reached' | 'none-standing-by' {
  return inUse >= max ? 'max-reached' : 'none-standing-by'
}

/** Two spellings of one GUID are one session. */
export function sessionKey(sessionID: string): string {
  return sessionID.toLowerCase()
}
