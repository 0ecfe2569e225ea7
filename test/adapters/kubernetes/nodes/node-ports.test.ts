/** Which public numbers a pod gets of which nobody knows yet where it comes to, and which nodes it may come to. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { type HeldPort, NodePorts } from '../../../../adapters/kubernetes/nodes/node-ports.js'
import { acceptsPod, nodeAddress } from '../../../../adapters/kubernetes/nodes/node-status.js'

const range = { first: 100, last: 103 }

function poolOf(held: readonly HeldPort[]) {
  const clock = virtualClock()
  return { clock, pool: new NodePorts(range, clock, () => held) }
}

describe('public ports of many nodes', () => {
  it('are numbers that no node holds, as long as there are', () => {
    const { pool } = poolOf([
      { port: 100, node: 'a' },
      { port: 102, node: 'b' },
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([101, 103])
  })

  it('are free on one node after that, all of them on the same', () => {
    const { pool } = poolOf([
      ...[100, 101, 102].map((port) => ({ port, node: 'a' })),
      ...[101, 103].map((port) => ({ port, node: 'b' })),
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([100, 102])
    expect(pool.take(1, ['a'])).toEqual([103])
  })

  it('are never those of a pod that waits for a node, since it may come to any', () => {
    const { pool } = poolOf([
      ...[100, 101].map((port) => ({ port, node: 'a' })),
      ...[102, 103].map((port) => ({ port, node: undefined })),
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([100, 101])
    expect(() => pool.take(1, ['a'])).toThrow(
      'not enough free public ports in 100-103 for a server that exposes 1: 2 in use on a, 2 reserved by unscheduled pods',
    )
  })

  it('are exhausted where no node takes the pod and every number is held', () => {
    const { pool } = poolOf([100, 101, 102, 103].map((port) => ({ port, node: 'a' })))
    expect(() => pool.take(1, [])).toThrow('no node accepts its pod')
    expect(pool.take(1, ['b'])).toEqual([100])
    expect(pool.take(0, [])).toEqual([])
  })

  it('are never those that the template asks for itself', () => {
    const { pool } = poolOf([])
    expect(pool.take(2, ['a'], [100, 102])).toEqual([101, 103])
    const { pool: full } = poolOf([100, 101, 102, 103].map((port) => ({ port, node: 'b' })))
    expect(full.take(2, ['a'], [100, 102])).toEqual([101, 103])
    expect(() => full.take(3, ['a'], [100, 102])).toThrow('not enough free public ports')
  })

  it('are not those that pods of others hold, for a minute, unless there is nothing better', async () => {
    const { clock, pool } = poolOf([])
    pool.markForeign([100, 101, 102])
    expect(pool.take(1, ['a'])).toEqual([103])
    expect(pool.take(2, ['a'])).toEqual([100, 101])
    await clock.advance(60_000)
    expect(pool.take(4, [])).toEqual([102, 103, 100, 101])
  })
})

describe('a node', () => {
  const node = (spec: object = {}, labels: Record<string, string> = {}) => ({ metadata: { name: 'a', labels }, spec })
  const template = (pod: object = {}) => ({ spec: { containers: [], ...pod } })
  const taint = { key: 'team', value: 'red', effect: 'NoSchedule' }

  it.each([
    ['takes what asks for nothing', node(), template(), true],
    ['that is cordoned takes none', node({ unschedulable: true }), template(), false],
    [
      'has the labels that are asked for',
      node({}, { disk: 'fast' }),
      template({ nodeSelector: { disk: 'fast' } }),
      true,
    ],
    ['lacks a label that is asked for', node(), template({ nodeSelector: { disk: 'fast' } }), false],
    ['is another than the one asked for', node(), template({ nodeName: 'b' }), false],
    ['repels by its taint', node({ taints: [taint] }), template(), false],
    ['prefers others', node({ taints: [{ ...taint, effect: 'PreferNoSchedule' }] }), template(), true],
    [
      'is tolerated by value',
      node({ taints: [taint] }),
      template({ tolerations: [{ key: 'team', value: 'red', effect: 'NoSchedule' }] }),
      true,
    ],
    [
      'is not tolerated by another value',
      node({ taints: [taint] }),
      template({ tolerations: [{ key: 'team', value: 'blue' }] }),
      false,
    ],
    [
      'is tolerated whatever it is',
      node({ taints: [taint] }),
      template({ tolerations: [{ operator: 'Exists' }] }),
      true,
    ],
  ])('%s', (_, one, of, taken) => {
    expect(acceptsPod(one, of)).toBe(taken)
  })

  it('is reached at the address that the world knows, else at that which the cluster knows', () => {
    const internal = { type: 'InternalIP', address: '10.0.0.4' }
    const external = { type: 'ExternalIP', address: '203.0.113.4' }
    const hostname = { type: 'Hostname', address: 'node-4' }
    expect(nodeAddress({ status: { addresses: [hostname, internal, external] } })).toBe('203.0.113.4')
    expect(nodeAddress({ status: { addresses: [hostname, internal] } })).toBe('10.0.0.4')
    expect(nodeAddress({ status: { addresses: [hostname] } })).toBeUndefined()
  })

  it('of two stacks is reached by IPv4, and by IPv6 where there is nothing else of that kind', () => {
    const at = (...addresses: readonly (readonly [string, string])[]) =>
      nodeAddress({ status: { addresses: addresses.map(([type, address]) => ({ type, address })) } })
    expect(at(['InternalIP', 'fd00::5'], ['InternalIP', '10.0.0.5'])).toBe('10.0.0.5')
    expect(at(['ExternalIP', '2001:db8::5'], ['ExternalIP', '203.0.113.5'], ['InternalIP', '10.0.0.5'])).toBe(
      '203.0.113.5',
    )
    expect(at(['InternalIP', '10.0.0.5'], ['ExternalIP', '2001:db8::5'])).toBe('2001:db8::5')
  })
})
