/** Reads lists over HTTP, whole or in pages. */
import { type AllOptions, type CallOptions, itemsOf, type Page, type PageOptions } from '../contracts/call-options.js'
import { checkNames } from '../contracts/option-checks.js'
import { continueHeader } from '../rules/model/wire.js'
import { isObject } from '../rules/validation/problem.js'
import type { Call, Connection } from './connection.js'

const defaultLimit = 500

/** `owner` is `builds` or `servers`. `urlOf` returns the URL of the list with this filter; `native` converts an item of any format. */
export function listCalls<T, F extends object>(
  calls: Connection,
  owner: string,
  filters: readonly (keyof F & string)[],
  urlOf: (filter: Partial<F>) => string,
  native?: (item: T) => T,
) {
  /** The host checks the values. Without a limit, it would answer with the whole list. */
  const read = (options: PageOptions & Partial<F>) => {
    const { limit = defaultLimit, continue: token, signal } = options
    return readPage<T>(calls, { url: urlOf(options), query: { limit, continue: token }, signal }, native)
  }
  return {
    async list(options: CallOptions & Partial<F> = {}): Promise<readonly T[]> {
      checkNames(`${owner}.list`, options, [...filters, 'signal'])
      const { items } = await readPage<T>(calls, { url: urlOf(options), signal: options.signal }, native)
      return items
    },
    async page(options: PageOptions & Partial<F> = {}): Promise<Page<T>> {
      checkNames(`${owner}.page`, options, [...filters, 'limit', 'continue', 'signal'])
      return read(options)
    },
    all(options: AllOptions & Partial<F> = {}): AsyncGenerator<T, void> {
      checkNames(`${owner}.all`, options, [...filters, 'limit', 'signal'])
      return itemsOf((next) => read({ ...options, continue: next }))
    },
  }
}

/** In a compatibility format, a list is an object with `items`, and what the native format lists alone is an object by itself. */
export async function readPage<T>(calls: Connection, call: Call, native?: (item: T) => T): Promise<Page<T>> {
  const { value, headers } = await calls.answer<unknown>({
    ...call,
    isIdempotent: true,
  })
  const next = headers.get(continueHeader)
  // As everywhere, the client takes the host's word for the type.
  const items = itemsIn(value) as readonly T[]
  return { items: native ? items.map(native) : items, ...(next !== null && { continue: next }) }
}

function itemsIn(value: unknown): unknown {
  return isObject(value) ? (value['items'] ?? [value]) : value
}
