/**
 * Benchmarks `fleet.allocate` on the custom resource store against a bare conditional status write of the same size, from the
 * same process and with the same number of connections. The games run in memory, so only the store is measured. Skipped if
 * there is no cluster.
 */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { BareWrites, connections, newApi, whenSaved } from './bare-writes.js'
import { type Cost, costOf, perSecond, typicalWallUs } from './cost.js'
import { allocateAll, newRequests, openFleet } from './fleet.js'
import { onCluster } from './kubernetes.js'
import { type Bench, ratioAtLeast, ratioAtMost, type Row } from './row.js'
import { startSubject } from './subject.js'

interface OpenOptions {
  readonly fleetIn: string
  readonly bareIn: string
  /** Must be at least the number of allocations, since no server is reused. */
  readonly servers: number
}

export async function open({ fleetIn, bareIn, servers }: OpenOptions) {
  const { defaultStore } = kubernetesBackend({
    ...{ namespaces: [fleetIn], systemNamespace: fleetIn },
    ...{ connections, requestsPerSecond: 100_000 },
  })
  const { fleet } = await openFleet({
    ...{ servers, namespace: fleetIn },
    wrap: (backend) => ({ ...backend, defaultStore }),
  })
  const api = newApi()
  const bare = new BareWrites(api, bareIn, await whenSaved(api, fleetIn, servers))

  return {
    /** Alternates between allocations and bare writes, so that both experience the same cluster load. */
    async oneCaller(calls: number): Promise<{ readonly allocateUs: number[]; readonly writeUs: number[] }> {
      const [allocateUs, writeUs]: [number[], number[]] = [[], []]
      await bare.create(1)
      for (const request of newRequests(calls)) {
        const startedAt = performance.now()
        await fleet.allocate(request)
        const between = performance.now()
        await bare.write('bare-0')
        writeUs.push((performance.now() - between) * 1_000)
        allocateUs.push((between - startedAt) * 1_000)
      }
      return { allocateUs, writeUs }
    },

    manyCallers(calls: number, callers: number): Promise<Cost> {
      const requests = newRequests(calls)
      return costOf(calls, async () => {
        await allocateAll(fleet, requests, callers)
      })
    },

    async manyWrites(calls: number, callers: number): Promise<Cost> {
      const names = await bare.create(callers)
      let left = calls
      return costOf(calls, async () => {
        const caller = async (name: string) => {
          while (left-- > 0) await bare.write(name)
        }
        await Promise.all(names.map(caller))
      })
    },

    async close(): Promise<void> {
      await fleet.close()
      api.close()
    },
  }
}

const sizes = [32, 128] as const
const names = ['allocate-kubernetes', ...sizes.map((callers) => `allocate-kubernetes-${callers}`)]

export const allocateKubernetes: Bench = {
  names,

  run: (quick) =>
    onCluster(names, async (api) => {
      const [fleetIn, bareIn] = [await makeNamespace(api), await makeNamespace(api)]
      try {
        return await measure(quick, fleetIn, bareIn)
      } finally {
        await Promise.all([fleetIn, bareIn].map((name) => removeNamespace(api, name)))
      }
    }),
}

async function measure(quick: boolean, fleetIn: string, bareIn: string): Promise<readonly Row[]> {
  const [warmUps, calls] = quick ? [1, 10] : [10, 100]
  // The first round is a warm-up.
  const rounds = quick ? 1 : 3
  const ofRound = (callers: number) => (quick ? callers : 2 * callers)
  const servers = warmUps + calls + sizes.reduce((sum, callers) => sum + rounds * ofRound(callers), 0)
  const subject = await startSubject(import.meta.url, open, { fleetIn, bareIn, servers })
  try {
    await subject.oneCaller(warmUps)
    const { allocateUs, writeUs } = await subject.oneCaller(calls)
    const rows = [
      ratioAtMost(1.5, {
        name: 'allocate-kubernetes',
        value: middle(allocateUs),
        unit: 'µs/call',
        baseline: middle(writeUs),
        note: 'one caller, p50; baseline: a conditional status write',
      }),
    ]
    for (const callers of sizes) {
      const [allocations, writes]: [Cost[], Cost[]] = [[], []]
      for (let round = 0; round < rounds; round++) {
        const count = ofRound(callers)
        const [allocated, written] = [
          await subject.manyCallers(count, callers),
          await subject.manyWrites(count, callers),
        ]
        if (round === 0 && rounds > 1) continue
        allocations.push(allocated)
        writes.push(written)
      }
      rows.push(
        ratioAtLeast(0.7, {
          name: `allocate-kubernetes-${callers}`,
          value: perSecond(typicalWallUs(allocations)),
          unit: 'calls/s',
          baseline: perSecond(typicalWallUs(writes)),
          note: `${callers} callers; baseline: as many concurrent writes`,
        }),
      )
    }
    await subject.close()
    return rows
  } finally {
    await subject.stop()
  }
}

function middle(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}
