/**
 * Reads a list in pages. With thousands of objects, one response would take seconds to parse, in which a leader cannot renew its lease, and
 * many times its size in memory.
 */
import { isObject } from '../../../src/rules/validation/problem.js'
import type { ApiCall } from './api-call.js'
import { statusOf } from './api-errors.js'
import { isKubeObject, type KubeMeta, type KubeObject } from './kube-objects.js'

export interface ListResult {
  readonly items: readonly KubeObject[]
  readonly revision: string
}

interface Page extends ListResult {
  /** Where the next page begins; empty after the last one. */
  readonly next: string
}

/** About 5 MB of pods. */
const defaultPageSize = 500

/**
 * All pages show the same revision. If the server no longer has it when a later page is read, the list is read again in one piece. A call
 * with a limit of its own gets only its first page. Throws `unexpected` if a response is not a list.
 */
export async function listPages(
  call: ApiCall,
  request: (call: ApiCall) => Promise<unknown>,
  unexpected: () => Error,
  limit = defaultPageSize,
): Promise<ListResult> {
  const read = async (query: ApiCall['query']): Promise<Page> => {
    const page = pageIn(await request({ ...call, query: { ...call.query, ...query } }))
    if (!page) throw unexpected()
    return page
  }
  if (call.query?.['limit'] !== undefined) return read({})
  const first = await read({ limit })
  const items = [...first.items]
  for (let { next } = first; next !== '';) {
    try {
      const page = await read({ limit, continue: next })
      items.push(...page.items)
      next = page.next
    } catch (error) {
      if (statusOf(error) !== 410) throw error
      return read({})
    }
  }
  return { items, revision: first.revision }
}

function pageIn(response: unknown): Page | undefined {
  if (!isObject(response) || !Array.isArray(response['items']) || !isObject(response['metadata'])) return undefined
  const { resourceVersion, continue: next } = response['metadata']
  const items = response['items'].filter(isKubeObject)
  for (const { metadata } of items) dropManagedFields(metadata)
  return {
    items,
    revision: typeof resourceVersion === 'string' ? resourceVersion : '',
    next: typeof next === 'string' ? next : '',
  }
}

/** Who has set which field: most of a pod's size, and of no use to this host. */
function dropManagedFields(metadata: KubeMeta & { managedFields?: unknown }): void {
  delete metadata.managedFields
}
