/** Benchmarks the allocation API of `serve` on the real engine with everything in memory. */
import type { Allocation } from 'gamekeeper'
import { serve } from 'gamekeeper/http'
import { bareServerFile, open as openBare } from './bare-server.js'
import { clocks, collectYoungGarbage, type Cost, perSecond, typicalWorkUs } from './cost.js'
import { newRequests, openFleet } from './fleet.js'
import { costOfRequests, mainThreadCpuUs, post, type Target } from './load.js'
import { type Bench, ratioAtLeast } from './row.js'
import { startSubject } from './subject.js'

export async function open({ servers }: { servers: number }) {
  const { fleet, refill } = await openFleet({ servers })
  const { allocationUrl } = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
  const { hostname, port } = new URL(allocationUrl)
  return {
    target: (): Target => ({ host: hostname, port: Number(port) }),
    cpuUs: mainThreadCpuUs,
    collectYoungGarbage,
    refill: (allocations: readonly Allocation[]) => refill(allocations),
  }
}

export const openFile = import.meta.url

export const allocateHttp: Bench = {
  names: ['allocate-http'],

  async run(quick) {
    const calls = quick ? 100 : 2_000
    const warmUps = quick ? 1 : 6
    const rounds = quick ? 1 : 12
    const [fleet, bare] = await Promise.all([
      startSubject(import.meta.url, open, { servers: calls }),
      startSubject(bareServerFile, openBare, { kind: 'allocation', servers: calls }),
    ])
    try {
      const ours: Cost[] = []
      const theirs: Cost[] = []
      for (let round = 0; round < warmUps + rounds; round++) {
        const requests = newRequests(calls).map((request) => post('/api/v1/allocate', request))
        const [allocated, answered] = [await costOfRequests(fleet, requests), await costOfRequests(bare, requests)]
        const allocations = allocated.bodies.map((body): Allocation => JSON.parse(body))
        const taken = new Set(allocations.map(({ IPV4Address, Ports }) => `${IPV4Address} ${Ports}`))
        if (taken.size !== calls) throw new Error(`${calls} sessions got ${taken.size} servers`)
        if (allocated.bodies[0]?.length !== answered.bodies[0]?.length) throw new Error('the answers differ in length')
        await Promise.all([fleet.refill(allocations), bare.endSessions()])
        if (round < warmUps) continue
        ours.push(allocated)
        theirs.push(answered)
      }
      return [
        ratioAtLeast(0.65, {
          name: 'allocate-http',
          value: perSecond(typicalWorkUs(ours)),
          unit: 'requests/s',
          baseline: perSecond(typicalWorkUs(theirs)),
          note: `${clocks(ours)}; bare route: ${clocks(theirs)}`,
        }),
      ]
    } finally {
      await Promise.all([fleet.stop(), bare.stop()])
    }
  },
}
