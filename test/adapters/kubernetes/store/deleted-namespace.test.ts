/** A namespace of game servers that is deleted while the fleet runs. */
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, makeNamespace } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { nextRange } from '../support/support.js'

describeOnCluster('a namespace that is deleted', () => {
  const { api, make } = ownNamespaces()

  it('takes its builds and servers along, and the fleet can be drained', { timeout: 240_000 }, async () => {
    const [system, games] = [await make(), await makeNamespace(api)]
    onTestFinished(async () => void (await kubectl('delete', 'namespace', games, '--ignore-not-found', '--wait=false')))
    const options = { namespaces: [games], systemNamespace: system, portRange: nextRange(20), logger: silentLogger }
    const backend = kubernetesBackend({ ...options, leaseMs: 15_000 })
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
    onTestFinished(() => fleet.close())
    await until('it leads', () => fleet.builds.list().then(() => true))
    const template = { spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'game', image: 'arena:1' }] } }
    const spec = { buildID: 'arena', standingBy: 5, max: 5, portsToExpose: [7777], template }
    const metadata = { namespace: games, name: 'arena' }
    await fleet.builds.create({ metadata, spec })
    const podsOf = async () => (await kubectl('-n', games, 'get', 'pods', '-o', 'name')).split('\n').length - 1
    await until('it has pods', async () => (await podsOf()) === 5)

    // Holds the namespace until the test has seen what happens meanwhile.
    const held = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'held', finalizers: ['example.com/held'] } }
    await kubectlWith(JSON.stringify(held), '-n', games, 'apply', '-f', '-')
    await kubectl('delete', 'namespace', games, '--wait=false')
    await until('its builds are gone', async () => (await fleet.builds.list()).length === 0)
    await expect(fleet.builds.create({ metadata, spec })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining(`metadata.namespace ${games} is being deleted from the cluster`),
    })
    await kubectl('-n', games, 'patch', 'configmap', 'held', '--type=merge', '-p', '{"metadata":{"finalizers":null}}')
    await until('no server is left', async () => (await fleet.servers.list()).length === 0)
    await expect(fleet.drain()).resolves.toEqual({ remaining: 0 })
  })
})
