/**
 * The sessions of a server in the status of its object. A single one has fields of its own, beside those of its server; of several, those are in
 * a list, and `sessionID` is that of the first. Pure.
 */
import type { SeatHold, Server, Session } from '../../../../src/rules/model/resources.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { numberAt, rfc3339, textAt, textsAt, timeAt } from '../../client/fields.js'

type Fields = Readonly<Record<string, unknown>>

/** Leaves out what somebody has made invalid, and a second session with the same number. */
export function readSessions(status: Fields): readonly Session[] {
  const list = status['sessions']
  const sessions = new Map<number, Session>()
  for (const fields of Array.isArray(list) ? list.filter(isObject) : [status]) {
    const id = textAt(fields, 'sessionID')
    const number = numberAt(fields, 'number') ?? numberAt(status, 'startedSessions') ?? 1
    const startedAt = timeAt(fields, 'startedAt') ?? timeAt(status, 'reachedActiveOn') ?? 0
    if (id !== undefined) sessions.set(number, readSession(id, number, startedAt, fields))
  }
  return [...sessions.values()]
}

function readSession(id: string, number: number, startedAt: number, fields: Fields): Session {
  const cookie = textAt(fields, 'sessionCookie')
  const holds = readHolds(fields['heldSeats'])
  return {
    id,
    ...(cookie !== undefined && { cookie }),
    initialPlayers: textsAt(fields, 'initialPlayers'),
    ...(holds.length > 0 && { holds }),
    number,
    startedAt,
    ...(fields['ending'] === true && { ending: true }),
  }
}

/** None if the server has no session. */
export function sessionFields({ reachedActiveOn, sessions, startedSessions }: Server): object {
  const [only] = sessions
  if (!only) return {}
  const isPlain = only.number === startedSessions && only.startedAt === reachedActiveOn && !only.ending
  if (sessions.length === 1 && isPlain) return { sessionID: only.id, ...fieldsOf(only) }
  const list = sessions.map((session) => ({
    sessionID: session.id,
    number: session.number,
    startedAt: rfc3339(session.startedAt),
    ...fieldsOf(session),
    ...(session.ending && { ending: true }),
  }))
  return { sessionID: only.id, sessions: list }
}

/** Absent where the session lacks them. */
function fieldsOf({ cookie, initialPlayers, holds }: Session): object {
  return {
    initialPlayers,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    ...(holds && { heldSeats: holds.map(({ player, until }) => ({ player, until: rfc3339(until) })) }),
  }
}

/** `lastNumber` of the server with this status. */
export function lastNumberIn(status: Fields): number {
  return numberAt(status, 'startedSessions') ?? 0
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
