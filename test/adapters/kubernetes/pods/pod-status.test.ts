/** Instances derived from pods: a table of pods as real clusters have reported them. */
import { describe, expect, it } from 'vitest'
import {
  type ContainerState,
  type Identity,
  isUnstarted,
  type Pod,
} from '../../../../adapters/kubernetes/pods/pod-objects.js'
import {
  instanceOf,
  isBlockedByHostPorts,
  type StartProblems,
  templateHostPorts,
} from '../../../../adapters/kubernetes/pods/pod-status.js'

const ports = [{ container: 7777, public: 10_003 }]
const identity: Identity = { ref: { namespace: 'default', name: 'arena-a1b2c' }, uid: 'u', container: 'game', ports }

interface Sketch {
  readonly phase?: string
  readonly game?: ContainerState
  readonly init?: ContainerState
  readonly status?: Pod['status']
  readonly metadata?: Pod['metadata']
  readonly nodeName?: string
  /** Of its game container. */
  readonly hostPorts?: readonly number[]
  readonly problems?: StartProblems
}

function podOf({ phase = 'Running', game, init, status, metadata, nodeName = 'node-1', hostPorts }: Sketch): Pod {
  const ports = hostPorts?.map((hostPort) => ({ hostPort }))
  const limits = { memory: '64Mi' }
  return {
    metadata: { name: 'arena-a1b2c', namespace: 'default', ...metadata },
    spec: { ...(nodeName !== '' && { nodeName }), containers: [{ name: 'game', resources: { limits }, ports }] },
    status: {
      phase,
      ...(init && { initContainerStatuses: [{ name: 'first', state: init }] }),
      ...(game && { containerStatuses: [{ name: 'game', state: game }] }),
      ...status,
    },
  }
}

const unscheduled = (message: string) => ({
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
})
const ofPorts = "node(s) didn't have free ports for the requested pod ports"
const slow =
  'no container started on node-1 within 60 s; usual causes are a missing volume, the pod network, or a large image: see kubectl describe pod -n default arena-a1b2c'
const disrupted = {
  ...{ type: 'DisruptionTarget', status: 'True' },
  ...{ reason: 'PreemptionByScheduler', message: 'a pod of higher priority came' },
}
const exits = (exitCode: number, more: object = {}): ContainerState => ({ terminated: { exitCode, ...more } })
const deletedAt = { deletionTimestamp: '2026-01-01T00:00:40Z', deletionGracePeriodSeconds: 30 }

