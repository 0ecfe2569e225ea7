/** Schemas of a maintenance announcement: the request and the response. */
import { count, time } from './common.js'
import type { ObjectSchema } from './schema.js'

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
