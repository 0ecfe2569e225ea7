/** The backend on a real cluster: pod contents, exit reports, ports and logs. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { podOf } from '../../../adapters/kubernetes/provisioning/pod-spec.js'
import type { Backend, Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { clusterApi, kubectl, makeNamespace, removeNamespace } from './support/cluster.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { baseImage, closeAll, find, linesOf, newGroup, nextRange, open, specOf } from './support/support.js'

// Mostly spent waiting for the kubelet.
vi.setConfig({ maxConcurrency: 12, testTimeout: 200_000 })

const waitOptions = { timeout: 120_000, interval: 200 }

function inPhase(backend: Backend, spec: InstanceSpec, phase: Instance['phase']): Promise<Instance> {
  return vi.waitFor(async () => {
    const instance = await find(backend, spec)
    if (instance?.phase !== phase) throw new Error(`${spec.ref.name} is ${instance?.phase}: ${instance?.reason}`)
    return instance
  }, waitOptions)
}

/**
 * For this test's pods only, so that the scheduler's messages about other tests' pods do not change. It has a condition: the controller manager of 1.20
 * may crash if a node without any is still there after a minute.
 */
function ghostNode(name: string) {
  const resources = { pods: '10', cpu: '4', memory: '8Gi' }
  const spec = { taints: [{ key: 'ghost', effect: 'NoSchedule' }] }
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec,
    status: { capacity: resources, allocatable: resources, conditions: [{ type: 'Ready', status: 'False' }] },
  }
}

