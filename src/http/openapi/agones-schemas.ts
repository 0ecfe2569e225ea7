/**
 * The bodies of Agones' allocator, which `compat: 'agones'` reads and writes. As in every JSON of a protobuf service, fields that are not
 * known are skipped, names of an enum may be given by their number, and 64-bit integers are strings in answers and either in requests.
 */
import { dataKey, dataName, labelsSchema, labelText, listValue } from '../../rules/lifecycle/server-data.js'
import { labelOperators } from '../../rules/model/allocation-request.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import type { ObjectSchema, QuantitySchema } from '../../rules/validation/schema.js'
import { port } from '../../rules/validation/shared-schemas.js'

const int64 = {
  type: ['string', 'number'],
  pattern: '^\\d{1,16}$',
  minimum: 0,
  expected: 'an integer from 0 to 9007199254740991, as a number or a string',
} as const satisfies QuantitySchema

/** The names of each enum in the order of their numbers. */
export const allocatorEnums = {
  state: ['READY', 'ALLOCATED'],
  operator: labelOperators,
  scheduling: ['Packed', 'Distributed'],
  type: ['Counter', 'List'],
  order: ['Ascending', 'Descending'],
  action: ['Increment', 'Decrement'],
} as const

function enumOf(names: readonly string[], description: string): QuantitySchema {
  return {
    type: ['string', 'number'],
    pattern: `^(${names.join('|')})$`,
    minimum: 0,
    expected: `${names.join(', ')} or the number of one`,
    description,
  }
}

const anObject = { type: 'object', unknownFields: 'ignore', expected: 'an object' } as const

function mapOf<const S extends ObjectSchema>(description: string, additionalProperties: S) {
  return { type: 'object', keys: dataName, additionalProperties, expected: 'an object', description } as const
}

const noMaximum = { ...int64, description: 'Must be 0, which is no maximum.' } as const
const minAvailable = { ...int64, description: 'The least that must be left up to the capacity.' } as const

const selector = {
  ...anObject,
  id: 'AgonesGameServerSelector',
  description: 'Which servers fit. The label `agones.dev/fleet` is the name of the build.',
  properties: {
    matchLabels: {
      ...labelsSchema,
      expected: 'an object of labels',
      description: 'Labels that the server must have.',
      examples: [{ 'agones.dev/fleet': 'arena' }],
    },
    matchExpressions: {
      type: 'array',
      items: {
        ...anObject,
        required: ['key'],
        properties: {
          key: { ...dataKey, description: 'Key of the label.' },
          operator: enumOf(allocatorEnums.operator, 'In, NotIn, Exists or DoesNotExist. Default: In.'),
          values: {
            type: 'array',
            items: labelText,
            maxItems: sizeLimits.selectorValues,
            expected: 'an array of label values',
            description: 'For In and NotIn.',
          },
        },
      },
      expected: 'an array of label expressions',
      description: 'Conditions on labels. All must be true.',
    },
    gameServerState: enumOf(
      allocatorEnums.state,
      'READY (default): a server without a session. ALLOCATED: one that has room for another session.',
    ),
    counters: mapOf('Conditions on counters.', {
      ...anObject,
      properties: {
        minCount: { ...int64, description: 'The least count.' },
        minAvailable,
        maxCount: noMaximum,
        maxAvailable: noMaximum,
      },
    }),
    lists: mapOf('Conditions on lists.', {
      ...anObject,
      properties: {
        containsValue: { type: 'string', mayBeEmpty: true, description: 'A value that the list must have.' },
        minAvailable,
        maxAvailable: noMaximum,
      },
    }),
  },
} as const satisfies ObjectSchema

const selectors = { type: 'array', items: selector, expected: 'an array of selectors' } as const

const metaPatch = {
  ...anObject,
  id: 'AgonesMetaPatch',
  description: 'Labels and annotations to set on the server.',
  properties: {
    labels: { ...labelsSchema, expected: 'an object of labels', description: 'Labels to set.' },
    annotations: {
      type: 'object',
      keys: dataKey,
      additionalProperties: { type: 'string', mayBeEmpty: true },
      expected: 'an object of annotations',
      description:
        'Annotations to set. Those of `mps.gamekeeper.com` are the session-id, the session-cookie and the initial-players.',
    },
  },
} as const satisfies ObjectSchema

const capacity = { ...int64, description: 'The new capacity.' } as const
const valueList = { type: 'array', items: listValue, expected: 'an array of non-empty strings' } as const

