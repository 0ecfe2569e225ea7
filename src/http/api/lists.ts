/** Answers requests for lists: the whole list, or one page of it if the query has `limit` or `continue`. */
import { FleetError } from '../../contracts/errors.js'
import type { Page, PageOptions } from '../../contracts/call-options.js'
import { continueHeader } from '../../rules/model/wire.js'
import { shown } from '../../rules/validation/problem.js'
import type { Exchange } from '../core/exchange.js'
import type { HttpResponse } from '../core/http-response.js'
import { jsonInSlices } from '../core/json-slices.js'

export interface ListCalls<T> {
  readonly list: () => Promise<readonly T[]>
  readonly page: (options: PageOptions) => Promise<Page<T>>
}

/** `bodyOf` converts the items to the body of the response. */
export async function listResponse<T>(
  exchange: Exchange,
  bodyOf: (items: readonly T[]) => unknown,
  { list, page }: ListCalls<T>,
): Promise<HttpResponse> {
  const limit = exchange.query('limit')
  // A script can send an empty token for the first page.
  const token = exchange.query('continue') || undefined
  if (limit === undefined && token === undefined) return jsonInSlices(200, bodyOf(await list()))
  const { items, continue: next } = await page({
    ...(limit !== undefined && { limit: wholeNumber(limit) }),
    continue: token,
  })
  return jsonInSlices(200, bodyOf(items), next === undefined ? undefined : { [continueHeader]: next })
}

/** The fleet checks the range. */
function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new FleetError('invalid', `limit must be an integer ≥ 1, but is ${shown(text)}`)
}
