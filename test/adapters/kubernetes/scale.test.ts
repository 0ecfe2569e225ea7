/** A large fleet on hollow nodes starts completely and then makes few API calls. The benchmarks measure its speed. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { defaultKubeConfig } from '../../../adapters/kubernetes/client/kube-config.js'
import { kubectl } from './support/cluster.js'
import { countingProxy } from './support/counting-proxy.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { ownNamespace } from './support/own-namespace.js'
import { freeHollowPods, hollowBuild, HollowGames, removePods } from './support/scale-fleet.js'

const size = 400
const portRange = '22000-25000'
const waitOptions = { timeout: 150_000, interval: 100 }
/** Two per lease renewal: enough time for the fleet to list its pods five times and to write counts ten times. */
const quietRequests = 8

describeOnCluster('a fleet of 400 on hollow nodes', () => {
  const space = ownNamespace(removePods)

  it(
    'starts completely, and then makes no requests except watches and lease renewals',
    { timeout: 600_000 },
    async () => {
      // Pods of an earlier test may still be terminating.
      await vi.waitFor(
        async () => expect(await freeHollowPods(), 'free pods on hollow nodes').toBeGreaterThanOrEqual(size),
        {
          timeout: 120_000,
          interval: 1_000,
        },
      )
      const games = new HollowGames()
      onTestFinished(() => games.stop())
      const first = await games.openFleet({ namespaces: [space()], portRange })
      onTestFinished(() => first.close())
      await first.builds.create(hollowBuild(space(), size))
      await vi.waitFor(async () => {
        const { status } = await first.builds.get({ namespace: space(), name: 'arena' })
        expect(status).toMatchObject({ currentStandingBy: size })
      }, waitOptions)
      await first.close()

      // Another host, whose requests are recorded.
      const proxy = await countingProxy(defaultKubeConfig())
      onTestFinished(() => proxy.close())
      const counted = { kubeConfig: proxy.config, namespaces: [space()], portRange, leaseMs: 10_000 }
      const fleet = await games.openFleet(counted, { resyncIntervalMs: 2_000 })
      onTestFinished(() => fleet.close())
      await vi.waitFor(async () => {
        const { status } = await fleet.builds.get({ namespace: space(), name: 'arena' })
        expect(status).toMatchObject({ currentStandingBy: size, currentPending: 0, crashesCount: 0 })
        expect((await fleet.servers.list()).every((server) => server.status.health === 'Healthy')).toBe(true)
      }, waitOptions)
      // The fleet has finished starting once these are its only requests.
      await vi.waitFor(() => {
        const last = proxy.requests.filter((request) => !request.includes('watch=true')).slice(-quietRequests)
        expect(last.length).toBe(quietRequests)
        expect(last.filter((request) => !isLease(request))).toEqual([])
      }, waitOptions)
      expect((await fleet.servers.list()).filter(({ status }) => status.state === 'StandingBy')).toHaveLength(size)
      // Its nodes make few requests too: they watch only the secrets that starting pods still wait for.
      await vi.waitFor(async () => expect(await secretsWatched()).toBeLessThan(size / 10), waitOptions)
    },
  )
})

/** Secret watches of all clients, as counted by the API server. */
async function secretsWatched(): Promise<number> {
  const figures = await kubectl('get', '--raw', '/metrics')
  // The name of the metric depends on the version.
  const metric = /^apiserver_longrunning_(?:requests|gauge)\{.*resource="secrets".*verb="WATCH".*\} (\d+)$/gm
  const counted = [...figures.matchAll(metric)].map(([, count]) => Number(count))
  if (counted.length === 0) throw new Error('the API server has no metric for watches of secrets')
  return counted.reduce((sum, count) => sum + count, 0)
}

function isLease(request: string): boolean {
  return request.includes('/leases/')
}
