/** Benchmarks `fleet.allocate` on the durable file store against an equally durable put into lmdb. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open as openLmdb } from 'lmdb'
import { type Cost, costOf, perSecond, typical, typicalWallUs } from './cost.js'
import { allocateAll, newRequests, openFleet } from './fleet.js'
import { atLeast, type Bench, ratioAtMost } from './row.js'
import { startSubject } from './subject.js'

interface Latencies {
  readonly allocateUs: readonly number[]
  readonly putUs: readonly number[]
}

export async function open({ directory, servers }: { directory: string; servers: number }) {
  const store = { kind: 'file' as const, directory: join(directory, 'fleet') }
  const { fleet, refill } = await openFleet({ servers, wrap: (backend) => ({ ...backend, defaultStore: store }) })
  // Uses the settings from src/stores/lmdb-environment.ts: a commit resolves only once it is on disk.
  const bare = openLmdb<string, string>(join(directory, 'bare'), {
    encoding: 'string',
    noSubdir: false,
    overlappingSync: false,
    eventTurnBatching: false,
    useVersions: true,
  })
  const [record] = await fleet.servers.list()
  const text = JSON.stringify(record)
  let version = 0
  const put = (key: string) => bare.put(key, text, ++version)

  return {
    /** Alternates between allocations and puts, so that both experience the same disk load. */
    async oneCaller(calls: number): Promise<Latencies> {
      const allocations: Awaited<ReturnType<typeof fleet.allocate>>[] = []
      const allocateUs: number[] = []
      const putUs: number[] = []
      for (const request of newRequests(calls)) {
        const startedAt = performance.now()
        allocations.push(await fleet.allocate(request))
        const between = performance.now()
        await put(request.sessionID)
        putUs.push((performance.now() - between) * 1_000)
        allocateUs.push((between - startedAt) * 1_000)
      }
      await refill(allocations)
      return { allocateUs, putUs }
    },

    async manyCallers(calls: number, callers: number): Promise<Cost> {
      const requests = newRequests(calls)
      let allocations: Awaited<ReturnType<typeof allocateAll>> = []
      const cost = await costOf(calls, async () => {
        allocations = await allocateAll(fleet, requests, callers)
      })
      await refill(allocations)
      return cost
    },

    manyPuts(calls: number, callers: number): Promise<Cost> {
      const keys = newRequests(calls).map(({ sessionID }) => sessionID)
      const caller = async () => {
        for (let key = keys.pop(); key !== undefined; key = keys.pop()) await put(key)
      }
      return costOf(calls, async () => {
        await Promise.all(Array.from({ length: callers }, caller))
      })
    },

    async close(): Promise<void> {
      await fleet.close()
      await bare.close()
    },
  }
}

const callers = 1_000

export const allocateFile: Bench = {
  names: ['allocate-file', 'allocate-file-many'],

  async run(quick) {
    const calls = quick ? callers : 5 * callers
    const rounds = quick ? 1 : 6
    const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-bench-'))
    try {
      const subject = await startSubject(import.meta.url, open, { directory, servers: calls })
      try {
        const allocations: Cost[] = []
        const puts: Cost[] = []
        await subject.oneCaller(quick ? 5 : 100)
        const { allocateUs, putUs } = await subject.oneCaller(quick ? 10 : 500)
        for (let round = 0; round < 1 + rounds; round++) {
          const [allocated, written] = [
            await subject.manyCallers(calls, callers),
            await subject.manyPuts(calls, callers),
          ]
          // The first round is a warm-up.
          if (round === 0) continue
          allocations.push(allocated)
          puts.push(written)
        }
        await subject.close()
        return [
          ratioAtMost(1.5, {
            name: 'allocate-file',
            value: typical(allocateUs),
            unit: 'µs/call',
            baseline: typical(putUs),
            note: 'one caller; baseline: one awaited put',
          }),
          atLeast(50_000, {
            name: 'allocate-file-many',
            value: perSecond(typicalWallUs(allocations)),
            unit: 'calls/s',
            baseline: perSecond(typicalWallUs(puts)),
            note: `${callers.toLocaleString('en')} callers; baseline: as many concurrent puts`,
          }),
        ]
      } finally {
        await subject.stop()
      }
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
