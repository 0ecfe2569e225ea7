/**
 * The seats of a session: taken by connected players, held for players who are on their way, or free. Pure.
 *
 * A connected player has a seat and needs no hold. A hold ends when its player connects, when it is released, or at its time. Wall clocks
 * of hosts differ, so a hold that claims to last longer than any may is over: it would otherwise outlast a clock that was set back.
 */
import { draftOf, type NewSession, type SeatHold, type Server } from '../model/resources.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'

/** How long a seat is held unless a request says otherwise, also for the initial players of an allocation. */
export const defaultHoldMs = 60_000
export const maxHoldMs = 3_600_000

export interface Seats {
  readonly total: number
  /** Seats of connected players. More than `total` if the game let more in. */
  readonly taken: number
  /** Seats held for players who are on their way. */
  readonly held: number
  readonly free: number
}

/** Counts the seats at wall time `now`, or all holds if it is undefined. A game may list a player twice. */
export function seatsOf(
  total: number,
  players: readonly string[],
  holds: readonly SeatHold[] | undefined,
  now: number | undefined,
): Seats {
  const connected = new Set(players)
  const taken = connected.size
  let held = 0
  for (const hold of holds ?? []) {
    if (!connected.has(hold.player) && (now === undefined || isHeld(hold, now))) held++
  }
  return { total, taken, held, free: Math.max(0, total - taken - held) }
}

function isHeld({ until }: SeatHold, now: number): boolean {
  return until > now && until - now <= maxHoldMs
}

export interface SeatRequest {
  /** Seats of the session. */
  readonly total: number
  /** The connected players. */
  readonly players: readonly string[]
  /** Those for whom to hold seats. */
  readonly wanted: readonly string[]
  readonly holdMs: number
}

export type Reserved =
  | {
      readonly ok: true
      readonly holds: readonly SeatHold[]
      /** The players whose hold is new or renewed. */
      readonly reserved: readonly string[]
    }
  /** `tooLarge`: there are enough seats, but the holds would take too much of the record. */
  | { readonly ok: false; readonly needed: number; readonly seats: Seats; readonly tooLarge: boolean }

/**
 * Holds seats at wall time `now` for all wanted players, or for none. A hold that the player has already is renewed, and never ends sooner
 * than before. Holds that are over are dropped.
 */
export function reserved(holds: readonly SeatHold[] | undefined, request: SeatRequest, now: number): Reserved {
  const { total, players, wanted, holdMs } = request
  const connected = new Set(players)
  const next = new Map<string, number>()
  for (const hold of holds ?? []) if (isHeld(hold, now)) next.set(hold.player, hold.until)
  const coming = [...new Set(wanted)].filter((player) => !connected.has(player))
  const needed = coming.filter((player) => !next.has(player)).length
  const seats = seatsOf(total, players, holds, now)
  if (needed > seats.free) return { ok: false, needed, seats, tooLarge: false }
  for (const player of coming) next.set(player, Math.max(next.get(player) ?? 0, now + holdMs))
  const left = [...next].map(([player, until]) => ({ player, until }))
  if (needed > 0 && !fitsRecord(left)) return { ok: false, needed, seats, tooLarge: true }
  return { ok: true, holds: left, reserved: coming }
}

function fitsRecord(holds: readonly SeatHold[]): boolean {
  if (holds.length > sizeLimits.heldSeats) return false
  return holds.reduce((sum, { player }) => sum + utf8Bytes(player), 0) <= sizeLimits.heldSeatsBytes
}

/** The session with seats held for its initial players, who are on their way. */
export function withInitialHolds<S extends NewSession>(session: S, now: number): S {
  const until = now + defaultHoldMs
  return withHolds(
    session,
    [...new Set(session.initialPlayers)].map((player) => ({ player, until })),
  )
}

/** The holds of other players. */
export function withoutPlayers(
  holds: readonly SeatHold[] | undefined,
  players: readonly string[],
): readonly SeatHold[] | undefined {
  if (holds === undefined || holds.length === 0) return holds
  const gone = new Set(players)
  const left = holds.filter(({ player }) => !gone.has(player))
  return left.length === holds.length ? holds : left
}

/** Divides the holds into those that still count at wall time `now` and those that are over. */
export function afterLapse(
  holds: readonly SeatHold[],
  now: number,
): { readonly left: readonly SeatHold[]; readonly lapsed: readonly string[] } {
  return {
    left: holds.filter((hold) => isHeld(hold, now)),
    lapsed: holds.filter((hold) => !isHeld(hold, now)).map(({ player }) => player),
  }
}

/** True if the player has a seat or a seat is held for them. */
export function hasSeat(
  player: string,
  players: readonly string[],
  holds: readonly SeatHold[] | undefined,
  now: number,
): boolean {
  return players.includes(player) || (holds ?? []).some((hold) => hold.player === player && isHeld(hold, now))
}

/** The server with these holds of its session, or the same object if nothing changes. */
export function withSeats(server: Server, holds: readonly SeatHold[]): Server {
  const [session, ...others] = server.sessions
  if (!session || isSameHolds(session.holds, holds)) return server
  const next = draftOf(server)
  next.sessions = [withHolds(session, holds), ...others]
  return next
}

/** The field is absent if there are none. */
function withHolds<S extends NewSession>(session: S, holds: readonly SeatHold[]): S {
  return { ...session, holds: holds.length > 0 ? holds : undefined }
}

export function isSameHolds(a: readonly SeatHold[] = [], b: readonly SeatHold[] = []): boolean {
  if (a === b) return true
  return a.length === b.length && a.every(({ player, until }, i) => player === b[i]?.player && until === b[i]?.until)
}
