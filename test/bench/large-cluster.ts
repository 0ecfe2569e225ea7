/**
 * Benchmarks hosts of a fleet of 5,000 servers on 50 nodes. No test cluster carries that, so its API server is simulated with recorded
 * objects: what a real one takes to answer is not included.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { buildID, namespace, RecordedCluster } from './recorded-cluster.js'
import { atMost, type Bench } from './row.js'
import { type Remote, startSubject } from './subject.js'

const names = ['large-takeover', 'large-memory', 'large-requests', 'large-watched']
/** More lists of all servers and pods would show here. */
const takeoverRequests = 60
const hourMs = 3_600_000
/** The heap that Node.js allows itself within the chart's memory limit of 512 MiB. */
const heapMiB = 256

export async function open({ url }: { readonly url: string }) {
  const kubeConfig = {
    getCurrentCluster: () => ({ server: url }),
    getCurrentContext: () => 'bench',
    getContextObject: () => ({ namespace }),
    applyToHTTPSOptions: () => Promise.resolve(),
  }
  const backend = kubernetesBackend({
    ...{ kubeConfig, namespaces: [namespace], systemNamespace: namespace, portRange: '20000-29999', leaseMs: 2_000 },
  })
  const fleet = await createFleet({
    backend,
    agent: { external: '192.0.2.1:56001' },
    limits: { silenceMs: hourMs, firstHeartbeatMs: hourMs },
  })
  return {
    leads: () => fleet.stats().leads,
    allocate: async (sessionID: string) => (await fleet.allocate({ buildID, sessionID })).SessionID,
    close: () => fleet.close(),
    /** In MiB. */
    peakMemory: () => process.resourceUsage().maxRSS / 1_024,
  }
}

type Host = Remote<Awaited<ReturnType<typeof open>>>

export const largeCluster: Bench = {
  names,

  async run(quick) {
    const servers = quick ? 50 : 5_000
    const allocations = quick ? 5 : 500
    const cluster = new RecordedCluster(servers)
    const hosts: Host[] = []
    try {
      const url = await cluster.listen()
      const start = async () => {
        const host = await startSubject(import.meta.url, open, { url }, heapMiB)
        hosts.push(host)
        return host
      }
      const leader = await start()
      await leading(leader)
      const next = await start()
      await cluster.quiet()
      cluster.requests.length = 0
      const began = performance.now()
      await Promise.all([leader.close(), allocated(next, 'first')])
      const takeover = (performance.now() - began) / 1_000
      const requests = cluster.requests.length
      await cluster.quiet()
      await start()
      await cluster.quiet()
      cluster.watchedBytes = 0
      for (let count = 0; count < allocations; count++) await next.allocate(`session-${count}`)
      await cluster.quiet()
      const memory = Math.max(...(await Promise.all(hosts.map((host) => host.peakMemory()))))
      return [
        atMost(3, {
          name: 'large-takeover',
          value: takeover,
          unit: 's',
          note: `a leader with ${servers} servers closes: until the next one allocates`,
        }),
        atMost(512, { name: 'large-memory', value: memory, unit: 'MiB', note: 'the most that a host has used' }),
        atMost(takeoverRequests, {
          name: 'large-requests',
          value: requests,
          unit: 'requests',
          note: 'of both hosts, during that change',
        }),
        atMost(64, {
          name: 'large-watched',
          value: cluster.watchedBytes / 1_024 / allocations,
          unit: 'KiB',
          note: 'sent to the watches of two hosts for each allocation',
        }),
      ]
    } finally {
      await Promise.all(hosts.map((host) => host.stop()))
      cluster.close()
    }
  },
}

async function leading(host: Host): Promise<void> {
  while (!(await host.leads())) await pause(10)
}

async function allocated(host: Host, sessionID: string): Promise<void> {
  await leading(host)
  await host.allocate(sessionID)
}
