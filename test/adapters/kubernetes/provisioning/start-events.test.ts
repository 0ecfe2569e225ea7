/** What a pod's Kubernetes Events say about its start. */
import { describe, expect, it } from 'vitest'
import { refusedPortsIn } from '../../../../adapters/kubernetes/pods/pod-status.js'
import { startEventsIn } from '../../../../adapters/kubernetes/provisioning/slow-starts.js'

const event = (revision: number, type: string, reason: string, message: string) => ({
  ...{ metadata: { name: `e-${revision}`, resourceVersion: String(revision) }, type, reason, message },
})
const warning = (revision: number, reason: string, message: string) => event(revision, 'Warning', reason, message)
const normal = (revision: number, reason: string, message: string) => event(revision, 'Normal', reason, message)

describe('the events of a pod', () => {
  const mount = warning(9, 'FailedMount', 'volume "maps" not found')

  it.each([
    ['without any', [], {}],
    ['with a warning', [mount], { warning: 'FailedMount: volume "maps" not found' }],
    [
      'with several warnings show the latest, whatever the order of the list',
      [warning(11, 'FailedMount', 'b'), warning(100, 'FailedMount', 'c'), mount],
      { warning: 'FailedMount: c' },
    ],
    [
      'ignore warnings that prevent nothing',
      [mount, warning(10, 'MissingClusterDNS', 'x'), warning(11, 'FailedScheduling', '0/1 nodes')],
      { warning: 'FailedMount: volume "maps" not found' },
    ],
    [
      'ignore that the SDK secret is missing at first',
      [warning(9, 'FailedMount', 'secret "its-secret" not found')],
      {},
    ],
    [
      'show no warning that the start has overcome',
      [mount, normal(10, 'Pulling', 'Pulling image "arena:1"')],
      { latest: 'Pulling: Pulling image "arena:1"' },
    ],
    [
      'show a warning after progress, on one line and with short ids',
      [normal(10, 'Pulled', 'x'), warning(12, 'Failed', `  no\n container ${'0123456789abcdef'.repeat(4)}: y `)],
      { warning: 'Failed: no container 0123456789ab: y' },
    ],
  ])('%s', (_, events, expected: { readonly warning?: string; readonly latest?: string }) => {
    const found = startEventsIn(events, 'its-secret')
    expect(found.warning).toBe(expected.warning)
    expect(found.latest).toBe(expected.latest ?? expected.warning)
  })

  it('are shortened in the middle', () => {
    const { warning: text = '' } = startEventsIn([warning(1, 'Failed', `first ${'x'.repeat(2_000)} last`)], undefined)
    expect(text.length).toBe(500)
    expect(text).toMatch(/^Failed: first x+ … x+ last$/)
  })
})

describe('the public ports that an event names as taken', () => {
  const identity = {
    ref: { namespace: 'games', name: 'arena-10002' },
    ...{ uid: 'u', container: 'game' },
    ports: [10_001, 10_002].map((number) => ({ container: 1, public: number })),
  }

  it.each([
    ['listen tcp4 0.0.0.0:10001: bind: address already in use', [10_001]],
    ['Bind for 0.0.0.0:10002 failed: port is already allocated', [10_002]],
    ['cannot open hostport 10001 for pod x: listen tcp4 :10001: bind: address already in use', [10_001]],
    ['endpoint k8s_POD_arena-10002_games: listen tcp4 0.0.0.0:9100: bind: address already in use', []],
    ['listen tcp4 0.0.0.0:100011: bind: address already in use', []],
    ['IPAM error: address already in use', []],
    ['cannot pull 10001', []],
  ])('%s', (text, expected) => {
    expect(refusedPortsIn(text, identity)).toEqual(expected)
  })
})
