/** When the events of a pod that does not start are read, and what its instance then says. */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { KubeObject } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { NodePorts } from '../../../../adapters/kubernetes/nodes/node-ports.js'
import { SlowStarts } from '../../../../adapters/kubernetes/provisioning/slow-starts.js'
import type { Instance } from '../../../../src/contracts/backend.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const group = 'mps.gamekeeper.com'

const podObject = (more: { readonly spec?: object; readonly state?: object } = {}) => ({
  metadata: {
    ...{ name: 'arena-a1b2c', namespace: 'games', uid: 'p', resourceVersion: '7' },
    labels: { [`${group}/uid`]: 'u', [`${group}/server`]: 'arena-a1b2c' },
    annotations: { [`${group}/ports`]: '7777:10003' },
  },
  spec: { nodeName: 'node-1', containers: [{ name: 'game', ports: [{ hostPort: 10_003 }] }], ...more.spec },
  status: {
    phase: 'Pending',
    containerStatuses: [{ name: 'game', state: more.state ?? { waiting: { reason: 'ContainerCreating' } } }],
  },
})

const warning = (reason: string, message: string): KubeObject => ({
  ...{ metadata: { name: 'e', resourceVersion: '9' }, type: 'Warning', reason, message },
})

/** A backend whose cluster has one unstarted pod with these events; undefined if this host may not list them. */
async function scene(events: () => readonly KubeObject[] | undefined, pod: object = podObject()) {
  const clock = virtualClock()
  const reports: Instance[] = []
  const node = { metadata: { name: 'node-1', resourceVersion: '5' } }
  const server = await fakeApiServer((_, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    const listed = pathname.endsWith('/events') ? events() : pathname.endsWith('/pods') ? [pod] : [node]
    if (!listed) return respond(response, 403, statusOf(403, 'Forbidden'))
    respond(response, 200, { metadata: { resourceVersion: '10' }, items: listed })
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'], clock })
  const heartbeat = () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }) as const
  backend.watch({ changed: (instance) => reports.push(instance), gone() {}, resync() {}, heartbeat })
  onTestFinished(async () => {
    const closed = backend.close()
    await clock.advance(2_000)
    await closed
  })
  await until('the pod is listed', () => reports.length > 0)
  const reads = () => server.requests.filter((call) => call.includes('/events'))
  return {
    ...{ clock, reports, reads },
    /** Resolves once the host has read events this many times. */
    haveRead: (times: number) => until(`${times} reads`, () => reads().length >= times),
  }
}

describe('a scheduled pod that does not start', () => {
  const failedMount = warning('FailedMount', 'volume "maps" not found')

  it('shows the latest warning among its events after 5 s, and is blocked after 60 s', async () => {
    const { clock, reports, reads, haveRead } = await scene(() => [failedMount])
    await clock.advance(4_999)
    expect(reads()).toEqual([])
    await clock.advance(1)
    await until('it is reported', () => reports.length > 1)
    expect(reads()).toEqual(['GET /api/v1/namespaces/games/events?fieldSelector=involvedObject.uid%3Dp&limit=500'])
    const reason = 'not started on node-1 yet: FailedMount: volume "maps" not found'
    expect(reports[1]).toMatchObject({ phase: 'pending', reason })
    expect(reports[1]?.blocked).toBeUndefined()
    for (const [afterMs, times] of [
      [10_000, 2],
      [15_000, 3],
      [30_000, 4],
      [60_000, 5],
    ] as const) {
      await clock.advance(afterMs)
      await haveRead(times)
    }
    expect(reads()).toHaveLength(5)
    expect(reports).toHaveLength(3)
    expect(reports[2]).toMatchObject({
      blocked: true,
      reason: 'no container started on node-1 within 60 s: FailedMount: volume "maps" not found',
    })
  })

  it('shows its latest event after 60 s if there is no warning', async () => {
    const pulling = { ...failedMount, type: 'Normal', reason: 'Pulling', message: 'Pulling image "arena:1"' }
    const { clock, reports, haveRead } = await scene(() => [pulling])
    await clock.advance(5_000)
    await haveRead(1)
    await clock.advance(55_000)
    await until('it is reported', () => reports.length > 1)
    const reason = 'no container started on node-1 within 60 s; latest event: Pulling: Pulling image "arena:1"'
    expect(reports[1]).toMatchObject({ blocked: true, reason })
  })

  it('names the missing permission if this host may not list events, and does not ask again for 10 minutes', async () => {
    const { clock, reports, reads, haveRead } = await scene(() => undefined)
    await clock.advance(5_000)
    await haveRead(1)
    await clock.advance(300_000)
    expect(reads()).toHaveLength(1)
    expect(reports.at(-1)).toMatchObject({ blocked: true })
    expect(reports.at(-1)?.reason).toContain('see kubectl describe pod -n games arena-a1b2c')
    expect(reports.at(-1)?.reason).toContain('allow this host to list events in namespace games')
  })

  it('ends when an event says that one of its public ports is taken', async () => {
    const message = 'listen tcp4 0.0.0.0:10003: bind: address already in use'
    const { clock, reports, reads } = await scene(() => [warning('FailedCreatePodSandBox', message)])
    await clock.advance(5_000)
    await until('it is reported', () => reports.length > 1)
    const reason = `another program on node-1 holds public port 10003: FailedCreatePodSandBox: ${message}`
    expect(reports[1]).toMatchObject({ phase: 'exited', interrupted: true, reason })
    await clock.advance(300_000)
    expect(reads()).toHaveLength(1)
  })

  it('is blocked when the taken port is one that its template requests', async () => {
    const message = 'listen tcp4 0.0.0.0:9100: bind: address already in use'
    const containers = [{ name: 'game', ports: [{ hostPort: 10_003 }, { hostPort: 9_100 }] }]
    const pod = podObject({ spec: { containers } })
    const { clock, reports } = await scene(() => [warning('FailedCreatePodSandBox', message)], pod)
    await clock.advance(5_000)
    await until('it is reported', () => reports.length > 1)
    expect(reports[1]).toMatchObject({ phase: 'pending', blocked: true })
    expect(reports[1]?.reason).toContain(message)
    expect(reports[1]?.reason).toContain('the template requests host port 9100')
  })

  it('needs no events if its status says why', async () => {
    const state = { waiting: { reason: 'ErrImagePull', message: 'no such image' } }
    const { clock, reads } = await scene(() => [failedMount], podObject({ state }))
    await clock.advance(300_000)
    expect(reads()).toEqual([])
  })
})

