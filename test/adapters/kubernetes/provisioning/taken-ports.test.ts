/** Public ports that a program outside the cluster has taken on a node: servers move on to the free ones. */
import { createFleet } from 'gamekeeper'
import { expect, it, onTestFinished, vi } from 'vitest'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'
import { baseImage, nextRange, open } from '../support/support.js'

const takerName = 'taker'

describeOnCluster('public ports that a program on the node has taken', () => {
  const space = ownNamespace()

  it('leave a build complete while as many others are free', { timeout: 150_000 }, async () => {
    const portRange = nextRange(6)
    const taken = [0, 1, 2].map((index) => portRange.first + index)
    // As the cluster sees it, this pod has no ports.
    const listen = `for (const port of [${taken.join()}]) require('net').createServer().listen(port)`
    const pod = { image: baseImage, imagePullPolicy: 'Never' }
    const taker = {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: takerName } },
      spec: { hostNetwork: true, containers: [{ ...pod, name: takerName, command: ['node', '-e', listen] }] },
    }
    await kubectlWith(JSON.stringify(taker), 'apply', '-n', space(), '-f', '-')
    await kubectl('wait', '-n', space(), `pod/${takerName}`, '--for=condition=Ready', '--timeout=60s')
    const node = await kubectl('get', 'pod', '-n', space(), takerName, '-o', 'jsonpath={.spec.nodeName}')

    const backend = open(space(), { apiGroup: defaultApiGroup, portRange })
    const ids = new Map<string, string>()
    const create = backend.create.bind(backend)
    backend.create = async (spec, options) => {
      ids.set(spec.ref.name, spec.sdk.sessionHostId)
      return create(spec, options)
    }
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' } })
    onTestFinished(() => fleet.close())
    const container = { ...pod, name: 'game', command: ['sleep', '600'], ports: [{ containerPort: 7777 }] }
    const template = {
      spec: {
        ...{ automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 },
        ...{ nodeSelector: { 'kubernetes.io/hostname': node }, containers: [container] },
      },
    }
    const metadata = { name: 'arena', namespace: space() }
    const spec = { buildID: 'taken', standingBy: 2, max: 2, portsToExpose: [7777], template }
    await fleet.builds.create({ metadata, spec })
    const ready = await until(
      'two servers stand by',
      async () => {
        for (const { metadata, status } of await fleet.servers.list()) {
          if (status.state === 'Initializing' || status.state === 'StandingBy')
            fleet.heartbeat(ids.get(metadata.name) ?? '', { state: 'StandingBy', health: 'Healthy', players: [] })
        }
        const servers = (await fleet.servers.list()).filter(({ status }) => status.state === 'StandingBy')
        return servers.length === 2 && servers
      },
      120_000,
    )
    await vi.waitFor(async () => expect((await fleet.builds.get(metadata)).status.crashesCount).toBe(0))
    expect(new Set(ready.map(({ status }) => status.ports)).size).toBe(2)
  })
})
