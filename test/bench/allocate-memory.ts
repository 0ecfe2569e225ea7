/** Benchmarks `fleet.allocate` in memory: what the engine itself costs, and whether that grows with the fleet. */
import { allocateAll, newRequests, openFleet } from './fleet.js'
import { clocks, collectYoungGarbage, type Cost, costOf, typicalWorkUs, perSecond } from './cost.js'
import { atLeast, type Bench, ratioAtMost } from './row.js'
import { startSubject } from './subject.js'

/** Ends the matches between rounds, so that a fleet of any size can serve any number of calls. */
export async function open({ servers, calls }: { servers: number; calls: number }) {
  const { fleet, refill } = await openFleet({ servers })
  const records = new Map<string, { readonly revision: number; readonly record: object }>()

  return {
    async allocate(callers: number): Promise<Cost> {
      const requests = newRequests(calls)
      collectYoungGarbage()
      let allocations: Awaited<ReturnType<typeof allocateAll>> = []
      const cost = await costOf(calls, async () => {
        allocations = await allocateAll(fleet, requests, callers)
      })
      await refill(allocations)
      return cost
    },

    /** The least that an allocation in memory can cost: one awaited conditional write of a record. */
    bare(): Promise<Cost> {
      const update = async (key: string, record: object, revision: number) => {
        const present = records.get(key)
        if (present && present.revision !== revision) throw new Error('conflict')
        records.set(key, { revision: revision + 1, record })
        return revision + 1
      }
      const keys = newRequests(calls).map(({ sessionID }) => sessionID)
      records.clear()
      collectYoungGarbage()
      return costOf(calls, async () => {
        for (const key of keys) await update(key, { key, state: 'Active' }, 0)
      })
    },
  }
}

const small = 1_000
const large = 100_000

export const allocateMemory: Bench = {
  names: ['allocate-memory', 'allocate-memory-many', 'allocate-memory-large'],

  async run(quick) {
    const calls = quick ? 100 : 1_000
    const warmUps = quick ? 1 : 12
    const rounds = quick ? 1 : 20
    const few = await startSubject(import.meta.url, open, { servers: quick ? 100 : small, calls })
    try {
      const bare: Cost[] = []
      const alone: Cost[] = []
      const together: Cost[] = []
      for (let round = 0; round < warmUps + rounds; round++) {
        const costs = [await few.bare(), await few.allocate(1), await few.allocate(calls)] as const
        // The first rounds are a warm-up.
        if (round < warmUps) continue
        bare.push(costs[0])
        alone.push(costs[1])
        together.push(costs[2])
      }
      // Opened last, since garbage collection for such a large fleet would disturb the other measurements.
      const many = await startSubject(import.meta.url, open, { servers: quick ? 1_000 : large, calls })
      const inFew: Cost[] = []
      const inMany: Cost[] = []
      try {
        for (let round = 0; round < warmUps + rounds; round++) {
          const costs = [await few.allocate(1), await many.allocate(1)] as const
          if (round < warmUps) continue
          inFew.push(costs[0])
          inMany.push(costs[1])
        }
      } finally {
        await many.stop()
      }
      const baseline = perSecond(typicalWorkUs(bare))
      return [
        atLeast(200_000, {
          name: 'allocate-memory',
          value: perSecond(typicalWorkUs(alone)),
          unit: 'calls/s',
          baseline,
          note: `one caller: ${clocks(alone)}`,
        }),
        atLeast(200_000, {
          name: 'allocate-memory-many',
          value: perSecond(typicalWorkUs(together)),
          unit: 'calls/s',
          baseline,
          note: `1,000 callers: ${clocks(together)}`,
        }),
        ratioAtMost(1.5, {
          name: 'allocate-memory-large',
          value: typicalWorkUs(inMany),
          unit: 'µs/call',
          baseline: typicalWorkUs(inFew),
          note: `100,000 servers: ${clocks(inMany)}; baseline: 1,000 servers`,
        }),
      ]
    } finally {
      await few.stop()
    }
  },
}
