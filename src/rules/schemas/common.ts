/** Schemas shared by several resources. */
import { labelPattern, maxBuildNameLength, maxNamespaceLength } from '../model/names.js'
import { maxPort, minPort } from '../model/ports.js'
import type { ArraySchema, NumberSchema, ObjectSchema, StringSchema } from './schema.js'

export const count = { type: 'integer', minimum: 0 } as const satisfies NumberSchema

export const port = { type: 'integer', minimum: minPort, maximum: maxPort } as const satisfies NumberSchema

export const time = {
  type: 'string',
  format: 'date-time',
  description: 'RFC 3339, in UTC.',
  examples: ['2026-01-02T03:04:05.678Z'],
} as const satisfies StringSchema

/** A GUID of any version, in upper or lower case. */
export const guid = {
  type: 'string',
  pattern: '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$',
  expected: 'a GUID',
} as const satisfies StringSchema

export const playerIDs = {
  type: 'array',
  items: { type: 'string', mayBeEmpty: true },
  expected: 'an array of strings',
} as const satisfies ArraySchema

export const buildName = {
  type: 'string',
  maxLength: maxBuildNameLength,
  pattern: labelPattern.source,
  expected: `an RFC 1123 label of 1 to ${maxBuildNameLength} lowercase letters, digits and inner dashes`,
  description: 'Unique within its namespace. The names of its servers start with it.',
  examples: ['arena'],
} as const satisfies StringSchema

export const namespace = {
  type: 'string',
  maxLength: maxNamespaceLength,
  pattern: labelPattern.source,
  expected: `an RFC 1123 label of 1 to ${maxNamespaceLength} lowercase letters, digits and inner dashes`,
  description: 'Default: `default`.',
} as const satisfies StringSchema

export const apiVersion = {
  type: 'string',
  pattern: '^[^/]+/v1alpha1$',
  description: 'The API group of the fleet, followed by `/v1alpha1`.',
  examples: ['mps.gamekeeper.com/v1alpha1'],
} as const satisfies StringSchema

export const metadata = {
  id: 'Metadata',
  type: 'object',
  description: 'Identifies an object.',
  required: ['name', 'namespace'],
  properties: {
    name: { type: 'string', description: 'Unique within its namespace.' },
    namespace: { type: 'string', description: 'Namespace of the object.' },
    creationTimestamp: { ...time, description: 'When the object was created. RFC 3339, in UTC.' },
  },
} as const satisfies ObjectSchema