export const allocatorRequest = {
  ...anObject,
  id: 'AgonesAllocationRequest',
  description: 'A request to the allocator of Agones.',
  properties: {
    namespace: { type: 'string', mayBeEmpty: true, description: 'Namespace of the builds. Default: `default`.' },
    gameServerSelectors: {
      ...selectors,
      description: 'The first that a server fits wins. Default: any READY server.',
    },
    requiredGameServerSelector: selector,
    preferredGameServerSelectors: {
      ...selectors,
      description: 'The old spelling: tried in order, before the required one.',
    },
    scheduling: enumOf(
      allocatorEnums.scheduling,
      'Packed (default): a server on the machine where the most have a session. Distributed: where the fewest have.',
    ),
    priorities: {
      type: 'array',
      items: {
        ...anObject,
        properties: {
          type: enumOf(allocatorEnums.type, 'Must be Counter, the default.'),
          key: { ...dataName, description: 'Name of a counter.' },
          order: enumOf(
            allocatorEnums.order,
            'Ascending (default): the server that has the least left. Descending: the most.',
          ),
        },
      },
      expected: 'an array of priorities',
      description: 'At most one. With it, scheduling has no effect.',
    },
    metadata: metaPatch,
    metaPatch,
    counters: mapOf('Changes of counters, together with the session.', {
      ...anObject,
      properties: {
        action: {
          type: 'string',
          enum: allocatorEnums.action,
          description: 'What to do with the amount.',
        },
        amount: { ...int64, description: 'Set if action is.' },
        capacity,
      },
    }),
    lists: mapOf('Changes of lists, together with the session.', {
      ...anObject,
      properties: {
        addValues: { ...valueList, description: 'Values to add.' },
        deleteValues: { ...valueList, description: 'Values to delete.' },
        capacity,
      },
    }),
    multiClusterSetting: {
      ...anObject,
      properties: { enabled: { type: 'boolean', description: 'Must not be true.' } },
      description: 'Whether to ask other clusters.',
    },
  },
} as const satisfies ObjectSchema

const anyText = { type: 'string', mayBeEmpty: true } as const
const texts = { type: 'object', additionalProperties: anyText } as const

function integerText(description: string) {
  return { type: 'string', pattern: '^\\d+$', description } as const
}

export const allocatorResponse = {
  id: 'AgonesAllocationResponse',
  type: 'object',
  description: 'The server that was allocated.',
  required: ['gameServerName', 'ports', 'address', 'addresses', 'nodeName', 'source', 'metadata', 'counters', 'lists'],
  properties: {
    gameServerName: { ...anyText, description: 'Name of the server.' },
    ports: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'port'],
        properties: {
          name: { ...anyText, description: 'Its name in the template.' },
          port: { ...port, description: 'The number that players connect to.' },
        },
      },
      description: 'The public ports.',
    },
    address: { type: 'string', description: 'Address that players connect to.', examples: ['203.0.113.9'] },
    addresses: {
      type: 'array',
      items: {
        type: 'object',
        required: ['type', 'address'],
        properties: {
          type: { type: 'string', enum: ['ExternalIP', 'ExternalDNS'], description: 'Whether it is a name.' },
          address: { ...anyText, description: 'The same as the address of the server.' },
        },
      },
      description: 'The address, as a list.',
    },
    nodeName: { ...anyText, description: 'The machine that the server runs on. Empty if it is not known.' },
    source: { type: 'string', const: 'local', description: 'Always `local`.' },
    metadata: {
      type: 'object',
      required: ['labels', 'annotations'],
      properties: {
        labels: { ...texts, description: 'Labels of the server.' },
        annotations: { ...texts, description: 'Annotations of the server.' },
      },
      description: 'What the server has after the allocation.',
    },
    counters: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        required: ['count', 'capacity'],
        properties: { count: integerText('The count.'), capacity: integerText('The largest possible count.') },
      },
      description: 'Counters of the server.',
    },
    lists: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        required: ['values', 'capacity'],
        properties: {
          values: { type: 'array', items: anyText, description: 'The values.' },
          capacity: integerText('The largest possible number of values.'),
        },
      },
      description: 'Lists of the server.',
    },
  },
} as const satisfies ObjectSchema

export const allocatorError = {
  id: 'AgonesError',
  type: 'object',
  required: ['code', 'message', 'details'],
  properties: {
    code: { type: 'integer', minimum: 1, maximum: 16, description: 'A status code of gRPC.', examples: [8] },
    message: { type: 'string', description: 'What was wrong.' },
    details: { type: 'array', items: { type: 'object', properties: {} }, description: 'Always empty.' },
  },
} as const satisfies ObjectSchema
