/** Reads one page of a list. The token for the next page names the list and the position of the page's last item. */
import { FleetError } from '../contracts/errors.js'
import type { Page, PageOptions } from '../contracts/call-options.js'
import { mapInSlices } from '../platform/turns.js'
import { firstAfter, type Position } from '../rules/model/paging.js'
import { shown } from '../rules/validation/problem.js'

const defaultLimit = 500
const maxLimit = 10_000

export interface PagedList<E, T> {
  /** What is listed, including the filter: a token from another list is refused. */
  readonly name: string
  readonly entries: Iterable<E>
  readonly resource: (entry: E) => T
}

/** Throws `invalid` for a limit out of range and for a token that is not from this list. */
export async function readPage<E extends { readonly record: Position }, T>(
  { name, entries, resource }: PagedList<E, T>,
  { limit = defaultLimit, continue: token }: PageOptions,
): Promise<Page<T>> {
  if (!Number.isInteger(limit) || limit < 1 || limit > maxLimit) {
    throw new FleetError('invalid', `limit must be an integer from 1 to ${maxLimit}, but is ${shown(limit)}`)
  }
  const after = token === undefined ? undefined : positionIn(token, name)
  // One more than the page has, to find out whether there is a next page.
  const found = firstAfter(entries, ({ record }) => record, after, limit + 1)
  const last = found.length > limit ? found[limit - 1] : undefined
  const items = await mapInSlices(found.slice(0, limit), resource)
  return { items, ...(last && { continue: tokenOf(name, last.record) }) }
}

function tokenOf(list: string, { createdAt, namespace, name }: Position): string {
  return Buffer.from(JSON.stringify([list, createdAt, namespace, name])).toString('base64url')
}

function positionIn(token: string, list: string): Position {
  const [ofList, createdAt, namespace, name] = partsOf(token)
  const isToken =
    typeof ofList === 'string' &&
    typeof createdAt === 'number' &&
    typeof namespace === 'string' &&
    typeof name === 'string'
  if (!isToken) {
    const message = `continue must be what the page before returned, but is ${shown(token)}; leave it out to start again`
    throw new FleetError('invalid', message)
  }
  if (ofList !== list) {
    const message = `continue is from a list of ${shown(ofList)}, but this is a list of ${shown(list)}; leave it out to start again`
    throw new FleetError('invalid', message)
  }
  return { createdAt, namespace, name }
}

function partsOf(token: unknown): readonly unknown[] {
  if (typeof token !== 'string') return []
  try {
    const parts: unknown = JSON.parse(Buffer.from(token, 'base64url').toString())
    return Array.isArray(parts) ? parts : []
  } catch {
    return []
  }
}
