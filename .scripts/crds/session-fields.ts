/** The fields of a session in the status of a GameServer. */
import { playerIDs, time } from '../../src/rules/schemas/common.js'
import { type StructuralSchema, unbounded } from './structural-schema.js'

const textOrEmpty = { type: 'string', nullable: true } as const

/** What the record of a server has of each of its sessions, besides its id. */
export function sessionFields(): Record<string, StructuralSchema> {
  return {
    sessionCookie: { ...textOrEmpty, description: 'sessionCookie of the allocation.' },
    initialPlayers: { ...unbounded(playerIDs), description: 'initialPlayers of the allocation.' },
    heldSeats: {
      type: 'array',
      description: 'Seats of the session that are held for players who are on their way.',
      items: {
        type: 'object',
        description: 'A seat that is held for a player.',
        required: ['player', 'until'],
        properties: {
          player: { ...textOrEmpty, description: 'Id of the player.' },
          until: { ...unbounded(time), description: 'When the hold ends. RFC 3339, in UTC.' },
        },
      },
    },
    sessionNumber: {
      type: 'integer',
      minimum: 1,
      description: 'Its number among the sessions of the server. Absent for one that the server began with.',
    },
    sessionStartedAt: { ...unbounded(time), description: 'When it was allocated to a server with other sessions.' },
    sessionEnding: { type: 'boolean', description: 'True if its game has been asked to end it.' },
  }
}
