/**
 * Labels, annotations, counters and lists of a server, which are data for choosing a server and for its game: what they may be, how they
 * begin, and how they change. Immutable and pure.
 */
import { type BuildSpec, draftOf, type Server } from '../model/resources.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'
import { canonical } from '../model/values.js'
import { type Checked, invalid, isObject, type Problem, type Refused, shown, valid } from '../validation/problem.js'
import type { ArraySchema, MapSchema, NumberSchema, ObjectSchema, StringSchema } from '../validation/schema.js'
import { count, kib } from '../validation/shared-schemas.js'
import { compile, type Validator } from '../validation/validator.js'

/** A server's labels, annotations, counters and lists. */
export interface ServerData {
  /** Text by key, in the syntax of Kubernetes labels. Begin with the labels in the build's template. */
  readonly labels: Readonly<Record<string, string>>
  /** Any text by key. */
  readonly annotations: Readonly<Record<string, string>>
  /** The counters that the build's spec declares. */
  readonly counters: Readonly<Record<string, Counter>>
  /** The lists that the build's spec declares. */
  readonly lists: Readonly<Record<string, ValueList>>
}

/** A number from 0 to its capacity, such as the rooms in use. Both are at most 2^53 − 1. */
export interface Counter {
  readonly count: number
  readonly capacity: number
}

/** Distinct texts, at most as many as the capacity, such as the ids of rooms. */
export interface ValueList {
  readonly values: readonly string[]
  readonly capacity: number
}

/** A change of a server's data. Atomic. */
export interface ServerDataUpdate {
  /** Labels to set; null removes one. */
  readonly labels?: Readonly<Record<string, string | null>>
  /** Annotations to set; null removes one. */
  readonly annotations?: Readonly<Record<string, string | null>>
  readonly counters?: Readonly<Record<string, CounterUpdate>>
  readonly lists?: Readonly<Record<string, ListUpdate>>
}

/** `capacity` is set first. Only one of the others may be present. */
export interface CounterUpdate {
  readonly capacity?: number
  /** Amount to add. */
  readonly increment?: number
  /** Amount to subtract. */
  readonly decrement?: number
  /** The new count. */
  readonly count?: number
}

/** `capacity` is set first, then values are removed, then added. */
export interface ListUpdate {
  readonly capacity?: number
  /** Values to add at the end, unless the list has them. */
  readonly add?: readonly string[]
  /** Values to remove, if the list has them. */
  readonly remove?: readonly string[]
}

export const noData: ServerData = Object.freeze({ labels: {}, annotations: {}, counters: {}, lists: {} })

/** Returns undefined if there is nothing in it, so that most records have no data. */
export function dataOrNone(data: ServerData): ServerData | undefined {
  const { labels, annotations, counters, lists } = data
  return [labels, annotations, counters, lists].some((part) => Object.keys(part).length > 0) ? data : undefined
}

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