const table: readonly (readonly [string, Sketch, object])[] = [
  ['is new', { phase: 'Pending', nodeName: '' }, { phase: 'pending', reason: 'waiting to be scheduled' }],
  [
    'fits on no node',
    { phase: 'Pending', nodeName: '', status: unscheduled('0/3 nodes are available: 3 Insufficient cpu.') },
    { phase: 'pending', blocked: true, reason: 'cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu.' },
  ],
  [
    'requests a host port that is taken on every node',
    {
      phase: 'Pending',
      nodeName: '',
      hostPorts: [9100, 10_003],
      status: unscheduled(`0/1 nodes are available: 1 ${ofPorts}.`),
    },
    {
      phase: 'pending',
      blocked: true,
      reason: `cannot be scheduled: 0/1 nodes are available: 1 ${ofPorts}. (the template requests host port 9100, which only one pod per node can use)`,
    },
  ],
  [
    'fits on no node for a reason other than host ports',
    {
      phase: 'Pending',
      nodeName: '',
      hostPorts: [9100],
      status: unscheduled('0/1 nodes are available: 1 Insufficient cpu.'),
    },
    { phase: 'pending', blocked: true, reason: 'cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu.' },
  ],
  [
    'is being created',
    { phase: 'Pending', game: { waiting: { reason: 'ContainerCreating' } } },
    { phase: 'pending', reason: 'starting on node-1' },
  ],
  [
    'has an image that cannot be pulled',
    { phase: 'Pending', game: { waiting: { reason: 'ImagePullBackOff', message: 'Back-off pulling image "a:1"' } } },
    {
      phase: 'pending',
      blocked: true,
      reason: 'container game cannot start: ImagePullBackOff: Back-off pulling image "a:1"',
    },
  ],
  [
    'waits for a secret that the API server rejects',
    {
      phase: 'Pending',
      game: { waiting: { reason: 'ContainerCreating' } },
      problems: { secretError: 'exceeded quota', isSlow: true },
    },
    { phase: 'pending', blocked: true, reason: 'cannot create its SDK secret: exceeded quota' },
  ],
  [
    'starts slowly',
    { phase: 'Pending', game: { waiting: { reason: 'ContainerCreating' } }, problems: { isSlow: true } },
    { phase: 'pending', blocked: true, reason: slow },
  ],
  [
    'starts slowly, without any container status',
    { phase: 'Pending', problems: { isSlow: true } },
    { phase: 'pending', blocked: true, reason: slow },
  ],
  [
    'starts slowly for a reported reason',
    { phase: 'Pending', game: { waiting: { reason: 'ErrImagePull' } }, problems: { isSlow: true } },
    { phase: 'pending', blocked: true, reason: 'container game cannot start: ErrImagePull' },
  ],
  [
    'starts slowly because an init container runs',
    {
      ...{ phase: 'Pending', init: { running: {} }, game: { waiting: { reason: 'PodInitializing' } } },
      problems: { isSlow: true },
    },
    { phase: 'pending', reason: 'starting on node-1' },
  ],
  ['runs after a slow start', { game: { running: {} }, problems: { isSlow: true } }, { phase: 'running' }],
  ['runs', { game: { running: {} } }, { phase: 'running' }],
  ['has succeeded', { phase: 'Succeeded', game: exits(0, { reason: 'Completed' }) }, { phase: 'exited', exitCode: 0 }],
  ['has failed', { phase: 'Failed', game: exits(3, { reason: 'Error' }) }, { phase: 'exited', exitCode: 3 }],
  [
    'was OOM-killed',
    { phase: 'Failed', game: exits(137, { reason: 'OOMKilled' }) },
    {
      phase: 'exited',
      exitCode: 137,
      reason: 'OOMKilled: it exceeded its memory limit of 64Mi',
    },
  ],
  [
    'was killed, by what its runtime cannot say',
    { phase: 'Failed', game: exits(137, { reason: 'Error' }) },
    {
      phase: 'exited',
      exitCode: 137,
      reason: 'killed by SIGKILL, perhaps because it exceeded its memory limit of 64Mi',
    },
  ],
  [
    'has a command that does not exist',
    {
      phase: 'Failed',
      game: exits(127, {
        reason: 'ContainerCannotRun',
        message: 'OCI runtime create failed: exec: "/no/such": stat /no/such: no such file or directory: unknown',
      }),
    },
    { phase: 'exited', exitCode: 127, reason: 'cannot run /no/such: stat /no/such: no such file or directory' },
  ],
  [
    'has a command that does not exist, on containerd',
    {
      phase: 'Failed',
      game: exits(128, {
        reason: 'StartError',
        message:
          'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/no/such": stat /no/such: no such file or directory: unknown',
      }),
    },
    { phase: 'exited', exitCode: 127, reason: 'cannot run /no/such: stat /no/such: no such file or directory' },
  ],
  [
    'has a command that is not executable, on containerd',
    {
      phase: 'Failed',
      game: exits(128, {
        reason: 'StartError',
        message: 'failed to create containerd task: exec: "/data": permission denied: unknown',
      }),
    },
    { phase: 'exited', exitCode: 126, reason: 'cannot run /data: permission denied' },
  ],
  [
    'exits with 128 on its own',
    { phase: 'Failed', game: exits(128, { reason: 'Error' }) },
    { phase: 'exited', exitCode: 128 },
  ],
  [
    'has an init container that failed',
    { phase: 'Failed', init: exits(2, { reason: 'Error' }), game: { waiting: { reason: 'PodInitializing' } } },
    { phase: 'exited', exitCode: 2, reason: 'init container first failed' },
  ],
  [
    'was evicted',
    {
      phase: 'Failed',
      game: exits(137, { reason: 'Error' }),
      status: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
    },
    { phase: 'exited', interrupted: true, reason: 'Evicted: The node was low on resource: memory.' },
  ],
  [
    'ended with the shutdown of its node',
    { phase: 'Failed', status: { phase: 'Failed', reason: 'Shutdown', message: 'Node is shutting, evicting pods' } },
    { phase: 'exited', interrupted: true, reason: 'Shutdown: Node is shutting, evicting pods' },
  ],
  [
    'was preempted, reported by a condition only',
    { phase: 'Failed', game: exits(137, { reason: 'Error' }), status: { phase: 'Failed', conditions: [disrupted] } },
    { phase: 'exited', interrupted: true, reason: 'PreemptionByScheduler: a pod of higher priority came' },
  ],
  [
    'is being deleted, with a disruption condition',
    { game: { running: {} }, metadata: deletedAt, status: { phase: 'Running', conditions: [disrupted] } },
    {
      phase: 'exited',
      interrupted: true,
      reason: 'pod deleted: PreemptionByScheduler: a pod of higher priority came',
    },
  ],
  [
    'is being deleted while it runs',
    { game: { running: {} }, metadata: deletedAt },
    { phase: 'exited', interrupted: true, reason: 'pod deleted' },
  ],
  [
    'has exited because of its deletion',
    { phase: 'Failed', game: exits(143, { finishedAt: '2026-01-01T00:00:11Z' }), metadata: deletedAt },
    { phase: 'exited', interrupted: true, reason: 'pod deleted' },
  ],
  [
    'has exited in the same second in which it was deleted',
    { phase: 'Failed', game: exits(143, { finishedAt: '2026-01-01T00:00:10Z' }), metadata: deletedAt },
    { phase: 'exited', interrupted: true, reason: 'pod deleted' },
  ],
  [
    'had exited before it was deleted',
    { phase: 'Failed', game: exits(3, { finishedAt: '2026-01-01T00:00:09Z' }), metadata: deletedAt },
    { phase: 'exited', exitCode: 3 },
  ],
  [
    'is being deleted because its node does not respond',
    {
      game: { running: {} },
      metadata: deletedAt,
      status: { conditions: [{ type: 'Ready', status: 'False', reason: 'NodeNotReady' }] },
    },
    { phase: 'exited', interrupted: true, reason: 'pod deleted because its node does not respond' },
  ],
]

