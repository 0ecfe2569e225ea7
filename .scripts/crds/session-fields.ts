/** The fields of a session in the status of a GameServer. */
import { playerIDs, time } from '../../src/rules/validation/shared-schemas.js'
import { type StructuralSchema, unbounded } from './structural-schema.js'

const text = { type: 'string' } as const
const textOrEmpty = { ...text, nullable: true } as const

/** What the record of a server has of each of its sessions, besides its id, number and time. */
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
    told: { type: 'boolean', description: 'True once a game without an SDK has been told of it.' },
  }
}

/** The sessions of a server with several, in its status. */
export function sessionList(): StructuralSchema {
  return {
    type: 'array',
    description: 'All sessions, in the order in which they began, of a server that has or had several.',
    items: {
      type: 'object',
      description: 'A session of the server.',
      required: ['sessionID', 'number', 'startedAt'],
      properties: {
        sessionID: { ...text, description: 'The sessionID of the allocation.' },
        number: {
          type: 'integer',
          minimum: 1,
          description: 'Distinguishes it from every other session of this server.',
        },
        startedAt: { ...unbounded(time), description: 'When it was allocated. RFC 3339, in UTC.' },
        ...sessionFields(),
        ending: { type: 'boolean', description: 'True if its game has been asked to end it.' },
      },
    },
  }
}
