/** Schemas for responses that exist only in the HTTP layer. The schemas for resources are in `rules/schemas`. */
import { errorCodes } from '../../contracts/errors.js'
import { gameServerBuild } from '../../rules/schemas/build.js'
import { gameServerDetail } from '../../rules/schemas/detail.js'
import type { ArraySchema, ObjectSchema, StringSchema } from '../../rules/schemas/schema.js'
import { gameServer } from '../../rules/schemas/server.js'
import type { AnyOfSchema } from './json-schema.js'

export const gameServerBuilds = {
  id: 'GameServerBuilds',
  type: 'array',
  items: gameServerBuild,
} as const satisfies ArraySchema

export const gameServers = { id: 'GameServers', type: 'array', items: gameServer } as const satisfies ArraySchema

export const oneGameServerDetail = {
  id: 'OneGameServerDetail',
  type: 'array',
  items: gameServerDetail,
  minItems: 1,
  maxItems: 1,
  description: 'The detail of one server, in an array.',
} as const satisfies ArraySchema

const sentence = { type: 'string' } as const satisfies StringSchema

export const done = {
  id: 'Done',
  type: 'object',
  required: ['message'],
  properties: { message: { ...sentence, description: 'What was done.', examples: ['Game server deleted'] } },
} as const satisfies ObjectSchema

export const errorBody = {
  id: 'Error',
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      ...sentence,
      description: 'A sentence that says what is wrong.',
      examples: ['standingBy must be an integer ≥ 0, but is -1'],
    },
    code: {
      type: 'string',
      enum: errorCodes,
      description: 'What kind of failure it is, for programs. Absent in compatibility formats.',
      examples: ['invalid'],
    },
    details: {
      type: 'object',
      properties: {},
      unknownFields: 'keep',
      description: 'Facts about some failures, for programs. Absent in compatibility formats.',
    },
  },
} as const satisfies ObjectSchema

export const health = {
  id: 'Health',
  type: 'object',
  required: ['status'],
  properties: { status: { type: 'string', const: 'ok', description: 'This process answers.' } },
} as const satisfies ObjectSchema

/** The answer of a host that cannot lead. */
export const unable = {
  id: 'CannotLead',
  type: 'object',
  required: ['status', 'cause'],
  properties: {
    status: { type: 'string', const: 'cannot-lead', description: 'For a minute, this host could not lead.' },
    cause: { type: 'string', description: 'Why this host can neither lead nor find out who does.' },
  },
} as const satisfies ObjectSchema

export const unhealthy = { id: 'Unhealthy', anyOf: [unable, errorBody] } as const satisfies AnyOfSchema

export const readiness = {
  id: 'Readiness',
  type: 'object',
  required: ['ready', 'leads', 'store', 'backend'],
  properties: {
    ready: { type: 'boolean', description: 'True when all of the others are.' },
    leads: { type: 'boolean', description: 'False while another host leads the fleet, or this one is closing.' },
    store: { type: 'boolean', description: 'Whether the store responds.' },
    backend: { type: 'boolean', description: 'Whether the backend responds.' },
  },
} as const satisfies ObjectSchema

export const unready = { id: 'Unready', anyOf: [readiness, errorBody] } as const satisfies AnyOfSchema
