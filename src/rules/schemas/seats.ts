/** Schemas of requests about the seats of sessions. */
import { defaultHoldMs, maxHoldMs } from '../lifecycle/seats.js'
import { sizeLimits } from '../model/sizes.js'
import { allocationRequest } from './allocation.js'
import { initialPlayers, kib } from './common.js'
import type { NumberSchema, ObjectSchema } from './schema.js'
import { serverSelectors } from './selection.js'

const players = {
  ...initialPlayers,
  items: { ...initialPlayers.items, minLength: 1 },
  minItems: 1,
  expected: 'an array of at least one string',
  description: `Ids of players: at most ${sizeLimits.initialPlayers}, with at most ${sizeLimits.playerIDBytes} bytes of UTF-8 each and ${kib(sizeLimits.initialPlayersBytes)} together.`,
  examples: [['amie', 'bob']],
} as const

const holdMs = {
  type: 'integer',
  minimum: 1,
  maximum: maxHoldMs,
  description: `How long the seats are held, in ms, at most ${maxHoldMs}. Default: ${defaultHoldMs}.`,
  examples: [defaultHoldMs],
} as const satisfies NumberSchema

const target = {
  buildID: {
    type: 'string',
    minLength: 1,
    description: 'Sessions of the build with this spec.buildID. Either this or select.',
    examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
  },
  select: {
    ...serverSelectors,
    description: `Sessions of servers that fit, most wanted first. As in an allocation, at most ${sizeLimits.selectors} selectors. Not beside buildID.`,
  },
} as const

export const seatRequest = {
  id: 'SeatRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with players',
  description: 'For whom to hold seats of a session, and how long.',
  required: ['players'],
  properties: { players, holdMs },
} as const satisfies ObjectSchema

export const seatRelease = {
  id: 'SeatRelease',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with players',
  description: 'Whose seats of a session are not held any longer.',
  required: ['players'],
  properties: { players },
} as const satisfies ObjectSchema

export const joinRequest = {
  id: 'JoinRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with players and buildID or select',
  description: 'A request to hold seats in the fullest session that has room, or to begin one.',
  required: ['players'],
  alternatives: [['buildID'], ['select']],
  dependentRequired: { sessionID: ['orAllocate'], sessionCookie: ['orAllocate'] },
  properties: {
    ...target,
    players,
    holdMs,
    orAllocate: {
      type: 'boolean',
      description: 'Whether to allocate a server for a new session if no session has room. Default: false.',
    },
    sessionID: {
      ...allocationRequest.properties.sessionID,
      description: 'The sessionID of the session that is begun, if this call begins one. Default: a new GUID.',
    },
    sessionCookie: {
      ...allocationRequest.properties.sessionCookie,
      description: 'Passed to the game of the session that is begun, if this call begins one.',
    },
  },
} as const satisfies ObjectSchema

export const roomQuery = {
  id: 'RoomQuery',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with buildID or select',
  description: 'Which sessions with room to find.',
  alternatives: [['buildID'], ['select']],
  properties: {
    ...target,
    seats: {
      type: 'integer',
      minimum: 1,
      maximum: sizeLimits.reportedPlayers,
      description: 'The least number of free seats. Default: 1.',
      examples: [2],
    },
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: sizeLimits.sessionsWithRoom,
      description: `The most sessions to return, at most ${sizeLimits.sessionsWithRoom}. Default: 100.`,
    },
  },
} as const satisfies ObjectSchema

export const seats = {
  id: 'Seats',
  type: 'object',
  description: 'Seats of the session. Absent if its build does not say how many there are.',
  required: ['total', 'taken', 'held', 'free'],
  properties: {
    total: { type: 'integer', minimum: 1, description: 'seatsPerSession of the build.' },
    taken: {
      type: 'integer',
      minimum: 0,
      description: 'Number of connected players. More than total if the game let more in.',
    },
    held: { type: 'integer', minimum: 0, description: 'Number of seats held for players who are on their way.' },
    free: { type: 'integer', minimum: 0, description: 'Number of seats that can be reserved.' },
  },
} as const satisfies ObjectSchema
