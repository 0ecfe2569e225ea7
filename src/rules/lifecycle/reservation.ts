/** Reservations of idle servers: how long they may last, and what they change in a record. Pure. */
import { draftOf, type Server } from '../model/resources.js'

export const maxReservationMs = 7 * 24 * 3_600_000

/** Returns the server, reserved until this wall time in ms or not at all, or the same object if nothing changes. */
export function withReservation(server: Server, reservedUntil: number | undefined): Server {
  if (server.reservedUntil === reservedUntil) return server
  const next = draftOf(server)
  next.reservedUntil = reservedUntil
  return next
}

/** Until when a server is reserved that is stored with this time, both in ms: a late write may store one that is over. */
export function unlapsed(until: number | undefined, now: number): number | undefined {
  return until !== undefined && until > now ? until : undefined
}