const annotationText = {
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

const counterSchema = {
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

const listSchema = {
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
  additionalProperties: counterSchema,
  expected: 'an object of counters',
} as const satisfies MapSchema

const listMap = {
  type: 'object',
  keys: dataName,
  additionalProperties: listSchema,
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

export const labelsSchema = {
  type: 'object',
  keys: dataKey,
  additionalProperties: labelText,
} as const satisfies MapSchema
const annotationsSchema = {
  type: 'object',
  keys: dataKey,
  additionalProperties: annotationText,
} as const satisfies MapSchema

/** A server's data in its resource: labels and annotations in its metadata, counters and lists in its status. */
export const serverDataSchema = {
  labels: { ...labelsSchema, description: 'Labels of the server. They begin with those of the template.' },
  annotations: { ...annotationsSchema, description: 'Annotations of the server.' },
  counters: { ...counterMap, description: 'Counters of the server, which the spec of its build declares.' },
  lists: { ...listMap, description: 'Lists of the server, which the spec of its build declares.' },
} as const

export const serverDataUpdateSchema = {
  id: 'GameServerUpdate',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with labels, annotations, counters or lists',
  description: 'A change of the data of a server. Atomic.',
  minProperties: 1,
  properties: {
    labels: {
      ...labelsSchema,
      additionalProperties: { ...labelText, nullable: true },
      expected: 'an object of labels',
      description: `Labels to set; null removes one. A server has at most ${sizeLimits.labels}.`,
      examples: [{ map: 'dust', 'example.com/mode': null }],
    },
    annotations: {
      ...annotationsSchema,
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

const checkKey = compile(dataKey)
const checkLabelText = compile(labelText)
const checkAnnotationText = compile(annotationText)
const checkCounter: Validator<Counter> = compile(counterSchema)
const checkList: Validator<ValueList> = compile(listSchema)
const checkUpdate: Validator<ServerDataUpdate> = compile(serverDataUpdateSchema)

/** True if a server can have this label. */
function isLabel(key: unknown, value: unknown): boolean {
  return checkKey(key).ok && checkLabelText(value).ok
}

/** Checks the counters and lists that a spec declares, which the schema has accepted. */
export function checkDeclared({ counters, lists }: Pick<BuildSpec, 'counters' | 'lists'>): Refused | undefined {
  return (
    checkCounts('spec.counters', counters) ?? checkCounts('spec.lists', lists) ?? checkListBytes('spec.lists', lists)
  )
}

/** Checks how large the values of all lists are together. */
function checkListBytes(field: string, lists: Readonly<Record<string, ValueList>> = {}): Refused | undefined {
  let bytes = 0
  for (const { values } of Object.values(lists)) for (const value of values) bytes += utf8Bytes(value)
  if (bytes <= sizeLimits.listsBytes) return undefined
  return invalid(
    field,
    `must have at most ${sizeLimits.listsBytes} bytes in all values together, but would have ${bytes}`,
  )
}

type Entries = Readonly<
  Record<string, { readonly count?: number; readonly values?: readonly string[]; readonly capacity: number }>
>

function checkCounts(field: string, entries: Entries = {}): Refused | undefined {
  const names = Object.keys(entries)
  if (names.length > sizeLimits.counters) {
    return invalid(field, `must have at most ${sizeLimits.counters} entries, but has ${names.length}`)
  }
  for (const [name, { count, values, capacity }] of Object.entries(entries)) {
    const size = count ?? values?.length ?? 0
    if (size <= capacity) continue
    const part = values ? 'values' : 'count'
    return invalid(`${field}.${name}.${part}`, `must be at most the capacity, which is ${capacity}, but is ${size}`)
  }
  return undefined
}

/** Reads the body of a request to change a server's data. The result is a copy. */
export function readDataUpdate(body: unknown): Checked<ServerDataUpdate> {
  const update = checkUpdate(body)
  if (!update.ok) return update
  return checkCounterChanges(update.value) ?? valid(structuredClone(update.value))
}

/** Checks changes that the schema has accepted. */
export function checkCounterChanges({ counters = {} }: Pick<ServerDataUpdate, 'counters'>): Refused | undefined {
  for (const [name, counterSchema] of Object.entries(counters)) {
    const [first, second] = (['increment', 'decrement', 'count'] as const).filter(
      (part) => counterSchema[part] !== undefined,
    )
    if (second) return invalid(`counters.${name}.${second}`, `is not allowed beside ${first}`)
  }
  return undefined
}

/**
 * Returns data from a store, where anybody may have edited them, without what is invalid. In its place comes the entry of `otherwise`
 * with the same key, if there is one.
 */
export function repairedData(data: Partial<ServerData>, otherwise: ServerData = noData): ServerData | undefined {
  return dataOrNone({
    labels: validIn(data.labels, otherwise.labels, isLabel),
    annotations: validIn(
      data.annotations,
      otherwise.annotations,
      (key, text) => checkKey(key).ok && checkAnnotationText(text).ok,
    ),
    counters: validIn(data.counters, otherwise.counters, (_, value) => {
      const checked = checkCounter(value)
      return checked.ok && checked.value.count <= checked.value.capacity
    }),
    lists: validIn(data.lists, otherwise.lists, (_, value) => {
      const checked = checkList(value)
      return checked.ok && checked.value.values.length <= checked.value.capacity
    }),
  })
}

function validIn<T>(
  entries: Readonly<Record<string, T>> = {},
  otherwise: Readonly<Record<string, T>>,
  isValid: (key: string, value: T) => boolean,
): Readonly<Record<string, T>> {
  const kept: Record<string, T> = {}
  for (const [key, value] of Object.entries(entries)) {
    if (isValid(key, value)) kept[key] = value
    else if (Object.hasOwn(otherwise, key) && otherwise[key] !== undefined) kept[key] = otherwise[key]
  }
  return kept
}

/** The data that a new server of a build begins with. Labels of the template that are not valid as such are left out. */
export function initialData({ template, counters, lists }: BuildSpec): ServerData | undefined {
  const metadata = template['metadata']
  const given = isObject(metadata) && isObject(metadata['labels']) ? metadata['labels'] : {}
  const labels = Object.fromEntries(
    Object.entries(given)
      .filter((entry): entry is [string, string] => isLabel(...entry))
      .slice(0, sizeLimits.labels),
  )
  // A spec from the store may be invalid. Its build then gets no servers.
  const declared = repairedData({ ...(counters && { counters }), ...(lists && { lists }) }) ?? noData
  return dataOrNone({ ...declared, labels })
}

type UpdatedData =
  | { readonly ok: true; readonly data: ServerData | undefined }
  /** `out-of-range`: the update may fit at another time. `invalid`: it never fits this server. */
  | { readonly ok: false; readonly code: 'invalid' | 'out-of-range'; readonly problem: Problem }

/**
 * Returns the data after an update, which has been validated. Refuses an update of a counter or list that the server does not have, one
 * that would leave a count or list out of its range, and one that would make the labels or annotations too large.
 */
export function updatedData(data: ServerData = noData, update: ServerDataUpdate): UpdatedData {
  const labels = update.labels ? withTexts(data.labels, update.labels) : data.labels
  const annotations = update.annotations ? withTexts(data.annotations, update.annotations) : data.annotations
  const tooLarge =
    (update.labels && tooManyIn(labels, data.labels)) ??
    (update.annotations && tooLargeIn(annotations, data.annotations))
  if (tooLarge) return { ok: false, code: 'out-of-range', problem: tooLarge }
  const counters = withEach('counters', data.counters, update.counters, updatedCounter)
  if (!counters.ok) return counters
  const lists = withEach('lists', data.lists, update.lists, updatedList)
  if (!lists.ok) return lists
  const tooMuch = update.lists && checkListBytes('lists', lists.entries)
  if (tooMuch) return { ok: false, code: 'out-of-range', problem: tooMuch.problem }
  return { ok: true, data: dataOrNone({ labels, annotations, counters: counters.entries, lists: lists.entries }) }
}

type Each<T> =
  { readonly ok: true; readonly entries: Readonly<Record<string, T>> } | Extract<UpdatedData, { ok: false }>

function withEach<T extends object, U>(
  field: 'counters' | 'lists',
  entries: Readonly<Record<string, T>>,
  updates: Readonly<Record<string, U>> | undefined,
  updated: (entry: T, update: U) => T | Problem,
): Each<T> {
  if (!updates) return { ok: true, entries }
  const next: Record<string, T> = { ...entries }
  for (const [name, update] of Object.entries(updates)) {
    const entry = own(entries, name)
    if (entry === undefined)
      return { ok: false, code: 'invalid', problem: undeclared(field, name, Object.keys(entries)) }
    const result = updated(entry, update)
    if (isProblem(result)) {
      const problem = { field: `${field}.${name}${result.field}`, message: result.message }
      return { ok: false, code: 'out-of-range', problem }
    }
    next[name] = result
  }
  return { ok: true, entries: next }
}

function isProblem(result: object): result is Problem {
  return 'message' in result
}

function undeclared(field: string, name: string, known: readonly string[]): Problem {
  const has = known.length === 0 ? 'none' : known.join(', ')
  const message = `does not exist: this server has ${has}. A server has the ${field} that its build declared when it was created`
  return { field: `${field}.${name}`, message }
}

function updatedCounter(
  counter: Counter,
  { capacity = counter.capacity, ...update }: CounterUpdate,
): Counter | Problem {
  const { increment = 0, decrement = 0 } = update
  const count = (update.count ?? counter.count) + increment - decrement
  if (count >= 0 && count <= capacity) return { count, capacity }
  const field = ['increment', 'decrement', 'count'].find((name) => name in update) ?? 'capacity'
  const message = `must leave the count between 0 and the capacity, but ${counter.count} of ${counter.capacity} would become ${count} of ${capacity}`
  return { field: `.${field}`, message }
}

function updatedList({ values, capacity: before }: ValueList, update: ListUpdate): ValueList | Problem {
  const { capacity = before, add = [], remove = [] } = update
  const next = new Set(values)
  for (const value of remove) next.delete(value)
  for (const value of add) next.add(value)
  if (next.size <= capacity) return { values: [...next], capacity }
  const message = `must leave at most as many values as the capacity, but ${values.length} of ${before} would become ${next.size} of ${capacity}`
  return { field: add.length > 0 ? '.add' : '.capacity', message }
}

function withTexts(
  texts: Readonly<Record<string, string>>,
  update: Readonly<Record<string, string | null>>,
): Readonly<Record<string, string>> {
  const next = { ...texts }
  for (const [key, text] of Object.entries(update)) {
    if (text === null) delete next[key]
    else next[key] = text
  }
  return next
}

type Texts = Readonly<Record<string, string>>

/** An edit in the store may have exceeded the limit already. Then a change must not add more. */
function tooManyIn(labels: Texts, before: Texts): Problem | undefined {
  const count = Object.keys(labels).length
  if (count <= Math.max(sizeLimits.labels, Object.keys(before).length)) return undefined
  return { field: 'labels', message: `must leave at most ${sizeLimits.labels} labels, but would leave ${count}` }
}

function tooLargeIn(annotations: Texts, before: Texts): Problem | undefined {
  const bytes = bytesOf(annotations)
  if (bytes <= Math.max(sizeLimits.annotationsBytes, bytesOf(before))) return undefined
  const message = `must leave at most ${sizeLimits.annotationsBytes} bytes in all annotations, but would leave ${bytes}`
  return { field: 'annotations', message }
}

function bytesOf(texts: Texts): number {
  return Object.entries(texts).reduce((sum, [key, text]) => sum + utf8Bytes(key) + utf8Bytes(text), 0)
}

/**
 * Merges two changes of the same data: what `mine` has changed since `base` stays, and everything else is as in `theirs`. A counter or
 * list is one value.
 */
export function mergedData(
  base: ServerData = noData,
  mine: ServerData = noData,
  theirs: ServerData = noData,
): ServerData | undefined {
  return dataOrNone({
    labels: merged(base.labels, mine.labels, theirs.labels),
    annotations: merged(base.annotations, mine.annotations, theirs.annotations),
    counters: merged(base.counters, mine.counters, theirs.counters),
    lists: merged(base.lists, mine.lists, theirs.lists),
  })
}

function merged<T>(
  base: Readonly<Record<string, T>>,
  mine: Readonly<Record<string, T>>,
  theirs: Readonly<Record<string, T>>,
): Readonly<Record<string, T>> {
  const next: Record<string, T> = { ...theirs }
  for (const key of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    const value = own(mine, key)
    if (isEqual(own(base, key), value)) continue
    if (value === undefined) delete next[key]
    else next[key] = value
  }
  return next
}

export function isSameData(a: ServerData | undefined, b: ServerData | undefined): boolean {
  return a === b || canonical(a ?? noData) === canonical(b ?? noData)
}

interface DataChange {
  /** `labels.map`. */
  readonly path: string
  /** `label map is "dust"`. */
  readonly text: string
}

/** What has changed between two data. */
export function dataChanges(before: ServerData = noData, after: ServerData = noData): readonly DataChange[] {
  return [
    ...changes('label', before.labels, after.labels, shown),
    ...changes('annotation', before.annotations, after.annotations, shown),
    ...changes('counter', before.counters, after.counters, ({ count, capacity }) => `${count} of ${capacity}`),
    ...changes('list', before.lists, after.lists, ({ values, capacity }) => `${values.length} of ${capacity} values`),
  ]
}

function changes<T>(
  kind: string,
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  shownValue: (value: T) => string,
): readonly DataChange[] {
  if (before === after) return []
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys]
    .filter((key) => !isEqual(own(before, key), own(after, key)))
    .map((key) => {
      const value = own(after, key)
      const text = value === undefined ? 'was removed' : `is ${shownValue(value)}`
      return { path: `${kind}s.${key}`, text: `${kind} ${key} ${text}` }
    })
}

/** Undefined for what every object inherits. */
export function own<T>(entries: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(entries, key) ? entries[key] : undefined
}

function isEqual(a: unknown, b: unknown): boolean {
  return a === b || (typeof a === 'object' && typeof b === 'object' && canonical(a) === canonical(b))
}

/** Returns the server with these data, or the same object if it has them. */
export function withData(server: Server, data: ServerData | undefined): Server {
  if (isSameData(server.data, data)) return server
  const next = draftOf(server)
  next.data = data
  return next
}