describe('slow starts', () => {
  const ref = { namespace: 'games', name: 'arena-a1b2c' }
  const identity = { ref, uid: 'u', container: 'game', ports: [{ container: 7777, public: 10_003 }] }
  const instance = { ref, uid: 'u', phase: 'pending', ports: [] } as const
  const snapshot = { identity, instance, pod: podObject(), podUid: 'p', revision: 7 }

  function startsWith(objects: readonly KubeObject[] | undefined, isLeading = true) {
    const clock = virtualClock()
    const calls: string[] = []
    const nodePorts = new NodePorts({ first: 10_000, last: 10_009 }, clock, () => [])
    const starts = new SlowStarts({
      ...{ clock, logger: silentLogger, isLeading: () => isLeading },
      pods: { find: () => snapshot, reevaluate: () => {} },
      events: {
        isForbidden: () => false,
        read: async (_, isNeeded) => {
          calls.push(isNeeded() ? 'read' : 'not needed')
          return objects
        },
      },
      ports: {
        refuse: (node, ports) => calls.push(`refuse ${ports.join()} on ${node}`),
        suspect: (node, ports) => calls.push(`suspect ${ports.join()} on ${node}`),
        release: (node, ports) => nodePorts.release(node, ports),
        isReleasing: (node, ports) => nodePorts.isReleasing(node, ports),
      },
    })
    return { clock, calls, starts }
  }

  it('leave no timer behind once the pod is deleted or the backend is closed', () => {
    const { clock, starts } = startsWith([])
    for (const end of [() => starts.gone(snapshot), () => starts.stop()]) {
      starts.podChanged(snapshot)
      starts.podChanged(snapshot)
      expect(clock.pending).toBe(1)
      end()
      expect(clock.pending).toBe(0)
    }
  })

  it('read no events on a host that does not lead', async () => {
    const { clock, calls, starts } = startsWith([], false)
    starts.podChanged(snapshot)
    await clock.advance(120_000)
    expect(new Set(calls)).toEqual(new Set(['not needed']))
    expect(starts.problemsOf('p')).toMatchObject({ isSlow: true })
  })

  it.each([
    ['for an unknown reason', undefined, ['suspect 10003 on node-1']],
    ['for a reason that its events name', [warning('FailedMount', 'x')], []],
  ])('suspect the ports of a pod that is deleted after 60 s without a start %s', async (_, objects, expected) => {
    const { clock, calls, starts } = startsWith(objects)
    starts.podChanged(snapshot)
    await clock.advance(60_000)
    starts.gone(snapshot)
    expect(calls.filter((call) => call !== 'read')).toEqual(expected)
    expect(starts.problemsOf('p')).toEqual({})
  })

  it('suspect the ports of a pod when an event names a conflict, but no port', async () => {
    const { clock, calls, starts } = startsWith([warning('FailedCreatePodSandBox', 'address already in use')])
    starts.podChanged(snapshot)
    await clock.advance(5_000)
    expect(calls).toEqual(['read', 'suspect 10003 on node-1'])
  })

  it('take a port of a pod that is gone for taken only if it still is after half a minute', async () => {
    const { clock, calls, starts } = startsWith([
      warning('Failed', 'Bind for :10003 failed: port is already allocated'),
    ])
    starts.gone({ ...snapshot, podUid: 'before' })
    starts.podChanged(snapshot)
    await clock.advance(29_999)
    expect(calls).toEqual(['read', 'read'])
    expect(starts.problemsOf('p').refusedPorts).toBeUndefined()
    await clock.advance(1)
    expect(calls).toEqual(['read', 'read', 'read', 'refuse 10003 on node-1'])
    expect(starts.problemsOf('p')).toMatchObject({ refusedPorts: [10_003] })
  })

  it('keep a taken port as the reason even if the pod starts before it is deleted', async () => {
    const { clock, calls, starts } = startsWith([
      warning('Failed', 'Bind for :10003 failed: port is already allocated'),
    ])
    starts.podChanged(snapshot)
    await clock.advance(5_000)
    expect(calls).toEqual(['read', 'refuse 10003 on node-1'])
    starts.podChanged({ ...snapshot, pod: podObject({ state: { running: {} } }) })
    expect(starts.problemsOf('p')).toMatchObject({ refusedPorts: [10_003] })
    starts.gone(snapshot)
    expect(starts.problemsOf('p')).toEqual({})
  })
})
