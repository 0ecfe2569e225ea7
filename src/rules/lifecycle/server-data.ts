/** How a server's data begin, and how they change. Pure. */
import { canonical } from '../model/canonical.js'
import { type BuildSpec, draftOf, type Server } from '../model/resources.js'
import {
  type Counter,
  type CounterUpdate,
  dataOrNone,
  type ListUpdate,
  noData,
  type ServerData,
  type ServerDataUpdate,
  type ValueList,
} from '../model/server-data.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'
import { isObject, type Problem, shown } from '../validation/problem.js'
import { checkListBytes, isLabel, repairedData } from '../validation/server-data.js'

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

/** What somebody has edited in the store may be more than the limit. Then it must not become more. */
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
function own<T>(entries: Readonly<Record<string, T>>, key: string): T | undefined {
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
