/** Validates the data of servers: what a build declares, and requests to change them. Adds what a schema cannot express. Pure. */
import type { BuildSpec } from '../model/resources.js'
import {
  type Counter,
  dataOrNone,
  noData,
  type ServerData,
  type ServerDataUpdate,
  type ValueList,
} from '../model/server-data.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'
import { annotationText, counter, dataKey, labelText, list, serverDataUpdate } from '../schemas/server-data.js'
import { type Checked, invalid, type Refused, valid } from './problem.js'
import { compile, type Validator } from './validator.js'

const checkKey = compile(dataKey)
const checkLabelText = compile(labelText)
const checkAnnotationText = compile(annotationText)
const checkCounter: Validator<Counter> = compile(counter)
const checkList: Validator<ValueList> = compile(list)
const checkUpdate: Validator<ServerDataUpdate> = compile(serverDataUpdate)

/** True if a server can have this label. */
export function isLabel(key: unknown, value: unknown): boolean {
  return checkKey(key).ok && checkLabelText(value).ok
}

/** Checks the counters and lists that a spec declares, which the schema has accepted. */
export function checkDeclared({ counters, lists }: Pick<BuildSpec, 'counters' | 'lists'>): Refused | undefined {
  return (
    checkCounts('spec.counters', counters) ?? checkCounts('spec.lists', lists) ?? checkListBytes('spec.lists', lists)
  )
}

/** Checks how large the values of all lists are together. */
export function checkListBytes(field: string, lists: Readonly<Record<string, ValueList>> = {}): Refused | undefined {
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
  for (const [name, counter] of Object.entries(counters)) {
    const [first, second] = (['increment', 'decrement', 'count'] as const).filter((part) => counter[part] !== undefined)
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
