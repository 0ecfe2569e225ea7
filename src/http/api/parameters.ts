/** What handlers have in common: parameters of the path and the query, lists in pages, calls that wait. */
import type { Page, PageOptions } from '../../contracts/call-options.js'
import { FleetError } from '../../contracts/errors.js'
import type { Ref } from '../../rules/model/resources.js'
import { continueHeader } from '../../rules/model/wire.js'
import { misspelledName } from '../../rules/validation/closest-name.js'
import { isObject, shown, shownName } from '../../rules/validation/problem.js'
import { eitherSignal } from '../../util/signals.js'
import type { Exchange } from '../core/exchange.js'
import { type HttpResponse, jsonInSlices } from '../core/responses.js'
import { type OperationName, operations } from '../operations.js'

/** The resource that a path names. */
export function refInPath(exchange: Pick<Exchange, 'param'>): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}

/**
 * Throws `invalid` for a query parameter that looks like a misspelled one of the operation. Any other is left to the host app, whose hooks
 * can read parameters of their own.
 */
export function refuseMisspelled({ search }: Pick<Exchange, 'search'>, operation: OperationName): void {
  if (search === '') return
  const { query: known = [] } = operations[operation]
  for (const name of new URLSearchParams(search).keys()) {
    if (known.includes(name)) continue
    const meant = misspelledName(name, known)
    // A name with another first letter, such as `await`, is rather a parameter of the host app.
    if (meant === undefined || meant[0] !== name[0]?.toLowerCase()) continue
    throw new FleetError('invalid', `query parameter ${shownName(name)} is not allowed; did you mean ${meant}?`)
  }
}

/** Throws `invalid` for a body that has what belongs into the query: the value of an option of the same call in process. */
export function refuseOptionsIn(body: unknown, options: Readonly<Record<string, string>>): void {
  if (!isObject(body)) return
  for (const name in options) {
    // In an allocation, null counts as absent.
    if (body[name] === undefined || body[name] === null) continue
    const message = `${name} is not allowed in the body; did you mean the query parameter ${options[name]}?`
    throw new FleetError('invalid', message)
  }
}

/** A parameter such as `?confirm=true`. Without a value, it also means true. */
export function readFlag(exchange: Pick<Exchange, 'query'>, name: string): boolean {
  const text = exchange.query(name)
  switch (text) {
    case '':
    case '1':
    case 'true':
      return true
    case undefined:
    case '0':
    case 'false':
      return false
    default:
      throw new FleetError('invalid', `${name} must be true or false, but is ${shown(text)}`)
  }
}

/** A parameter such as `?tail=100`. The callee checks its range; `minimum` is for the message. */
export function readCount(exchange: Pick<Exchange, 'query'>, name: string, minimum = 0): number | undefined {
  const text = exchange.query(name)
  if (text === undefined || /^\d{1,15}$/.test(text)) return text === undefined ? undefined : Number(text)
  throw new FleetError('invalid', `${name} must be an integer ≥ ${minimum}, but is ${shown(text)}`)
}

/** The names by which the body of a call that waits might have its query parameter. */
export const waitOption = { waitMs: 'wait', wait: 'wait' } as const

/** Parses `?wait=`, a number of seconds that may have a fraction. */
export function readWaitMs(exchange: Pick<Exchange, 'query'>, maxWaitMs: number): number | undefined {
  const text = exchange.query('wait')
  if (text === undefined) return undefined
  const waitMs = /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * 1_000) : NaN
  if (waitMs <= maxWaitMs) return waitMs
  const message = `wait must be a number of seconds from 0 to ${maxWaitMs / 1_000}, but is ${shown(text)}`
  throw new FleetError('invalid', message)
}

/** Runs work that waits, until its caller leaves or this host closes. */
export async function waiting<T>(
  { signal: gone }: Exchange,
  closing: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (closing.aborted) throw closingError()
  const either = eitherSignal(gone, closing)
  try {
    return await work(either.signal)
  } catch (error) {
    if (!closing.aborted || gone.aborted || !FleetError.is(error, 'aborted')) throw error
    throw closingError()
  } finally {
    either.release()
  }
}

/** Without a cause, so that a caller reads one sentence. */
function closingError(): FleetError {
  return new FleetError('closed', 'this host is closing; retry on another host, or here after its restart')
}

interface Listed<T, F> {
  list(filter: F): Promise<readonly T[]>
  page(options: PageOptions & F): Promise<Page<T>>
}

/**
 * Answers a request for a list: the whole list, or one page of it if the query has `limit` or `continue`. `bodyOf` converts the items to
 * the body of the response.
 */
export async function listResponse<T, F extends object>(
  exchange: Exchange,
  bodyOf: (items: readonly T[]) => unknown,
  listed: Listed<T, F>,
  filter: F,
): Promise<HttpResponse> {
  const limit = readCount(exchange, 'limit', 1)
  // A script can send an empty token for the first page.
  const token = exchange.query('continue') || undefined
  if (limit === undefined && token === undefined) return jsonInSlices(200, bodyOf(await listed.list(filter)))
  const { items, continue: next } = await listed.page({
    ...filter,
    ...(limit !== undefined && { limit }),
    continue: token,
  })
  return jsonInSlices(200, bodyOf(items), next === undefined ? undefined : { [continueHeader]: next })
}
