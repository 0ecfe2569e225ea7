/** Reads lists over HTTP, whole or in pages. */
import { type AllOptions, type CallOptions, itemsOf, type Page, type PageOptions } from '../contracts/call-options.js'
import { FleetError } from '../contracts/errors.js'
import { checkNames } from '../contracts/option-checks.js'
import { continueHeader } from '../rules/model/wire.js'
import type { Call, Connection } from './connection.js'

const defaultLimit = 500

/** `owner` is `builds` or `servers`. `urlOf` returns the URL of the list with this filter. */
export function listCalls<T, F extends object>(
  calls: Connection,
  owner: string,
  filters: readonly (keyof F & string)[],
  urlOf: (filter: Partial<F>) => string,
) {
  /** The host checks the values. Without a limit, it would answer with the whole list. */
  const read = (options: PageOptions & Partial<F>) => {
    const { limit = defaultLimit, continue: token, signal } = options
    return readPage<T>(calls, { url: urlOf(options), query: { limit, continue: token }, signal })
  }
  return {
    async list(options: CallOptions & Partial<F> = {}): Promise<readonly T[]> {
      checkNames(`${owner}.list`, options, [...filters, 'signal'])
      const { items } = await readPage<T>(calls, { url: urlOf(options), signal: options.signal })
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

/** Throws `unsupported` if the host uses a compatibility format, in which a list is an object. */
export async function readPage<T>(calls: Connection, call: Call): Promise<Page<T>> {
  const { value: items, headers } = await calls.answer<readonly T[] | { readonly metadata: unknown }>({
    ...call,
    isIdempotent: true,
  })
  if ('metadata' in items) {
    const message = `${call.url} answers in a compatibility format (compat); the client needs the native one`
    throw new FleetError('unsupported', message)
  }
  const next = headers.get(continueHeader)
  return { items, ...(next !== null && { continue: next }) }
}
