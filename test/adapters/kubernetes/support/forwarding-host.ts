/** A host on the cluster in a process of its own, which answers whether or not it leads. */
import { serve } from 'gamekeeper/http'
import { openProxy } from '../../../http/forwarding/proxy.js'
import { HollowGames, hollowBuild, standingBy } from './scale-fleet.js'

export interface ForwardingHostOptions {
  readonly namespace: string
  readonly servers: number
  readonly leaseMs: number
}

const hourMs = 3_600_000

export async function open({ namespace, servers, leaseMs }: ForwardingHostOptions) {
  const games = new HollowGames()
  const proxy = await openProxy()
  const place = { namespaces: [namespace], systemNamespace: namespace, portRange: '22000-25000', leaseMs }
  // The next leader does not know the games that the last one sent heartbeats for.
  const limits = { silenceMs: hourMs, firstHeartbeatMs: hourMs }
  const fleet = await games.openFleet(place, limits, { forwarding: { address: proxy.address } })
  const port = { port: 0 }
  const served = await serve({ fleet, allocation: port, management: port, forwarding: port })
  proxy.target(Number(new URL(served.forwardingUrl ?? '').port))
  return {
    urls: () => ({ allocate: `${served.allocationUrl}/api/v1/allocate`, manage: `${served.managementUrl}/api/v1` }),
    address: () => proxy.address,
    leads: async () => (await fleet.health()).leads,
    isReady: async () => (await fleet.health()).ready,

    async fill(): Promise<void> {
      const isUp = standingBy(fleet, servers)
      await fleet.builds.create(hollowBuild(namespace, servers))
      await isUp
    },

    handOver: () => served.handOver(),

    async close(): Promise<void> {
      games.stop()
      await served.close()
      await fleet.close()
      await proxy.close()
    },
  }
}
