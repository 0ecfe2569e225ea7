/** Labels, annotations and counters of a server that are edited in the metadata of its object, as kubectl does. */
import { describe, expect, it, vi } from 'vitest'
import { appliedMetadata, editedMetadata, withEdits } from '../../../../adapters/kubernetes/store/server-object.js'
import { noData } from '../../../../src/rules/lifecycle/server-data.js'
import { defaultApiGroup as group } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, openFleet } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

const counters = { rooms: { count: 1, capacity: 10 } }
const rooms = `counters.${group}/rooms`

function edited(labels: object, annotations: object = {}) {
  return editedMetadata({ metadata: { name: 'arena-1', labels, annotations } as never }, group)
}

describe('edited metadata', () => {
  it('change the data once, and leave what the fleet has changed since', () => {
    const data = { ...noData, labels: { map: 'dust', by: 'fleet' }, counters }
    const first = edited({ map: 'sand' }, { note: 'x' })
    expect(withEdits(data, undefined, first, group)).toEqual({
      data: { ...data, labels: { map: 'sand', by: 'fleet' }, annotations: { note: 'x' } },
      refused: [],
    })
    expect(withEdits(data, first, first, group)).toEqual({ data, refused: [] })
    expect(withEdits(data, first, edited({}), group).data?.labels).toEqual({ by: 'fleet' })
    expect(appliedMetadata({ appliedMetadata: first }, group)).toEqual(first)
  })

  it('are not what the fleet, Kubernetes and kubectl keep there', () => {
    const own = { [`${group}/build`]: 'arena', 'app.kubernetes.io/name': 'x', 'node.k8s.io/y': 'z' }
    expect(edited(own, { 'kubectl.kubernetes.io/last-applied-configuration': '{}' })).toBeUndefined()
    expect(edited({ ...own, 'example.com/map': 'dust' })?.labels).toEqual({ 'example.com/map': 'dust' })
  })

  it.each([
    ['3', { count: 3, capacity: 10 }, undefined],
    ['3/20', { count: 3, capacity: 20 }, undefined],
    ['11', counters.rooms, 'more than the capacity, which is 10'],
    ['5/4', counters.rooms, 'more than the capacity, which is 4'],
    ['-1', counters.rooms, 'must be a count'],
    ['many', counters.rooms, 'must be a count'],
  ])('set a counter to %s, or say why not', (text, counter, why) => {
    const { data, refused } = withEdits({ ...noData, counters }, undefined, edited({}, { [rooms]: text }), group)
    expect(data).toEqual({ ...noData, counters: { rooms: counter } })
    expect(refused).toEqual(why === undefined ? [] : [expect.stringContaining(why)])
  })

  it('set no counter that the server does not have', () => {
    const { data, refused } = withEdits(undefined, undefined, edited({}, { [rooms]: '1' }), group)
    expect([data, refused]).toEqual([undefined, [expect.stringContaining('has no counter rooms')]])
  })
})

describeOnCluster('kubectl label, annotate and edit on a GameServer', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()

  it('arrive in the fleet, once, also if no host was running', async () => {
    const namespace = await make()
    const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
    const fleet = await openFleet(api, namespace, { limits: { resyncIntervalMs: 600_000 } })
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 2, counters }), 'apply', '-f', '-')
    await until('it stands by', async () => (await fleet.servers.list())[0]?.status.state === 'StandingBy')
    const name = (await fleet.servers.list())[0]?.metadata.name ?? ''
    const ref = { namespace, name }
    await k('label', 'gs', name, 'map=dust')
    await k('annotate', 'gs', name, 'note=from kubectl', `${rooms}=4`)
    await until('the edits arrive', async () => {
      const { metadata, status } = await fleet.servers.get(ref)
      const { count } = status.counters?.['rooms'] ?? {}
      return metadata.labels?.['map'] === 'dust' && metadata.annotations?.['note'] === 'from kubectl' && count === 4
    })
    await fleet.servers.update(ref, { labels: { map: 'sand', by: 'fleet' }, counters: { rooms: { increment: 1 } } })
    await k('annotate', 'gs', name, '--overwrite', 'note=again')
    await until(
      'the next edit arrives',
      async () => (await fleet.servers.get(ref)).metadata.annotations?.['note'] === 'again',
    )
    const { metadata, status } = await fleet.servers.get(ref)
    expect([metadata.labels, status.counters]).toEqual([
      { map: 'sand', by: 'fleet' },
      { rooms: { count: 5, capacity: 10 } },
    ])
    await k('annotate', 'gs', name, '--overwrite', `${rooms}=99`)
    await until('an Event says why not', async () => (await k('get', 'events')).includes('more than the capacity'))
    const select = [{ builds: ['id-of-arena'], matchLabels: { map: 'sand' } }]
    expect((await fleet.allocate({ select, sessionID: 'a-match' })).server.name).toBe(name)
    await fleet.close()
    await k('label', 'gs', name, 'map-', 'tier=gold')
    const next = await openFleet(api, namespace)
    expect((await next.servers.get(ref)).metadata.labels).toEqual({ by: 'fleet', tier: 'gold' })
    expect((await next.servers.get(ref)).status.counters).toEqual({ rooms: { count: 5, capacity: 10 } })
  })
})
