/** Schemas of a server's labels, annotations, counters and lists: declared in a build, changed by a request, and as they are. */
import { sizeLimits } from '../model/sizes.js'
import { count, kib } from './common.js'
import type { ArraySchema, MapSchema, NumberSchema, ObjectSchema, StringSchema } from './schema.js'

/** The syntax of Kubernetes: an optional DNS name and a slash, and a name of 1 to 63 characters. */
export const dataKey = {
  type: 'string',
  maxLength: 317,
  pattern: '^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$',
  expected: 'the form of a Kubernetes label key, such as map or example.com/map',
} as const satisfies StringSchema

export const labelText = {
  type: 'string',
  mayBeEmpty: true,
  pattern: '^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$',
  expected: 'a Kubernetes label value: at most 63 letters, digits and inner dashes, underscores and dots',
} as const satisfies StringSchema

export const annotationText = {
  type: 'string',
  mayBeEmpty: true,
  maxBytes: sizeLimits.annotationsBytes,
} as const satisfies StringSchema

/** The name of a counter or a list. */
export const dataName = {
  type: 'string',
  pattern: '^[A-Za-z]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$',
  expected: '1 to 63 letters, digits and inner dashes, underscores and dots, beginning with a letter',
} as const satisfies StringSchema

export const listValue = {
  type: 'string',
  minLength: 1,
  maxBytes: sizeLimits.listValueBytes,
  expected: 'a non-empty string',
} as const satisfies StringSchema

const listValues = {
  type: 'array',
  items: listValue,
  maxItems: sizeLimits.listCapacity,
  uniqueItems: true,
  expected: 'an array of distinct strings',
} as const satisfies ArraySchema

const listCapacity = {
  type: 'integer',
  minimum: 0,
  maximum: sizeLimits.listCapacity,
} as const satisfies NumberSchema

const amount = { type: 'integer', minimum: 1 } as const satisfies NumberSchema

export const counter = {
  id: 'Counter',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a counter: { count, capacity }',
  description: 'A number from 0 to its capacity.',
  required: ['count', 'capacity'],
  properties: {
    count: { ...count, description: 'At most the capacity.', examples: [0] },
    capacity: { ...count, description: 'The largest possible count.', examples: [10] },
  },
} as const satisfies ObjectSchema

export const list = {
  id: 'ValueList',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a list: { values, capacity }',
  description: `Distinct texts of at most ${sizeLimits.listValueBytes} bytes of UTF-8.`,
  required: ['values', 'capacity'],
  properties: {
    values: { ...listValues, description: 'At most as many as the capacity.', examples: [[]] },
    capacity: { ...listCapacity, description: 'The largest possible number of values.', examples: [100] },
  },
} as const satisfies ObjectSchema

const counterMap = {
  type: 'object',
  keys: dataName,
  additionalProperties: counter,
  expected: 'an object of counters',
} as const satisfies MapSchema

const listMap = {
  type: 'object',
  keys: dataName,
  additionalProperties: list,
  expected: 'an object of lists',
} as const satisfies MapSchema

export const declaredCounters = {
  ...counterMap,
  description: `The counters of each server with their initial values, at most ${sizeLimits.counters}. A change starts a rolling update.`,
  examples: [{ rooms: { count: 0, capacity: 10 } }],
} as const satisfies MapSchema

export const declaredLists = {
  ...listMap,
  description: `The lists of each server with their initial values, at most ${sizeLimits.counters}. A change starts a rolling update.`,
  examples: [{ rooms: { values: [], capacity: 10 } }],
} as const satisfies MapSchema

export const labels = { type: 'object', keys: dataKey, additionalProperties: labelText } as const satisfies MapSchema
const annotations = { type: 'object', keys: dataKey, additionalProperties: annotationText } as const satisfies MapSchema

/** A server's data in its resource: labels and annotations in its metadata, counters and lists in its status. */
export const serverData = {
  labels: { ...labels, description: 'Labels of the server. They begin with those of the template.' },
  annotations: { ...annotations, description: 'Annotations of the server.' },
  counters: { ...counterMap, description: 'Counters of the server, which the spec of its build declares.' },
  lists: { ...listMap, description: 'Lists of the server, which the spec of its build declares.' },
} as const

export const serverDataUpdate = {
  id: 'GameServerUpdate',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with labels, annotations, counters or lists',
  description: 'A change of the data of a server. Atomic.',
  minProperties: 1,
  properties: {
    labels: {
      ...labels,
      additionalProperties: { ...labelText, nullable: true },
      expected: 'an object of labels',
      description: `Labels to set; null removes one. A server has at most ${sizeLimits.labels}.`,
      examples: [{ map: 'dust', 'example.com/mode': null }],
    },
    annotations: {
      ...annotations,
      additionalProperties: { ...annotationText, nullable: true },
      expected: 'an object of annotations',
      description: `Annotations to set; null removes one. At most ${kib(sizeLimits.annotationsBytes)} of UTF-8 per server, keys included.`,
    },
    counters: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with increment, decrement, count or capacity',
        description: 'capacity is set first. Only one of increment, decrement and count may be present.',
        minProperties: 1,
        properties: {
          increment: { ...amount, description: 'Amount to add.', examples: [1] },
          decrement: { ...amount, description: 'Amount to subtract.' },
          count: { ...count, description: 'The new count.' },
          capacity: { ...count, description: 'The new capacity.' },
        },
      },
      expected: 'an object of changes by counter',
      description: 'Changes of counters. A count must stay between 0 and its capacity.',
    },
    lists: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with add, remove or capacity',
        description: 'capacity is set first, then values are removed, then added.',
        minProperties: 1,
        properties: {
          add: { ...listValues, description: 'Values to add at the end, unless the list has them.' },
          remove: { ...listValues, description: 'Values to remove, if the list has them.' },
          capacity: { ...listCapacity, description: 'The new capacity.' },
        },
      },
      expected: 'an object of changes by list',
      description: 'Changes of lists. A list must not have more values than its capacity.',
    },
  },
} as const satisfies ObjectSchema
