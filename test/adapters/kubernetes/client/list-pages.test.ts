/** Lists of many objects are read in pages. */
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../../../adapters/kubernetes/client/api-errors.js'
import { type ApiCall, listPages } from '../../../../adapters/kubernetes/client/api.js'
import { clusterApi } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'

const call: ApiCall = { what: 'list roles', method: 'GET', path: '/apis/rbac.authorization.k8s.io/v1/clusterroles' }
const unexpected = () => new Error('no list')

/** Answers with these pages; undefined stands for a page that the server no longer has. */
function answering(...pages: readonly (readonly string[] | undefined)[]) {
  const queries: ApiCall['query'][] = []
  const request = async ({ query }: ApiCall) => {
    queries.push(query)
    const names = pages[queries.length - 1]
    if (!names) throw new ApiError(410, 'Expired', 'the continue token is too old', undefined)
    const isLast = queries.length >= pages.length
    const items = names.map((name) => ({ metadata: { name, managedFields: [{ manager: 'kubectl' }] } }))
    return { metadata: { resourceVersion: `${queries.length}`, ...(!isLast && { continue: 'here' }) }, items }
  }
  return { queries, request }
}

describe('a list', () => {
  it('is read in pages, without who has set which field, and has the revision of the first', async () => {
    const { queries, request } = answering(['a', 'b'], ['c'], [])
    const query = { labelSelector: 'x' }
    const { items, revision } = await listPages({ ...call, query }, request, unexpected)
    expect(items).toEqual(['a', 'b', 'c'].map((name) => ({ metadata: { name } })))
    expect(revision).toBe('1')
    expect(queries).toEqual([
      { ...query, limit: 500 },
      { ...query, limit: 500, continue: 'here' },
      { ...query, limit: 500, continue: 'here' },
    ])
  })

  it('is read again in one piece when the server no longer has its revision', async () => {
    const { queries, request } = answering(['a'], undefined, ['b', 'c'])
    const { items, revision } = await listPages(call, request, unexpected)
    expect([items.map(({ metadata }) => metadata.name), revision]).toEqual([['b', 'c'], '3'])
    expect(queries.at(-1)).toEqual({})
  })

  it('with a limit of its own is one page', async () => {
    const { queries, request } = answering(['a'], ['b'])
    const { items } = await listPages({ ...call, query: { limit: 1 } }, request, unexpected)
    expect([items.length, queries]).toEqual([1, [{ limit: 1 }]])
  })

  it('fails if a page is no list', async () => {
    await expect(listPages(call, async () => ({ kind: 'Status' }), unexpected)).rejects.toThrow('no list')
  })
})

describeOnCluster('a list on a cluster', () => {
  it('has the same objects in pages as in one piece', async () => {
    const api = clusterApi()
    let pages = 0
    const request = (page: ApiCall) => {
      pages++
      return api.request(page)
    }
    const whole = await listPages(call, request, unexpected, 10_000)
    expect(pages).toBe(1)
    const paged = await listPages(call, request, unexpected, 10)
    expect(pages).toBeGreaterThan(3)
    const names = ({ items }: typeof whole) => items.map(({ metadata }) => metadata.name)
    // Other tests create and delete roles meanwhile.
    const builtIn = (all: readonly string[]) => all.filter((name) => name.startsWith('system:'))
    expect(builtIn(names(paged))).toEqual(builtIn(names(whole)))
    api.close()
  })
})
