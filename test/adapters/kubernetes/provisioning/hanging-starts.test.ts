/** Causes of a hanging start that only Kubernetes Events show, on a real cluster: ports of other programs, missing volumes. */
import { createFleet } from 'gamekeeper'
import { expect, it, onTestFinished } from 'vitest'
import type { Backend, Instance, InstanceSpec } from '../../../../src/contracts/backend.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'
import { baseImage, find, nextRange, open, specOf } from '../support/support.js'

const limits = { timeout: 240_000 }

describeOnCluster('a public port that another program on the node holds', () => {
  const space = ownNamespace()

  /**
   * Listens on the ports in a node's network namespace, without declaring them, so that the scheduler does not know of them.
   * Returns a selector for that node.
   */
  async function holdPorts(name: string, ports: readonly number[]) {
    const script = `for (const port of ${JSON.stringify(ports)}) require('net').createServer().listen(port, '0.0.0.0', () => console.log('held'))`
    const spec = {
      hostNetwork: true,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'holder', image: baseImage, imagePullPolicy: 'Never', command: ['node', '-e', script] }],
    }
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: space() }, spec }
    await kubectlWith(JSON.stringify(pod), 'apply', '-f', '-')
    await until('the ports are held', async () => {
      const log = await kubectl('logs', '-n', space(), name)
      return log.split('held').length > ports.length
    })
    const node = await kubectl('get', 'pod', '-n', space(), name, '-o', 'jsonpath={.spec.nodeName}')
    const hostname = await kubectl('get', 'node', node, '-o', 'jsonpath={.metadata.labels.kubernetes\\.io/hostname}')
    return { node, nodeSelector: { 'kubernetes.io/hostname': hostname } }
  }

  function inPhase(backend: Backend, spec: InstanceSpec, phase: Instance['phase']): Promise<Instance> {
    return until(`${spec.ref.name} is ${phase}`, async () => {
      const instance = await find(backend, spec)
      return instance?.phase === phase && instance
    })
  }

  it(
    'ends the instance with the reason of the cluster’s event, and is not used again on that node',
    limits,
    async () => {
      const portRange = nextRange(2)
      const { node, nodeSelector } = await holdPorts('holder', [portRange.first])
      const backend = open(space(), { portRange })
      const specs = [1, 2, 3].map(() => specOf(space(), 'exec sleep 600', { ports: [7777], pod: { nodeSelector } }))
      const [refused, next, third] = specs
      if (!refused || !next || !third) throw new Error('no specs')
      const reported: Instance[] = []
      backend.watch({
        changed: (instance) => reported.push(instance),
        gone() {},
        resync() {},
        heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
      })
      expect((await backend.create(refused)).ports).toMatchObject([{ public: portRange.first }])
      const ended = await inPhase(backend, refused, 'exited')
      expect(ended).toMatchObject({ interrupted: true, node })
      expect(ended.exitCode).toBeUndefined()
      expect(ended.reason).toMatch(
        new RegExp(
          `^another program on ${node} holds public port ${portRange.first}: FailedCreatePodSandBox: .*in use`,
        ),
      )
      expect(reported.find(({ uid, phase }) => uid === refused.uid && phase === 'exited')).toEqual(ended)

      expect((await backend.create(next)).ports).toMatchObject([{ public: portRange.last }])
      await inPhase(backend, next, 'running')
      await backend.destroy(refused.ref, refused.uid, { graceMs: 0 })
      const before = performance.now()
      await expect(backend.create(third)).rejects.toMatchObject({
        code: 'ports-exhausted',
        message: expect.stringContaining(`1 in use on ${node} and 1 held there by other programs`),
      })
      expect(performance.now() - before).toBeLessThan(15_000)

      await backend.destroy(next.ref, next.uid, { graceMs: 0 })
      expect((await backend.create(third)).ports).toMatchObject([{ public: portRange.last }])
      await inPhase(backend, third, 'running')
    },
  )

  it('is not the only cause that the message shows: a missing volume is another', limits, async () => {
    const backend = open(space())
    const volumes = [{ name: 'maps', hostPath: { path: '/no/such/directory', type: 'Directory' } }]
    const container = { volumeMounts: [{ name: 'maps', mountPath: '/maps' }] }
    const spec = specOf(space(), 'exec sleep 600', { container, pod: { volumes } })
    await backend.create(spec)
    const instance = await until('the message shows it', async () => {
      const found = await find(backend, spec)
      return found?.reason?.includes('FailedMount') && found
    })
    expect(instance).toMatchObject({ phase: 'pending' })
    expect(instance.reason).toMatch(/^n.* started on .*: FailedMount: .*"maps".*hostPath type check failed/)
  })

  it('gets a server of a fleet replaced by one that runs, once per port', limits, async () => {
    const portRange = nextRange(3)
    const { nodeSelector } = await holdPorts('holders', [portRange.first, portRange.first + 1])
    const backend = open(space(), { portRange, apiGroup: defaultApiGroup })
    const tried: number[] = []
    const create = backend.create.bind(backend)
    backend.create = async (spec, options) => {
      const instance = await create(spec, options)
      tried.push(instance.ports[0]?.public ?? 0)
      return instance
    }
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' } })
    onTestFinished(() => fleet.close())
    const { template } = specOf(space(), 'exec sleep 600', { pod: { nodeSelector } })
    await fleet.builds.create({
      metadata: { name: 'arena', namespace: space() },
      spec: {
        ...{ buildID: `id-of-${space()}`, standingBy: 1, max: 1, portsToExpose: [7777], template },
        health: { lateStartSeconds: 600 },
      },
    })
    const running = await until(
      'a server runs',
      async () => (await fleet.servers.list()).find(({ status }) => status.state === 'Initializing'),
      200_000,
    )
    expect(running.status.ports).toMatch(String(portRange.last))
    expect(tried).toEqual([portRange.first, portRange.first + 1, portRange.last])
  })
})
