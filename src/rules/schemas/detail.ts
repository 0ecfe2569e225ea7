/** Schemas of a GameServerDetail: the players connected to a server, or to all servers of a build. */
import { apiVersion, count, metadata, playerIDs } from './common.js'
import type { ObjectSchema } from './schema.js'

export const gameServerDetail = {
  id: 'GameServerDetail',
  type: 'object',
  description: 'The players connected to the game server of the same name.',
  required: ['apiVersion', 'kind', 'metadata', 'spec'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServerDetail', description: 'The type of the object.' },
    metadata,
    spec: {
      type: 'object',
      description: 'The connected players.',
      required: ['connectedPlayersCount', 'connectedPlayers'],
      properties: {
        connectedPlayersCount: { ...count, description: 'Number of connected players.' },
        connectedPlayers: { ...playerIDs, description: 'Ids of the connected players.' },
      },
    },
  },
} as const satisfies ObjectSchema

export const gameServerBuildDetail = {
  id: 'GameServerBuildDetail',
  type: 'object',
  description: 'The players connected to all servers of a build, and the detail of each server.',
  required: [...gameServerDetail.required, 'items'],
  properties: {
    ...gameServerDetail.properties,
    items: { type: 'array', items: gameServerDetail, description: 'The detail of each server.' },
  },
} as const satisfies ObjectSchema
