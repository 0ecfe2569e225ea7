/** Schema of a session: a match and its server. */
import { allocatedPorts, namespace, playerIDs, serverRef, time } from './common.js'
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
