/** Servers: the schemas of a GameServer, of its players, and of the requests to reserve, drain and maintain servers. Pure. */
import { maxReservationMs } from '../lifecycle/lifecycle.js'
import { serverDataSchema } from '../lifecycle/server-data.js'
import { healths, serverStates } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import { isObject } from './problem.js'
import type { ObjectSchema } from './schema.js'
import { apiVersion, count, metadata, playerIDs, time } from './shared-schemas.js'
import { compile, type Validator } from './validator.js'

export const gameServerSchema = {
  id: 'GameServer',
  type: 'object',
  description: 'One game server.',
  required: ['apiVersion', 'kind', 'metadata', 'status'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServer', description: 'The type of the object.' },
    metadata: {
      ...metadata,
      id: 'GameServerMetadata',
      properties: {
        ...metadata.properties,
        labels: serverDataSchema.labels,
        annotations: serverDataSchema.annotations,
      },
    },
    status: {
      type: 'object',
      description: 'The current state of the server. Written by the leader.',
      required: ['state', 'health', 'publicIP', 'ports', 'nodeName'],
      properties: {
        state: { type: 'string', enum: serverStates, description: 'The lifecycle state of the server.' },
        health: { type: 'string', enum: healths, description: 'Unknown until the server sends its first heartbeat.' },
        publicIP: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Address that players connect to. Empty until known.',
          examples: ['203.0.113.9'],
        },
        ports: {
          type: 'string',
          mayBeEmpty: true,
          pattern: '^(\\d+:\\d+(,\\d+:\\d+)*)?$',
          description: "Comma-separated `container:public` pairs, in the order of the build's portsToExpose.",
          examples: ['7777:10003'],
        },
        nodeName: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Name of the machine that the server runs on. Empty until known.',
        },
        sessionID: {
          type: 'string',
          description: 'The session that the server is allocated to, or the first of them. Present only while Active.',
        },
        sessions: {
          type: 'array',
          description: 'All sessions, in the order in which they began. Present only while there is more than one.',
          items: {
            type: 'object',
            description: 'A session of the server.',
            required: ['sessionID', 'number'],
            properties: {
              sessionID: { type: 'string', description: 'The sessionID of the allocation.' },
              number: {
                type: 'integer',
                minimum: 1,
                description: 'Distinguishes it from every other session of this server.',
              },
            },
          },
        },
        reachedInitializingOn: { ...time, description: 'When the process was first seen running. RFC 3339, in UTC.' },
        reachedStandingByOn: { ...time, description: 'When the server was first standing by. RFC 3339, in UTC.' },
        reachedActiveOn: { ...time, description: 'When the server was allocated. RFC 3339, in UTC.' },
        nextScheduledMaintenance: {
          ...time,
          description: 'When announced maintenance of the server or its node begins. RFC 3339, in UTC.',
        },
        reservedUntil: {
          ...time,
          description: 'Until when the idle server is reserved. Absent if it is not. RFC 3339, in UTC.',
        },
        counters: serverDataSchema.counters,
        lists: serverDataSchema.lists,
        message: {
          type: 'string',
          description:
            'Why the server is still Pending or not ready, which of its probes fail, or why it is Terminating.',
        },
      },
    },
  },
} as const satisfies ObjectSchema

export const gameServerDetailSchema = {
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

export const gameServerBuildDetailSchema = {
  id: 'GameServerBuildDetail',
  type: 'object',
  description: 'The players connected to all servers of a build, and the detail of each server.',
  required: [...gameServerDetailSchema.required, 'items'],
  properties: {
    ...gameServerDetailSchema.properties,
    items: { type: 'array', items: gameServerDetailSchema, description: 'The detail of each server.' },
  },
} as const satisfies ObjectSchema

export const reservationRequest = {
  id: 'ReservationRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with forMs',
  description: 'For how long to reserve a server.',
  required: ['forMs'],
  properties: {
    forMs: {
      type: 'integer',
      minimum: 1,
      maximum: maxReservationMs,
      description: `How long the server is reserved from now on, in ms, at most ${maxReservationMs} (7 days).`,
      examples: [3_600_000],
    },
  },
} as const satisfies ObjectSchema

export const readReservation: Validator<{ readonly forMs: number }> = compile(reservationRequest)

export const stdinRequest = {
  id: 'StdinRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with a line',
  description: 'A line for the standard input of a game.',
  required: ['line'],
  properties: {
    line: {
      type: 'string',
      mayBeEmpty: true,
      maxBytes: sizeLimits.stdinLineBytes,
      controls: 'none',
      description: `The line, of at most ${sizeLimits.stdinLineBytes} bytes of UTF-8. A line break at its end is optional.`,
      examples: ['say The match begins'],
    },
  },
} as const satisfies ObjectSchema

const check = compile(stdinRequest)

/** Returns the line without its line break. */
export const readStdin: Validator<{ readonly line: string }> = (value, root) => {
  if (!isObject(value) || typeof value['line'] !== 'string') return check(value, root)
  return check({ ...value, line: value['line'].replace(/\r?\n$/, '') }, root)
}

export const maintenanceRequest = {
  id: 'MaintenanceRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a maintenance request object',
  description: 'Announces maintenance.',
  required: ['at'],
  properties: {
    at: {
      ...time,
      pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$',
      expected: 'a time in RFC 3339',
      description: 'When the maintenance begins. RFC 3339, in the future, at most 365 days ahead.',
    },
  },
} as const satisfies ObjectSchema

export const maintenanceResult = {
  id: 'MaintenanceResult',
  type: 'object',
  required: ['servers'],
  properties: {
    servers: {
      ...count,
      description: 'Number of servers that have the announcement, or whose announcement was withdrawn.',
    },
  },
} as const satisfies ObjectSchema

export const drainRequest = {
  id: 'DrainRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object such as {}',
  description: 'How to drain.',
  properties: {
    active: {
      type: 'string',
      enum: ['wait', 'terminate'],
      description:
        'What happens to Active servers. `wait` (default): they finish their matches. `terminate`: they are terminated, each with its whole grace period.',
    },
    deadlineMs: {
      type: 'number',
      minimum: 0,
      description: 'Time in ms after which to stop waiting for the servers. Default: wait without limit.',
      examples: [60_000],
    },
  },
} as const satisfies ObjectSchema

export const drainResult = {
  id: 'DrainResult',
  type: 'object',
  description: 'The result of a drain.',
  required: ['remaining'],
  properties: {
    remaining: {
      ...count,
      description: 'Number of servers left: those with a match at the deadline, or all if the drain was ended.',
    },
  },
} as const satisfies ObjectSchema
