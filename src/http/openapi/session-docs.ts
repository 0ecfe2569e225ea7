/** What the OpenAPI document says about the operations on sessions. */
import { defaultLimits } from '../../contracts/options.js'
import { joinRequest, roomQuery, seatRelease, seatRequest } from '../../rules/schemas/seats.js'
import { endedSession, gameSession } from '../../rules/schemas/session.js'
import type { ArraySchema } from '../../rules/schemas/schema.js'
import type { OperationName } from '../api/operations.js'
import type { AnyOfSchema } from './json-schema.js'
import type { OperationDoc } from './operation-docs.js'
import { done } from './schemas.js'

type SessionOperation = Extract<
  OperationName,
  | 'listSessions'
  | 'listSessionsOfBuild'
  | 'getSession'
  | 'getSessionOfPlayer'
  | 'endSession'
  | 'reserveSeats'
  | 'releaseSeats'
  | 'findSessionsWithRoom'
  | 'joinSession'
>

const gameSessions = { id: 'GameSessions', type: 'array', items: gameSession } as const satisfies ArraySchema
const sessionOrEnd = { id: 'SessionOrEnd', anyOf: [gameSession, endedSession] } as const satisfies AnyOfSchema
const session = '/api/v1/sessions/{sessionID}'

export const sessionDocs: Readonly<Record<SessionOperation, OperationDoc>> = {
  listSessions: {
    ...{ method: 'get', path: '/api/v1/sessions', tag: 'management' },
    summary: 'Lists the sessions that have a server.',
    status: 200,
    answer: gameSessions,
    errors: [],
  },
  listSessionsOfBuild: {
    ...{ method: 'get', path: '/api/v1/gameserverbuilds/{namespace}/{name}/sessions', tag: 'management' },
    summary: 'Lists the sessions that have a server of a build.',
    status: 200,
    answer: gameSessions,
    errors: [404],
  },
  getSession: {
    ...{ method: 'get', path: session, tag: 'management' },
    summary: 'Returns a session and its server, or how it has ended.',
    query: [
      {
        name: 'wait',
        description: 'Seconds to wait for the end of the session. After that, the session is returned as it is.',
        schema: { type: 'number', minimum: 0, maximum: defaultLimits.maxWaitMs / 1_000, default: 0 },
      },
    ],
    status: 200,
    answer: sessionOrEnd,
    errors: [400, 404],
  },
  getSessionOfPlayer: {
    ...{ method: 'get', path: '/api/v1/players/{player}/session', tag: 'management' },
    summary: 'Returns the session that a player is connected to, or else has a seat or is expected in.',
    status: 200,
    answer: gameSession,
    errors: [404],
  },
  endSession: {
    ...{ method: 'delete', path: session, tag: 'management' },
    summary: 'Ends a match: terminates its server with its grace period.',
    status: 200,
    answer: done,
    errors: [404],
  },
  reserveSeats: {
    ...{ method: 'post', path: `${session}/seats`, tag: 'management' },
    summary: 'Holds seats for players who are on their way: for all of them, or for none.',
    body: seatRequest,
    status: 200,
    answer: gameSession,
    errors: [400, 404, 409, 413],
  },
  releaseSeats: {
    ...{ method: 'post', path: `${session}/seats/release`, tag: 'management' },
    summary: 'Frees seats that are held for players.',
    body: seatRelease,
    status: 200,
    answer: gameSession,
    errors: [400, 404, 413],
  },
  findSessionsWithRoom: {
    ...{ method: 'post', path: '/api/v1/sessions-with-room', tag: 'management' },
    summary: 'Lists sessions with free seats, the fullest first. Changes nothing.',
    body: roomQuery,
    status: 200,
    answer: gameSessions,
    errors: [400, 404, 413],
  },
  joinSession: {
    ...{ method: 'post', path: '/api/v1/join', tag: 'management' },
    summary: 'Holds seats for players in the fullest session that has room for all of them, or in a new one.',
    query: [
      {
        name: 'wait',
        description: 'With orAllocate, seconds to wait for a server when none is standing by.',
        schema: { type: 'number', minimum: 0, maximum: defaultLimits.maxWaitMs / 1_000, default: 0 },
      },
    ],
    body: joinRequest,
    status: 200,
    answer: gameSession,
    errors: [400, 404, 409, 413],
  },
}
