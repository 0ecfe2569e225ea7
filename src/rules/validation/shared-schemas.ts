/** Schemas shared by several resources. */
import { guidPattern, labelPattern, maxBuildNameLength, maxNamespaceLength } from '../model/names.js'
import { maxPort, minPort } from '../model/ports.js'
import { sizeLimits } from '../model/sizes.js'
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
export const guid = { type: 'string', pattern: guidPattern, expected: 'a GUID' } as const satisfies StringSchema

export const sessionID = {
  type: 'string',
  minLength: 1,
  maxLength: sizeLimits.sessionIDLength,
  controls: 'visible',
  expected: `a string of 1 to ${sizeLimits.sessionIDLength} visible characters`,
} as const satisfies StringSchema

export const playerIDs = {
  type: 'array',
  items: { type: 'string', mayBeEmpty: true },
  expected: 'an array of strings',
} as const satisfies ArraySchema

/** Formats a size for a description: `32 KiB`. */
export function kib(bytes: number): string {
  return `${bytes / 1_024} KiB`
}

/** The ids of players in a request. */
export const initialPlayers = {
  type: 'array',
  maxItems: sizeLimits.initialPlayers,
  maxTotalBytes: sizeLimits.initialPlayersBytes,
  items: { type: 'string', maxBytes: sizeLimits.playerIDBytes },
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

/** The public ports of a server. */
export const allocatedPorts = {
  type: 'array',
  items: {
    id: 'AllocatedPort',
    type: 'object',
    description: 'A public port of a game server.',
    required: ['name', 'container', 'public', 'protocol'],
    properties: {
      name: {
        type: 'string',
        description: 'Its name in the template, or else `port_<container>`.',
        examples: ['game'],
      },
      container: { ...port, description: 'Its number in the template.' },
      public: { ...port, description: 'The number that players connect to.' },
      protocol: {
        type: 'string',
        description: 'The protocol that the template declares. The port is open for both TCP and UDP in any case.',
        examples: ['UDP'],
      },
    },
  },
  description:
    'The public ports, in the order of portsToExpose. A port that the template declares for two protocols is listed twice.',
} as const satisfies ArraySchema

/** Identifies a server. */
export const serverRef = {
  type: 'object',
  description: 'Namespace and name of the server.',
  required: ['namespace', 'name'],
  properties: {
    namespace: { type: 'string', description: 'Namespace of the server.' },
    name: { type: 'string', description: 'Name of the server.', examples: ['arena-k3x9q'] },
  },
} as const satisfies ObjectSchema
