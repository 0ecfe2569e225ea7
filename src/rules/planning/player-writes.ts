/**
 * Decides when a changed player list is written to the store. Pure.
 *
 * A host that is killed loses what it has not written. Players that have connected are therefore written at once if the store
 * lists no players, or if the last write was long enough ago. An empty list waits, so that its write cannot be what the store shows
 * when players connect right after it. On average, there is at most one write per second and server.
 */

/** Changed lists of players are written at the end of each interval of this length. */
const writeIntervalMs = 1_000
/** An empty list is written only after it has been empty for this long. The next players to connect are then written at once. */
const emptyMs = 2 * writeIntervalMs

export interface LastWrite {
  /** Elapsed ms. */
  readonly at: number
  readonly count: number
}

/** True if a list of `count` players is written as soon as it has changed, at elapsed time `now`. */
export function isWrittenAtOnce(count: number, last: LastWrite | undefined, now: number): boolean {
  return count > 0 && (last === undefined || last.count === 0 || now - last.at >= writeIntervalMs)
}

/** True if a list of `count` players that changed at `changedAt` is written at the end of an interval, at `now`. */
export function isWrittenAtInterval(count: number, changedAt: number, now: number): boolean {
  return count > 0 || now - changedAt >= emptyMs
}
