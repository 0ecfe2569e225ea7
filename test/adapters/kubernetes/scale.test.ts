/** A large fleet on hollow nodes: it comes up whole, and asks for nothing once it is there. How fast is for the benchmarks to say. */
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { defaultKubeConfig } from '../../../adapters/kubernetes/client/kube-config.js'
import { clusterApi, kubectl, makeNamespace, removeNamespace } from './support/cluster.js'
import { countingProxy } from './support/counting-proxy.js'
import { installDefinitions } from './support/definitions.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { HollowGames, hollowBuild, hollowRoom, removePods, standingBy } from './support/scale-fleet.js'

const size = 400
const portRange = '22000-25000'
const patience = { timeout: 150_000, interval: 100 }
/** Two for each renewal of the lease: the fleet reads its pods five times meanwhile, and could have shown figures ten times. */
const quietRequests = 8

describeOnCluster('a fleet of 400 on hollow nodes', () => {
  const api = clusterApi()
  let space = ''
  beforeAll(async () => {
    await installDefinitions()
    space = await makeNamespace(api)
  }, 60_000)
  afterAll(async () => {
    await removePods(api, space)
    await removeNamespace(api, space)
    api.close()
  }, 60_000)

  it('comes up whole, and then makes no request but its watches and its lease', { timeout: 600_000 }, async () => {
    // What a test before this one had there may still be going.
    await vi.waitFor(
      async () => expect(await hollowRoom(), 'pods that hollow nodes take').toBeGreaterThanOrEqual(size),
      {
        timeout: 120_000,
        interval: 1_000,
      },
    )
    const games = new HollowGames()
    onTestFinished(() => games.stop())
    const first = await games.openFleet({ namespaces: [space], portRange })
    onTestFinished(() => first.close())
    const isUp = standingBy(first, size)
    await first.builds.create(hollowBuild(space, size))
    await isUp
    await first.close()

    // Another host, whose requests are seen.
    const proxy = await countingProxy(defaultKubeConfig())
    onTestFinished(() => proxy.close())
    const counted = { kubeConfig: proxy.config, namespaces: [space], portRange, leaseMs: 10_000 }
    const fleet = await games.openFleet(counted, { resyncIntervalMs: 2_000 })
    onTestFinished(() => fleet.close())
    await vi.waitFor(async () => {
      const { status } = await fleet.builds.get({ namespace: space, name: 'arena' })
      expect(status).toMatchObject({ currentStandingBy: size, currentPending: 0, crashesCount: 0 })
      expect((await fleet.servers.list()).every((server) => server.status.health === 'Healthy')).toBe(true)
    }, patience)
    // What it wrote on the way there is behind it once it asks for these alone.
    await vi.waitFor(() => {
      const last = proxy.asked.filter((request) => !request.includes('watch=true')).slice(-quietRequests)
      expect(last.length).toBe(quietRequests)
      expect(last.filter((request) => !isLease(request))).toEqual([])
    }, patience)
    expect((await fleet.servers.list()).filter(({ status }) => status.state === 'StandingBy')).toHaveLength(size)
    // Nor do its nodes: each watches the secrets of pods that came just now, and of none that has what it needs.
    await vi.waitFor(async () => expect(await secretsWatched()).toBeLessThan(size / 10), patience)
  })
})

/** By anybody, as the API server counts. */
async function secretsWatched(): Promise<number> {
  const figures = await kubectl('get', '--raw', '/metrics')
  const counted = /^apiserver_registered_watchers\{group="",kind="Secret",version="v1"\} (\d+)$/m.exec(figures)
  if (!counted) throw new Error('the API server does not say who watches secrets')
  return Number(counted[1])
}

function isLease(request: string): boolean {
  return request.includes('/leases/')
}
