/** The session of a server, as it is in the server's record. Immutable. */

export interface Session {
  readonly id: string
  readonly cookie?: string | undefined
  readonly initialPlayers: readonly string[]
  /** Seats that are held for players who are on their way, at most one for each. Absent if there are none. */
  readonly holds?: readonly SeatHold[] | undefined
  /** Its number among the sessions of its server, none of which has the same. From 1 on; a later session has a higher one. */
  readonly number: number
  /** When it was allocated, wall time in ms. */
  readonly startedAt: number
  /** True once its game has been asked to end it, while others go on. */
  readonly ending?: true | undefined
}

/** A session that no server has yet. */
export type NewSession = Pick<Session, 'id' | 'cookie' | 'initialPlayers' | 'holds'>

/** A seat of a session, held for a player. */
export interface SeatHold {
  readonly player: string
  /** Wall time in ms. */
  readonly until: number
}