describe('an instance whose pod', () => {
  it.each(table)('%s', (_, sketch, life) => {
    const node = sketch.nodeName === '' ? {} : { node: 'node-1' }
    const { ref, uid } = identity
    const expected = { ref, uid, ports, address: '203.0.113.7', ...node, ...life }
    expect(instanceOf(podOf(sketch), identity, { address: '203.0.113.7', ...sketch.problems })).toEqual(expected)
  })
})

describe('a pod', () => {
  it('counts as not started until one of its containers starts', () => {
    expect(isUnstarted(podOf({ phase: 'Pending', game: { waiting: {} } }))).toBe(true)
    expect(isUnstarted(podOf({ phase: 'Pending', init: { running: {} } }))).toBe(false)
    expect(isUnstarted(podOf({ game: { running: {} } }))).toBe(false)
  })

  it('has as template host ports those that its containers request, except the allocated public ports', () => {
    expect(templateHostPorts(podOf({ hostPorts: [10_003, 10_003] }), identity)).toEqual([])
    expect(templateHostPorts(podOf({ hostPorts: [9100, 10_003, 9100, 53] }), identity)).toEqual([9100, 53])
    const sidecar = { name: 'side', restartPolicy: 'Always', ports: [{ hostPort: 9200 }] }
    const init = { name: 'first', ports: [{ hostPort: 9300 }] }
    expect(templateHostPorts({ spec: { initContainers: [sidecar, init] } }, identity)).toEqual([9200])
    expect(templateHostPorts({}, identity)).toEqual([])
  })

  it.each([
    [true, `0/1 nodes are available: 1 ${ofPorts}.`],
    [true, `0/5 nodes are available: 5 ${ofPorts}.`],
    [true, `0/5 nodes are available: 3 ${ofPorts}, 2 node(s) didn't match node selector.`],
    [
      true,
      `0/5 nodes are available: 1 node(s) were unschedulable, 3 ${ofPorts}, 1 node(s) didn't match Pod's node affinity.`,
    ],
    [
      true,
      `0/3 nodes are available: 1 node(s) had taint {kubemark: true}, that the pod didn't tolerate, 2 ${ofPorts}.`,
    ],
    [
      true,
      `0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 1 node(s) didn't match Pod's node affinity/selector, 2 ${ofPorts}. preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.`,
    ],
    [false, `0/5 nodes are available: 2 ${ofPorts}, 3 Insufficient cpu.`],
    [false, `0/5 nodes are available: 1 Insufficient memory, 1 node(s) didn't match node selector, 3 ${ofPorts}.`],
    [false, `0/5 nodes are available: 2 ${ofPorts}, 3 Too many pods.`],
    [false, '0/1 nodes are available: 1 Insufficient cpu.'],
    [false, "0/2 nodes are available: 2 node(s) didn't match node selector."],
  ])('is blocked by host ports: %s, when the scheduler says %s', (expected, message) => {
    expect(isBlockedByHostPorts(podOf({ phase: 'Pending', nodeName: '', status: unscheduled(message) }))).toBe(expected)
  })
})
