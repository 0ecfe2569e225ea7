/**
 * Losses: servers that were standing by when their instances disappeared without a crash, because a node failed, or because a pod was
 * evicted or deleted by somebody else. Lost servers are replaced at once, however many are lost together. If the replacements are
 * lost too, soon after they stood by, something keeps removing them, and the build backs off. Pure.
 */
import type { Server } from '../model/resources.js'

/** The losses of a build that are close to each other. Wall times in ms. */
export interface Losses {
  /** When the first server was lost. Servers created since then are replacements. */
  readonly since: number
  /** Later losses have nothing to do with these. */
  readonly until: number
}

/** True if the server was standing by, without a session, when it was lost. */
export function isLost({ ending, sessions, reachedStandingByOn }: Server): boolean {
  return ending?.reason === 'Gone' && !ending.crash && sessions.length === 0 && reachedStandingByOn !== undefined
}

/** True if a replacement of earlier losses was lost within `resetMs` after it stood by. */
export function isLostAgain(server: Server, losses: Losses | undefined, resetMs: number): boolean {
  const { createdAt, ending, reachedStandingByOn } = server
  if (!isLost(server) || ending === undefined || reachedStandingByOn === undefined) return false
  if (losses === undefined || ending.at >= losses.until) return false
  return createdAt >= losses.since && ending.at - reachedStandingByOn < resetMs
}

/** Returns the losses after another one at wall time `at`. `pauseMs`: how long no replacement will be created. */
export function afterLoss(losses: Losses | undefined, at: number, pauseMs: number, resetMs: number): Losses {
  const since = losses && at < losses.until ? losses.since : at
  return { since, until: at + pauseMs + resetMs }
}
