/**
 * Decides when a session to which no player has come ends. Pure.
 *
 * The time is counted on the host that hears the game: after a restart or suspension of the host it begins again, because players may
 * have come while the host could not know. So no wall clock matters. A heartbeat that arrives after the time may have been sent before
 * it, so only the next one decides.
 */

/** A session to which no player has come yet. Times in ms on one clock. */
export interface Claim {
  /** When the game was first heard with this session. */
  readonly since: number
  /** True once a heartbeat without players has arrived after the time. */
  readonly isDue: boolean
}

/**
 * Returns the claim after a heartbeat without players, or `unclaimed` if the session ends. `now` must not include time for which the host
 * could not receive heartbeats.
 */
export function afterEmptyHeartbeat(claim: Claim | undefined, now: number, seconds: number): Claim | 'unclaimed' {
  if (claim === undefined) return { since: now, isDue: false }
  // An invalid number, which somebody has put into the store, never passes.
  const isOver = seconds >= 1 && now - claim.since >= seconds * 1000
  if (!isOver) return claim
  return claim.isDue ? 'unclaimed' : { since: claim.since, isDue: true }
}
