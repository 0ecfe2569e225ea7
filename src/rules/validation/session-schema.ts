/** Sessions: the schemas of a session that runs or has ended, and of requests about its seats. Pure. */
import { defaultHoldMs, maxHoldMs } from '../lifecycle/server-sessions.js'
import { sessionEndReasons } from '../lifecycle/termination.js'
import type { ServerSelector } from '../model/allocation-request.js'
import { sizeLimits } from '../model/sizes.js'
import { allocationRequest, checkSelection, serverSelectors } from './allocation-schema.js'
import { type Checked, valid } from './problem.js'
import type { NumberSchema, ObjectSchema } from './schema.js'
import { allocatedPorts, initialPlayers, kib, namespace, playerIDs, serverRef, time } from './shared-schemas.js'
import { compile, type Validator } from './validator.js'

const playersOfRequest = {
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
  properties: { players: playersOfRequest, holdMs },
} as const satisfies ObjectSchema

export const seatRelease = {
  id: 'SeatRelease',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with players',
  description: 'Whose seats of a session are not held any longer.',
  required: ['players'],
  properties: { players: playersOfRequest },
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
    players: playersOfRequest,
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

const seats = {
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

export const gameSessionSchema = {
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

export const endedSessionSchema = {
  id: 'EndedSession',
  type: 'object',
  description: 'A session that has ended. Known for an hour, to the host that has heard of its end.',
  required: [
    ...(['sessionID', 'sessionUid', 'buildID', 'build', 'server', 'state', 'reason', 'message', 'endedAt'] as const),
    ...(['initialPlayers', 'players'] as const),
  ],
  properties: {
    sessionID: gameSessionSchema.properties.sessionID,
    sessionUid: { type: 'string', description: 'Distinguishes this session from a later one with the same sessionID.' },
    buildID: { ...gameSessionSchema.properties.buildID, mayBeEmpty: true },
    build: gameSessionSchema.properties.build,
    server: gameSessionSchema.properties.server,
    state: { type: 'string', const: 'Ended', description: 'The session has ended.' },
    reason: { type: 'string', enum: sessionEndReasons, description: 'Why: one word for programs.' },
    message: { type: 'string', description: 'A sentence for people.' },
    exitCode: { type: 'integer', description: 'With which the game has crashed.' },
    startedAt: gameSessionSchema.properties.startedAt,
    endedAt: { ...time, description: 'When the host heard of the end. RFC 3339, in UTC.' },
    durationMs: { type: 'integer', minimum: 0, description: 'From the allocation until the end.' },
    initialPlayers: {
      ...gameSessionSchema.properties.initialPlayers,
      description: 'Ids of the players in the request, as many as 2 KiB can hold.',
    },
    players: {
      ...gameSessionSchema.properties.players,
      description: 'Ids of the players who were connected last, as many as 2 KiB can hold.',
    },
  },
} as const satisfies ObjectSchema

/** In which sessions to look for room. Exactly one is set. */
export interface CheckedTarget {
  readonly buildID?: string
  readonly select?: readonly ServerSelector[]
}

export interface SeatRequest {
  readonly players: readonly string[]
  readonly holdMs: number
}

export interface CheckedJoin extends CheckedTarget, SeatRequest {
  readonly orAllocate: boolean
  readonly sessionID?: string
  readonly sessionCookie?: string
}

export interface RoomQuery extends CheckedTarget {
  readonly seats: number
  readonly limit: number
}

const defaultLimit = 100

const checkSeats: Validator<Pick<SeatRequest, 'players'> & Partial<SeatRequest>> = compile(seatRequest)
const checkRelease: Validator<Pick<SeatRequest, 'players'>> = compile(seatRelease)
const checkJoin: Validator<CheckedTarget & Pick<CheckedJoin, 'players'> & Partial<CheckedJoin>> = compile(joinRequest)
const checkQuery: Validator<CheckedTarget & Partial<Pick<RoomQuery, 'seats' | 'limit'>>> = compile(roomQuery)

export function readSeatRequest(body: unknown): Checked<SeatRequest> {
  const request = checkSeats(body)
  if (!request.ok) return request
  const { players, holdMs = defaultHoldMs } = request.value
  return valid({ players: [...players], holdMs })
}

/** Returns the players whose seats are released. */
export function readSeatRelease(body: unknown): Checked<readonly string[]> {
  const release = checkRelease(body)
  return release.ok ? valid([...release.value.players]) : release
}

export function readJoinRequest(body: unknown): Checked<CheckedJoin> {
  const request = checkJoin(body)
  if (!request.ok) return request
  const { players, holdMs = defaultHoldMs, orAllocate = false, sessionCookie, sessionID } = request.value
  const session = {
    orAllocate,
    ...(sessionID !== undefined && { sessionID }),
    ...(sessionCookie !== undefined && { sessionCookie }),
  }
  return (
    checkSelection(request.value) ?? valid({ ...targetOf(request.value), players: [...players], holdMs, ...session })
  )
}

export function readRoomQuery(body: unknown): Checked<RoomQuery> {
  const query = checkQuery(body)
  if (!query.ok) return query
  const { seats = 1, limit = defaultLimit } = query.value
  return checkSelection(query.value) ?? valid({ ...targetOf(query.value), seats, limit })
}

function targetOf({ buildID, select }: CheckedTarget): CheckedTarget {
  return { ...(buildID !== undefined && { buildID }), ...(select && { select: structuredClone(select) }) }
}
