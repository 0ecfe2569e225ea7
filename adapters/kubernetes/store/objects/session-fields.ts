/** The sessions of a server in the status of its object. The first one has fields of its own, and further ones are in a list. Pure. */
import { numberOf, sessionsOf } from '../../../../src/rules/lifecycle/several-sessions.js'
import type { SeatHold, Server, Session } from '../../../../src/rules/model/resources.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { numberAt, rfc3339, textAt, textsAt, timeAt } from '../../client/fields.js'

type Fields = Readonly<Record<string, unknown>>

export function readSession(id: string, status: Fields): Session {
  const cookie = textAt(status, 'sessionCookie')
  const holds = readHolds(status['heldSeats'])
  const number = numberAt(status, 'sessionNumber')
  const startedAt = timeAt(status, 'sessionStartedAt')
  return {
    id,
    ...(cookie !== undefined && { cookie }),
    initialPlayers: textsAt(status, 'initialPlayers'),
    ...(holds.length > 0 && { holds }),
    ...(number !== undefined && { number }),
    ...(startedAt !== undefined && { startedAt }),
    ...(status['sessionEnding'] === true && { ending: true }),
  }
}

/** Leaves out what somebody has made invalid, and a second session with the same number. */
export function readMoreSessions(value: unknown): readonly Session[] {
  if (!Array.isArray(value)) return []
  const sessions = new Map<number, Session>()
  for (const fields of value.filter(isObject)) {
    const id = textAt(fields, 'sessionID')
    const number = numberAt(fields, 'sessionNumber')
    if (id !== undefined && number !== undefined) sessions.set(number, readSession(id, fields))
  }
  return [...sessions.values()]
}

/** Absent where the session lacks them. */
export function sessionFields({ id, cookie, initialPlayers, holds, number, startedAt, ending }: Session): object {
  return {
    sessionID: id,
    initialPlayers,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    ...(holds && { heldSeats: holds.map(({ player, until }) => ({ player, until: rfc3339(until) })) }),
    ...(number !== undefined && { sessionNumber: number }),
    ...(startedAt !== undefined && { sessionStartedAt: rfc3339(startedAt) }),
    ...(ending && { sessionEnding: true }),
  }
}

/** What is shown of a server with several sessions, besides those of the record. */
export function shownSessions(server: Server): object {
  const { moreSessions } = server
  if (!moreSessions) return {}
  const sessions = sessionsOf(server).map((session) => ({ sessionID: session.id, number: numberOf(server, session) }))
  return { moreSessions: moreSessions.map(sessionFields), sessions }
}

/** `lastNumber` of the server with this status. */
export function lastNumberIn(status: Fields): number {
  const isActive = textAt(status, 'sessionID') !== undefined
  return numberAt(status, 'startedSessions') ?? (numberAt(status, 'endedSessions') ?? 0) + (isActive ? 1 : 0)
}

/** Leaves out what somebody has made invalid, and a second hold for the same player. */
function readHolds(value: unknown): readonly SeatHold[] {
  if (!Array.isArray(value)) return []
  const holds = new Map<string, SeatHold>()
  for (const hold of value.filter(isObject)) {
    const player = textAt(hold, 'player')
    const until = timeAt(hold, 'until')
    if (player !== undefined && until !== undefined) holds.set(player, { player, until })
  }
  return [...holds.values()]
}
