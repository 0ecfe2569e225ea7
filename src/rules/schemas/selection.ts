/** Schema of a selector: which servers fit an allocation. */
import { allocationOrders, labelOperators, selectableStates } from '../model/allocation.js'
import { sizeLimits } from '../model/sizes.js'
import { count } from './common.js'
import type { ArraySchema, ObjectSchema } from './schema.js'
import { dataKey, dataName, labels, labelText, listValue } from './server-data.js'

const labelExpression = {
  id: 'LabelExpression',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a label expression: { key, operator, values }',
  description: 'A condition on a label, as in Kubernetes.',
  required: ['key', 'operator'],
  properties: {
    key: { ...dataKey, description: 'Key of the label.', examples: ['map'] },
    operator: {
      type: 'string',
      enum: labelOperators,
      description: 'In and NotIn compare with values; NotIn is also true of a server without the label.',
    },
    values: {
      type: 'array',
      items: labelText,
      minItems: 1,
      maxItems: sizeLimits.selectorValues,
      expected: 'an array of label values',
      description: 'Required for In and NotIn, not allowed for the others.',
      examples: [['dust', 'canyon']],
    },
  },
} as const satisfies ObjectSchema

const serverSelector = {
  id: 'ServerSelector',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a selector object',
  description:
    'A server fits if it is of one of the builds and meets all conditions. Names builds by builds, buildLabels or both.',
  properties: {
    builds: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      minItems: 1,
      maxItems: sizeLimits.selectorBuilds,
      expected: 'an array of at least one buildID',
      description: `At most ${sizeLimits.selectorBuilds} buildIDs. Those that no build has are passed over.`,
      examples: [['arena', 'arena-canary']],
    },
    buildLabels: {
      ...labels,
      expected: 'an object of at least one label',
      description: `Labels that the build must have in its spec. Without builds, every build that has them is named, at most ${sizeLimits.labelledBuilds}.`,
      examples: [{ game: 'arena' }],
    },
    state: {
      type: 'string',
      enum: selectableStates,
      description:
        'ready (default): a server that is standing by. active: a server that runs sessions and has room for another one, in a build with sessionsPerServer; of several, the one with the most sessions is taken.',
    },
    matchLabels: {
      type: 'object',
      keys: dataKey,
      additionalProperties: labelText,
      expected: 'an object of labels',
      description: 'Labels that the server must have.',
      examples: [{ map: 'dust' }],
    },
    matchExpressions: {
      type: 'array',
      items: labelExpression,
      maxItems: sizeLimits.selectorConditions,
      expected: 'an array of label expressions',
      description: 'Conditions on labels. All must be true.',
    },
    counters: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with minCount or minAvailable',
        minProperties: 1,
        properties: {
          minCount: { ...count, description: 'The least count.' },
          minAvailable: { ...count, description: 'The least that must be left up to the capacity.', examples: [4] },
        },
      },
      expected: 'an object of conditions by counter',
      description: 'A server without the counter does not fit.',
    },
    lists: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with contains or minAvailable',
        minProperties: 1,
        properties: {
          contains: { ...listValue, description: 'A value that the list must have.' },
          minAvailable: { ...count, description: 'The least that must be left up to the capacity.' },
        },
      },
      expected: 'an object of conditions by list',
      description: 'A server without the list does not fit.',
    },
  },
} as const satisfies ObjectSchema

export const allocationOrder = {
  id: 'AllocationOrder',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an order: { by, counter }',
  description:
    'Which of the servers that fit the same selector is taken. Those that run the current template go first. Of equal ones, the one that has been standing by for longest is taken.',
  required: ['by'],
  properties: {
    by: {
      type: 'string',
      enum: allocationOrders,
      description:
        'first-ready: the server that has been standing by for longest. newest: for the shortest time. packed: one on the machine where the most servers of the fleet have a session; distributed: where the fewest have. least-available, most-available: by what the counter has left up to its capacity.',
      examples: ['packed'],
    },
    counter: {
      ...dataName,
      description: 'Required for least-available and most-available, not allowed for the others.',
    },
  },
} as const satisfies ObjectSchema

export const serverSelectors = {
  type: 'array',
  items: serverSelector,
  minItems: 1,
  maxItems: sizeLimits.selectors,
  expected: 'an array of at least one selector',
  description: `Which servers fit, most wanted first: the first selector that any server fits wins. At most ${sizeLimits.selectors} selectors, each with at most ${sizeLimits.selectorConditions} conditions of a kind. Not beside buildID.`,
} as const satisfies ArraySchema
