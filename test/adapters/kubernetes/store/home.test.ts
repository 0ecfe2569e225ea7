/** Two fleets whose hosts were given the same namespace by mistake, and different system namespaces: only one of them leads. */
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { nextRange } from '../support/support.js'

describeOnCluster('fleets with one namespace and two system namespaces', () => {
  vi.setConfig({ testTimeout: 180_000 })
  const { make } = ownNamespaces(
    async (_, namespace) => void (await kubectl('-n', namespace, 'delete', 'gsb', '--all')),
  )
  const [games, other] = [namespaceName(), namespaceName()]
  const k = (...args: readonly string[]) => kubectl('-n', games, ...args)
  beforeAll(async () => {
    for (const namespace of [games, other]) await make(namespace)
  })

  async function host(systemNamespace: string) {
    const place = { namespaces: [games], systemNamespace, portRange: nextRange(10), leaseMs: 15_000 }
    const backend = kubernetesBackend({ ...place, logger: silentLogger })
    const agent = { external: '192.0.2.1:56001' }
    const fleet = await createFleet({ backend, agent, logger: silentLogger })
    onTestFinished(() => fleet.close())
    return fleet
  }
  const refusalOf = (fleet: Awaited<ReturnType<typeof host>>) =>
    fleet.builds.list().then(
      () => undefined,
      (error: unknown) => String(error),
    )

  it('the second keeps off and says whose the builds are; they are moved by an annotation', async () => {
    const first = await host(games)
    await until('the first leads', async () => (await refusalOf(first)) === undefined)
    await kubectlWith(buildManifest(games, 'arena', { standingBy: 0, max: 1 }), 'apply', '-f', '-')
    const home = () => k('get', 'gsb', 'arena', '-o', 'jsonpath={.status.home}')
    await until('the build says whose it is', async () => (await home()) === games)
    const second = await host(other)
    expect(await refusalOf(second)).toContain(`belongs to the fleet with the system namespace ${games}`)
    expect(await refusalOf(second)).toContain(`annotate gsb --all`)
    expect(await refusalOf(first)).toBe(undefined)
    await k('annotate', 'gsb', '--all', `mps.gamekeeper.com/home=${other}`)
    await until('the second leads', async () => (await refusalOf(second)) === undefined)
    await until('the build is its own', async () => (await home()) === other)
    await until('the first stops', async () => (await refusalOf(first))?.includes('belongs to the fleet'))
  })
})
