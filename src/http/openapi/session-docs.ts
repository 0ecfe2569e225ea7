/** What the OpenAPI document says about the operations on sessions. */
import { gameSession } from '../../rules/schemas/session.js'
import type { ArraySchema } from '../../rules/schemas/schema.js'
import type { OperationName } from '../api/operations.js'
import type { OperationDoc } from './operation-docs.js'
import { done } from './schemas.js'

type SessionOperation = Extract<
  OperationName,
  'listSessions' | 'listSessionsOfBuild' | 'getSession' | 'getSessionOfPlayer' | 'endSession'
>

const gameSessions = { id: 'GameSessions', type: 'array', items: gameSession } as const satisfies ArraySchema
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
    summary: 'Returns a session and its server.',
    status: 200,
    answer: gameSession,
    errors: [404],
  },
  getSessionOfPlayer: {
    ...{ method: 'get', path: '/api/v1/players/{player}/session', tag: 'management' },
    summary: 'Returns the session that a player is connected to, or else is expected in.',
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
}
