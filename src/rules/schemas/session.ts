/** Schema of a session: a match and its server. */
import { allocatedPorts, namespace, playerIDs, serverRef, time } from './common.js'
import { sessionEndReasons } from '../lifecycle/endings.js'
import type { ObjectSchema } from './schema.js'
import { seats } from './seats.js'

export const gameSession = {
  id: 'GameSession',
  type: 'object',
  description: 'A session that has a server.',
  required: ['sessionID', 'buildID', 'build', 'server', 'state', 'address', 'ports', 'initialPlayers', 'players'],
  properties: {
    sessionID: { type: 'string', description: 'The sessionID of the allocation.' },
    buildID: { type: 'string', description: "The buildID of the server's build." },
    build: {
      type: 'object',
      description: 'Namespace and name of the build.',
      required: ['namespace', 'name'],
      properties: {
        namespace: { ...namespace, description: 'Namespace of the build.' },
        name: { type: 'string', description: 'Name of the build.', examples: ['arena'] },
      },
    },
    server: serverRef,
    state: {
      type: 'string',
      enum: ['Active', 'Terminating'],
      description: 'The state of the server. Terminating: the match is being ended.',
    },
    address: { type: 'string', mayBeEmpty: true, description: 'Address that players connect to.' },
    ports: allocatedPorts,
    startedAt: { ...time, description: 'When the server was allocated. RFC 3339, in UTC.' },
    initialPlayers: { ...playerIDs, description: 'Ids of the players in the request.' },
    players: { ...playerIDs, description: 'Ids of the connected players, as the game last reported them.' },
    seats,
  },
} as const satisfies ObjectSchema

const { buildID, build, server, initialPlayers, players } = gameSession.properties

export const endedSession = {
  id: 'EndedSession',
  type: 'object',
  description: 'A session that has ended. Known for an hour, to the host that has heard of its end.',
  required: [
    ...(['sessionID', 'sessionUid', 'buildID', 'build', 'server', 'state', 'reason', 'message', 'endedAt'] as const),
    ...(['initialPlayers', 'players'] as const),
  ],
  properties: {
    sessionID: gameSession.properties.sessionID,
    sessionUid: { type: 'string', description: 'Distinguishes this session from a later one with the same sessionID.' },
    buildID: { ...buildID, mayBeEmpty: true },
    build,
    server,
    state: { type: 'string', const: 'Ended', description: 'The session has ended.' },
    reason: { type: 'string', enum: sessionEndReasons, description: 'Why: one word for programs.' },
    message: { type: 'string', description: 'A sentence for people.' },
    exitCode: { type: 'integer', description: 'With which the game has crashed.' },
    startedAt: gameSession.properties.startedAt,
    endedAt: { ...time, description: 'When the host heard of the end. RFC 3339, in UTC.' },
    durationMs: { type: 'integer', minimum: 0, description: 'From the allocation until the end.' },
    initialPlayers: { ...initialPlayers, description: 'Ids of the players in the request, as many as 2 KiB can hold.' },
    players: { ...players, description: 'Ids of the players who were connected last, as many as 2 KiB can hold.' },
  },
} as const satisfies ObjectSchema
