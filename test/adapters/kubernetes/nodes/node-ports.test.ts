/** Which public ports a pod gets before it is scheduled, and which nodes accept it. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { acceptsPod, nodeAddress } from '../../../../adapters/kubernetes/nodes/node-cache.js'
import { type TakenPort, NodePorts } from '../../../../adapters/kubernetes/nodes/node-ports.js'

const range = { first: 100, last: 103 }

function poolOf(held: readonly TakenPort[]) {
  const clock = virtualClock()
  return { clock, pool: new NodePorts(range, clock, () => held) }
}

describe('node ports', () => {
  it('are free on every node if possible', () => {
    const { pool } = poolOf([
      { port: 100, node: 'a' },
      { port: 102, node: 'b' },
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([101, 103])
  })

  it('are otherwise all free on a single node', () => {
    const { pool } = poolOf([
      ...[100, 101, 102].map((port) => ({ port, node: 'a' })),
      ...[101, 103].map((port) => ({ port, node: 'b' })),
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([100, 102])
    expect(pool.take(1, ['a'])).toEqual([103])
  })

  it('are never those of an unscheduled pod, which may be placed on any node', () => {
    const { pool } = poolOf([
      ...[100, 101].map((port) => ({ port, node: 'a' })),
      ...[102, 103].map((port) => ({ port, node: undefined })),
    ])
    expect(pool.take(2, ['a', 'b'])).toEqual([100, 101])
    expect(() => pool.take(1, ['a'])).toThrow(
      'not enough free public ports in 100-103 for a server that exposes 1: 2 in use on a, 2 reserved by unscheduled pods',
    )
  })

  it('are reported as exhausted when no node accepts the pod and every port is in use somewhere', () => {
    const { pool } = poolOf([100, 101, 102, 103].map((port) => ({ port, node: 'a' })))
    expect(() => pool.take(1, [])).toThrow('no node accepts its pod')
    expect(pool.take(1, ['b'])).toEqual([100])
    expect(pool.take(0, [])).toEqual([])
  })

  it('are never those that the template requests as host ports', () => {
    const { pool } = poolOf([])
    expect(pool.take(2, ['a'], [100, 102])).toEqual([101, 103])
    const { pool: full } = poolOf([100, 101, 102, 103].map((port) => ({ port, node: 'b' })))
    expect(full.take(2, ['a'], [100, 102])).toEqual([101, 103])
    expect(() => full.take(3, ['a'], [100, 102])).toThrow('not enough free public ports')
  })

  it('avoid ports of pods outside the fleet for a minute, unless no others are left', async () => {
    const { clock, pool } = poolOf([])
    pool.markForeign([100, 101, 102])
    expect(pool.take(1, ['a'])).toEqual([103])
    expect(pool.take(2, ['a'])).toEqual([100, 101])
    await clock.advance(60_000)
    expect(pool.take(4, [])).toEqual([102, 103, 100, 101])
  })

  it('are never used on a node that refused them, for ten minutes', async () => {
    const { clock, pool } = poolOf([102, 103].map((port) => ({ port, node: 'a' })))
    pool.refuse('a', [100])
    expect(pool.refusingNodes([100, 101])).toEqual(['a'])
    expect(pool.take(1, ['a'])).toEqual([101])
    expect(() => pool.take(2, ['a'])).toThrow('2 in use on a and 1 held there by other programs')
    await clock.advance(599_999)
    expect(() => pool.take(2, ['a'])).toThrow('not enough free public ports')
    await clock.advance(1)
    expect(pool.refusingNodes([100])).toEqual([])
    expect(pool.take(2, ['a'])).toEqual([100, 101])
  })

  it('are used on nodes other than the one that refused them, when no other ports are left', () => {
    const held = [101, 102].flatMap((port) => ['a', 'b'].map((node) => ({ port, node })))
    const { pool } = poolOf([...held, { port: 103, node: 'b' }])
    pool.refuse('a', [100])
    expect(pool.take(1, ['b'])).toEqual([100])
    expect(pool.refusingNodes([100])).toEqual(['a'])
    expect(pool.take(1, ['a'])).toEqual([103])
    expect(pool.refusingNodes([103])).toEqual([])
  })

  it('are used on a node where they are suspected of being taken only if no others are left', async () => {
    const { clock, pool } = poolOf([])
    pool.suspect('a', [100, 101, 102])
    expect(pool.take(1, ['a'])).toEqual([103])
    expect(pool.take(1, ['a'])).toEqual([103])
    expect(pool.take(2, ['a'])).toEqual([100, 101])
    await clock.advance(600_000)
    expect(pool.take(2, ['a'])).toEqual([102, 103])
  })
})

describe('a node', () => {
  const node = (spec: object = {}, labels: Record<string, string> = {}) => ({ metadata: { name: 'a', labels }, spec })
  const template = (pod: object = {}) => ({ spec: { containers: [], ...pod } })
  const taint = { key: 'team', value: 'red', effect: 'NoSchedule' }

  it.each([
    ['accepts a pod without constraints', node(), template(), true],
    ['accepts no pod when cordoned', node({ unschedulable: true }), template(), false],
    [
      'accepts a pod that selects its labels',
      node({}, { disk: 'fast' }),
      template({ nodeSelector: { disk: 'fast' } }),
      true,
    ],
    ['rejects a pod that selects a label it lacks', node(), template({ nodeSelector: { disk: 'fast' } }), false],
    ['rejects a pod pinned to another node', node(), template({ nodeName: 'b' }), false],
    ['rejects a pod that does not tolerate its taint', node({ taints: [taint] }), template(), false],
    [
      'accepts a pod despite a PreferNoSchedule taint',
      node({ taints: [{ ...taint, effect: 'PreferNoSchedule' }] }),
      template(),
      true,
    ],
    [
      'accepts a pod that tolerates its taint by value',
      node({ taints: [taint] }),
      template({ tolerations: [{ key: 'team', value: 'red', effect: 'NoSchedule' }] }),
      true,
    ],
    [
      'rejects a pod that tolerates another value',
      node({ taints: [taint] }),
      template({ tolerations: [{ key: 'team', value: 'blue' }] }),
      false,
    ],
    [
      'accepts a pod that tolerates every taint',
      node({ taints: [taint] }),
      template({ tolerations: [{ operator: 'Exists' }] }),
      true,
    ],
  ])('%s', (_, one, of, accepted) => {
    expect(acceptsPod(one, of)).toBe(accepted)
  })

  it('has its ExternalIP as its address, or else its InternalIP', () => {
    const internal = { type: 'InternalIP', address: '10.0.0.4' }
    const external = { type: 'ExternalIP', address: '203.0.113.4' }
    const hostname = { type: 'Hostname', address: 'node-4' }
    expect(nodeAddress({ status: { addresses: [hostname, internal, external] } })).toBe('203.0.113.4')
    expect(nodeAddress({ status: { addresses: [hostname, internal] } })).toBe('10.0.0.4')
    expect(nodeAddress({ status: { addresses: [hostname] } })).toBeUndefined()
  })

  it('has its IPv4 address as its address, even if it also has an IPv6 address of the same type', () => {
    const at = (...addresses: readonly (readonly [string, string])[]) =>
      nodeAddress({ status: { addresses: addresses.map(([type, address]) => ({ type, address })) } })
    expect(at(['InternalIP', 'fd00::5'], ['InternalIP', '10.0.0.5'])).toBe('10.0.0.5')
    expect(at(['ExternalIP', '2001:db8::5'], ['ExternalIP', '203.0.113.5'], ['InternalIP', '10.0.0.5'])).toBe(
      '203.0.113.5',
    )
    expect(at(['InternalIP', '10.0.0.5'], ['ExternalIP', '2001:db8::5'])).toBe('2001:db8::5')
  })
})