describeOnCluster('the Kubernetes backend on a real cluster', () => {
  const api = clusterApi()
  let space = ''
  beforeAll(async () => {
    space = await makeNamespace(api)
  })
  afterAll(async () => {
    await closeAll()
    await removeNamespace(api, space)
    api.close()
  })

  describe.concurrent('a pod', () => {
    it('has its SDK configuration, environment, and directories in every container, regardless of the user it runs as', async () => {
      const backend = open(space)
      const script = `cat $GSDK_CONFIG_FILE; echo; id -u; echo $MODE $PORT_7777 $SESSION_HOST_ID $PUBLIC_IPV4_ADDRESS $PF_VM_ID; touch /gamekeeper/GameLogs/x && echo wrote; pwd`
      const game = { name: 'game', image: baseImage, imagePullPolicy: 'Never', command: ['sh', '-c', script] }
      const spec = specOf(space, '', {
        ports: [7777],
        pod: {
          securityContext: { runAsUser: 1000 },
          initContainers: [{ ...game, name: 'first', command: ['sh', '-c', 'test -s $GSDK_CONFIG_FILE'] }],
          containers: [
            {
              ...game,
              env: [{ name: 'MODE', value: 'duel-$(PORT_7777)' }],
              workingDir: '/usr',
              ports: [{ name: 'main', containerPort: 7777 }],
            },
            { ...game, name: 'sidecar', command: ['sh', '-c', 'cat $GSDK_CONFIG_FILE; echo; sleep 600'] },
          ],
        },
      })
      await backend.create(spec)
      const { address, node, ports } = await inPhase(backend, spec, 'exited')
      const output = (await linesOf(backend.logs(spec.ref))).join('\n')
      const end = output.indexOf('\n}') + 2
      expect(JSON.parse(output.slice(0, end))).toMatchObject({
        heartbeatEndpoint: '127.0.0.1:56001',
        sessionHostId: spec.sdk.sessionHostId,
        vmId: node,
        publicIpV4Address: address,
        buildMetadata: { map: 'dust' },
        gamePorts: { main: '7777' },
        gameServerConnectionInfo: {
          gamePortsConfiguration: [{ name: 'main', serverListeningPort: 7777, clientConnectionPort: ports[0]?.public }],
        },
      })
      const variables = `duel-7777 7777 ${spec.sdk.sessionHostId} ${address} ${node}`
      expect(output.slice(end).trim()).toBe(`1000\n${variables}\nwrote\n/usr`)
      const sidecar = await kubectl('logs', '-n', space, spec.ref.name, '-c', 'sidecar')
      expect(sidecar.trim()).toBe(output.slice(0, end))
      // The pod object contains no part of the secret.
      const shown = await kubectl('get', 'pod', '-n', space, spec.ref.name, '-o', 'json')
      expect(shown).not.toContain(spec.sdk.sessionHostId)
    })

    it('keeps the fields of its template, and is deleted with its owner', async () => {
      const backend = open(space)
      const spec = specOf(space, 'sleep 600', {
        ports: [7777],
        metadata: { labels: { team: 'red' }, annotations: { note: 'keep' } },
        container: { ports: [{ name: 'game', containerPort: 7777, protocol: 'UDP' }, { containerPort: 9000 }] },
        pod: {
          restartPolicy: 'Always',
          terminationGracePeriodSeconds: 7,
          tolerations: [{ key: 'games', operator: 'Exists' }],
        },
      })
      const { ports } = await backend.create(spec)
      const pod = JSON.parse(await kubectl('get', 'pod', '-n', space, spec.ref.name, '-o', 'json'))
      expect(pod.metadata.labels).toMatchObject({ team: 'red', [`${backend.apiGroup}/build`]: 'arena' })
      expect(pod.metadata.annotations).toMatchObject({
        note: 'keep',
        'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true',
      })
      expect(pod.spec).toMatchObject({ restartPolicy: 'Never', terminationGracePeriodSeconds: 7 })
      const number = ports[0]?.public
      expect(pod.spec.containers[0].ports).toEqual([
        { containerPort: 9000, protocol: 'TCP' },
        { name: 'game', containerPort: 7777, hostPort: number, protocol: 'UDP' },
        { containerPort: 7777, hostPort: number, protocol: 'TCP' },
      ])
      await inPhase(backend, spec, 'running')
      expect(await kubectl('get', 'secrets', '-n', space, '-o', 'name')).toContain(spec.ref.name)
      await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
      await vi.waitFor(async () => {
        expect(await kubectl('get', 'secrets', '-n', space, '-o', 'name')).not.toContain(spec.ref.name)
      }, waitOptions)
    })

    it('is labelled active, and annotated for node autoscalers, when protected', async () => {
      const backend = open(space)
      const spec = specOf(space, 'sleep 600')
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
      await backend.protect(spec.ref, spec.uid)
      await backend.protect(spec.ref, 'another')
      await vi.waitFor(async () => {
        const { metadata } = JSON.parse(await kubectl('get', 'pod', '-n', space, spec.ref.name, '-o', 'json'))
        expect(metadata.annotations).toMatchObject({ 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false' })
        expect(metadata.labels).toMatchObject({ [`${backend.apiGroup}/active`]: 'true' })
      }, waitOptions)
      await backend.protect({ namespace: space, name: 'missing' }, 'another')
    })

    it('that is protected from its creation is not written again when protected', async () => {
      const backend = open(space)
      const spec = { ...specOf(space, 'sleep 600'), isProtected: true }
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
      const written = async () => {
        const path = `/api/v1/namespaces/${space}/pods/${spec.ref.name}`
        const { metadata } = JSON.parse(await kubectl('get', '--raw', path))
        expect(metadata.annotations).toMatchObject({ 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false' })
        expect(metadata.labels).toMatchObject({ [`${backend.apiGroup}/active`]: 'true' })
        const fields: { subresource?: string }[] = metadata.managedFields
        return JSON.stringify(fields.filter(({ subresource }) => subresource === undefined))
      }
      const before = await written()
      await backend.protect(spec.ref, spec.uid)
      // Writes what is left to write.
      await backend.close()
      expect(await written()).toBe(before)
    })

    it('with several containers, exits when its game container exits; an annotation can name that container', async () => {
      const backend = open(space)
      const container = (name: string, script: string) => ({
        ...{ name, image: baseImage, imagePullPolicy: 'Never', command: ['sh', '-c', script] },
      })
      const spec = specOf(space, '', {
        metadata: { annotations: { 'kubectl.kubernetes.io/default-container': 'game' } },
        pod: {
          containers: [
            container('sidecar', 'exit 9'),
            container('game', 'until [ -e /go ]; do sleep 0.1; done; echo played; exit 4'),
          ],
        },
      })
      await backend.create(spec)
      const reason = await vi.waitFor(async () => {
        const instance = await find(backend, spec)
        if (instance?.phase !== 'running' || instance.reason === undefined) throw new Error('not running yet')
        return instance.reason
      }, waitOptions)
      expect(reason).toBe('container sidecar exited with code 9')
      await kubectl('exec', '-n', space, spec.ref.name, '-c', 'game', '--', 'touch', '/go')
      expect(await inPhase(backend, spec, 'exited')).toMatchObject({ exitCode: 4 })
      expect(await linesOf(backend.logs(spec.ref))).toEqual(['played'])
    })

    it('that is OOM-killed is reported as killed, with its memory limit', async () => {
      const backend = open(space)
      const hungry = `exec node -e 'const all = []; for (;;) all.push(Buffer.alloc(1e6, 1))'`
      const spec = specOf(space, hungry, { container: { resources: { limits: { memory: '64Mi' } } } })
      await backend.create(spec)
      expect(await inPhase(backend, spec, 'exited')).toMatchObject({
        exitCode: 137,
        // Docker does not always tell the kubelet that it was for lack of memory.
        reason: expect.stringMatching(
          /^(OOMKilled: it|killed by SIGKILL, perhaps because it) exceeded its memory limit of 64Mi$/,
        ),
      })
    })

    it.each([
      {
        what: 'fits on no node',
        options: { pod: { nodeSelector: { disk: 'none' } } },
        reason: /^cannot be scheduled: .*node/,
      },
      {
        what: 'refers to a missing image',
        options: { container: { image: 'example.com/missing:1' } },
        reason: /^container game cannot start: ErrImageNeverPull: .*example\.com\/missing:1/,
      },
      {
        what: 'refers to a missing ConfigMap',
        options: { container: { envFrom: [{ configMapRef: { name: 'missing' } }] } },
        reason: /^container game cannot start: CreateContainerConfigError: .*missing/,
      },
    ])('that $what is blocked, with the reason', async ({ options, reason }) => {
      const backend = open(space)
      const spec = specOf(space, 'sleep 600', options)
      await backend.create(spec)
      await vi.waitFor(async () => {
        const instance = await find(backend, spec)
        expect(instance).toMatchObject({ phase: 'pending', blocked: true, reason: expect.stringMatching(reason) })
      }, waitOptions)
    })

    it('rejected by the API server is listed as exited, with the reason, until it is destroyed', async () => {
      const backend = open(space)
      const spec = specOf(space, 'sleep 600', { container: { imagePullPolicy: 'Sometimes' } })
      const refused = await backend.create(spec)
      expect(refused).toMatchObject({ phase: 'exited', exitCode: 125, reason: expect.stringMatching(/Sometimes/) })
      expect(await backend.list()).toEqual([refused])
      await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
      expect(await backend.list()).toEqual([])
    })

    it('deleted with kubectl counts as interrupted at once, and can be created again', async () => {
      const backend = open(space)
      const spec = specOf(space, `trap 'exit 0' TERM; sleep 600 & wait`)
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
      const changes: Instance[] = []
      const gone: string[] = []
      backend.watch({
        changed: (instance) => void changes.push(instance),
        gone: (_, uid) => void gone.push(uid),
        resync: () => {},
        heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1000 }),
      })
      await kubectl('delete', 'pod', '-n', space, spec.ref.name, '--wait=false')
      await vi.waitFor(() => {
        expect(changes).toContainEqual(
          expect.objectContaining({ phase: 'exited', interrupted: true, reason: 'pod deleted' }),
        )
      }, waitOptions)
      await vi.waitFor(() => expect(gone).toEqual([spec.uid]), waitOptions)
      expect(await backend.create(spec)).toMatchObject({ uid: spec.uid, phase: 'pending' })
    })

    it('that terminates slowly does not delay close, and still terminates', async () => {
      const backend = open(space)
      const spec = specOf(space, `trap '' TERM; sleep 600 & wait; wait`, { pod: { terminationGracePeriodSeconds: 60 } })
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
      const ended = backend.destroy(spec.ref, spec.uid, { graceMs: 60_000 })
      const refused = expect(ended).rejects.toMatchObject({ code: 'closed' })
      await vi.waitFor(async () => expect((await find(backend, spec))?.phase).toBe('exited'), waitOptions)
      await backend.close()
      await refused
      // Still terminating.
      const pod = JSON.parse(await kubectl('get', 'pod', '-n', space, spec.ref.name, '-o', 'json'))
      expect(pod.metadata.deletionTimestamp).toBeDefined()
    })

    it('on a node that does not respond is force-deleted after its grace period', async () => {
      const node = `ghost-${newGroup().split('.')[0]}`
      const body = ghostNode(node)
      await api.request({ what: 'make a node', method: 'POST', path: '/api/v1/nodes', body })
      const backend = open(space)
      const spec = specOf(space, 'sleep 600', { pod: { nodeName: node } })
      try {
        await backend.create(spec)
        expect(await find(backend, spec)).toMatchObject({ phase: 'pending', node })
        await backend.destroy(spec.ref, spec.uid, { graceMs: 1_000 })
        expect(await backend.list()).toEqual([])
      } finally {
        await api.request({ what: 'remove a node', method: 'DELETE', path: `/api/v1/nodes/${node}` })
      }
    })

    it('whose SDK secret is missing is removed by list, and can be created again', async () => {
      const backend = open(space)
      const spec = specOf(space, 'sleep 600')
      // As left by a host that was killed before the pod had a node: its secret is never created.
      const body = podOf({
        ...{
          spec,
          ports: [],
          group: backend.apiGroup,
          secret: 'never-written',
          owner: undefined,
          scheduling: 'packed',
          platform: {},
          refusingNodes: [],
        },
      })
      await api.request({ what: 'make a pod', method: 'POST', path: `/api/v1/namespaces/${space}/pods`, body })
      expect(await backend.list()).toEqual([])
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
    })
  })

  describe.concurrent('public ports', () => {
    it('in use by pods outside the fleet are replaced with other ports', async () => {
      const portRange = nextRange(2)
      const stranger = open(space, { portRange: { first: portRange.first, last: portRange.first } })
      await stranger.create(specOf(space, 'sleep 600', { ports: [7777] }))
      const backend = open(space, { portRange })
      const first = specOf(space, 'sleep 600', { ports: [7777] })
      await backend.create(first)
      const exited = await inPhase(backend, first, 'exited')
      expect(exited).toMatchObject({ interrupted: true, reason: expect.stringContaining(String(portRange.first)) })
      await backend.destroy(first.ref, first.uid, { graceMs: 0 })
      const second = specOf(space, 'sleep 600', { ports: [7777] })
      expect((await backend.create(second)).ports).toEqual([{ container: 7777, public: portRange.last }])
      await inPhase(backend, second, 'running')
    })

    it('in use on the only suitable node keep the pod waiting', async () => {
      // The node's labels match the pod, so the fleet considers the ports free.
      const node = `ghost-${newGroup().split('.')[0]}`
      const body = ghostNode(node)
      await api.request({ what: 'make a node', method: 'POST', path: '/api/v1/nodes', body })
      try {
        const backend = open(space, { portRange: nextRange(1) })
        const matchExpressions = [
          { key: 'kubernetes.io/hostname', operator: 'Exists' },
          { key: 'hollow', operator: 'DoesNotExist' },
        ]
        const required = { nodeSelectorTerms: [{ matchExpressions }] }
        const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } }
        const options = { ports: [7777], pod: { affinity, tolerations: [{ operator: 'Exists' }] } }
        const [first, second] = [specOf(space, 'sleep 600', options), specOf(space, 'sleep 600', options)]
        await backend.create(first)
        await inPhase(backend, first, 'running')
        await backend.create(second)
        await vi.waitFor(async () => {
          const reason = expect.stringMatching(/free ports/)
          expect(await find(backend, second)).toMatchObject({ phase: 'pending', blocked: true, reason })
        }, waitOptions)
        await backend.destroy(first.ref, first.uid, { graceMs: 0 })
        await inPhase(backend, second, 'running')
      } finally {
        await api.request({ what: 'remove a node', method: 'DELETE', path: `/api/v1/nodes/${node}` })
      }
    })

    it('are the ports the game listens on when it uses the host network', async () => {
      const backend = open(space)
      const script = 'cat $GSDK_CONFIG_FILE; echo; echo $PORT_7777'
      const spec = specOf(space, script, { ports: [7777], pod: { hostNetwork: true } })
      await backend.create(spec)
      const { ports } = await inPhase(backend, spec, 'exited')
      const output = (await linesOf(backend.logs(spec.ref))).join('\n')
      const number = ports[0]?.public
      expect(JSON.parse(output.slice(0, output.indexOf('\n}') + 2))).toMatchObject({
        gamePorts: { port_7777: String(number) },
      })
      expect(output.trim().split('\n').at(-1)).toBe(String(number))
    })
  })

  describe.concurrent('the log of a pod', () => {
    it('can be read completely, from its last lines, or followed', async () => {
      const backend = open(space)
      const spec = specOf(space, 'echo one; echo two; until [ -e /go ]; do sleep 0.1; done; echo late; exit 3')
      await backend.create(spec)
      await inPhase(backend, spec, 'running')
      const read = (options: object) => linesOf(backend.logs(spec.ref, options))
      await vi.waitFor(async () => expect(await read({})).toEqual(['one', 'two']), waitOptions)
      expect(await read({ tail: 1 })).toEqual(['two'])
      expect(await read({ tail: 0 })).toEqual([])
      const stop = new AbortController()
      const cut = read({ follow: true, signal: stop.signal })
      const followed = (backend.logs(spec.ref, { follow: true, tail: 1 }) ?? [])[Symbol.asyncIterator]()
      stop.abort()
      expect((await cut).length).toBeLessThanOrEqual(2)
      // Now it follows.
      expect((await followed.next()).value).toBe('two')
      await kubectl('exec', '-n', space, spec.ref.name, '--', 'touch', '/go')
      expect((await followed.next()).value).toBe('late')
      expect((await followed.next()).done).toBe(true)
      await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
      await expect(read({})).rejects.toMatchObject({ code: 'not-found' })
    })
  })
})
