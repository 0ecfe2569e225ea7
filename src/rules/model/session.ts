/** The session of a server, as it is in the server's record. Immutable. */

export interface Session {
  readonly id: string
  readonly cookie?: string
  readonly initialPlayers: readonly string[]
  /** Seats that are held for players who are on their way, at most one for each. Absent if there are none. */
  readonly holds?: readonly SeatHold[]
}

/** A seat of a session, held for a player. */
export interface SeatHold {
  readonly player: string
  /** Wall time in ms. */
  readonly until: number
}
