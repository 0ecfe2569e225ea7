/** A fleet in which nothing happens: what it calls, computes and holds. */
import { setTimeout as pause } from 'node:timers/promises'
import { collectGarbage, typical } from './cost.js'
import { Calls, countingBackend, countingStore } from './counting.js'
import { openFleet } from './fleet.js'
import { ownCpuUs } from './load.js'
import { atMost, type Bench } from './row.js'
import { startSubject } from './subject.js'

interface Settled {
  /** Calls of the store and of the backend while every server beat once a second. */
  readonly calls: number
  readonly told: string
  /** CPU time per second while nothing beat: of the process before it had a fleet, and with it. */
  readonly emptyMs: number
  readonly settledMs: number
  readonly bytesPerServer: number
}

export async function open({ servers, seconds }: { servers: number; seconds: number }) {
  return {
    async measure(): Promise<Settled> {
      await rest()
      const emptyMs = await cpuMsPerSecond(seconds)
      collectGarbage()
      const bytesBefore = process.memoryUsage().heapUsed

      const calls = new Calls()
      const { fleet, backend } = await openFleet({
        servers,
        store: countingStore(calls),
        shown: countingBackend(calls),
      })
      if (calls.total < 2 * servers) throw new Error(`only ${calls.total} calls were counted for ${servers} servers`)
      await rest()
      const bytesPerServer = (process.memoryUsage().heapUsed - bytesBefore) / servers
      calls.reset()
      const settledMs = await cpuMsPerSecond(seconds)
      const hostIds = backend.servers().map(({ spec }) => spec.sdk.sessionHostId)
      for (let second = 0; second < seconds; second++) {
        for (const id of hostIds) fleet.heartbeat(id, { state: 'StandingBy', health: 'Healthy', players: [] })
        await pause(1_000)
      }
      return { calls: calls.total, told: calls.told, emptyMs, settledMs, bytesPerServer }
    },
  }
}

/** The compiler and the collector have their last words. */
async function rest(): Promise<void> {
  collectGarbage()
  await pause(1_500)
  collectGarbage()
}

/** Second by second, so that what the collector still does about the set-up is not taken for the fleet's. */
async function cpuMsPerSecond(seconds: number): Promise<number> {
  const each: number[] = []
  for (let second = 0; second < seconds; second++) {
    const before = ownCpuUs()
    await pause(1_000)
    each.push((ownCpuUs() - before) / 1_000)
  }
  return typical(each)
}

export const settled: Bench = {
  names: ['settled-calls', 'settled-cpu', 'settled-memory'],

  async run(quick) {
    const servers = quick ? 100 : 10_000
    const seconds = quick ? 1 : 6
    const subject = await startSubject(import.meta.url, open, { servers, seconds })
    try {
      const { calls, told, emptyMs, settledMs, bytesPerServer } = await subject.measure()
      return [
        atMost(0, {
          name: 'settled-calls',
          value: calls,
          unit: 'calls',
          note: `in ${2 * seconds} s, in half of which all beat once a second ${told}`.trimEnd(),
        }),
        atMost(1, {
          name: 'settled-cpu',
          value: Math.max(0, settledMs - emptyMs),
          unit: 'ms/s',
          note: `${settledMs.toFixed(2)} ms/s, and ${emptyMs.toFixed(2)} ms/s before there was a fleet`,
        }),
        atMost(4_096, {
          name: 'settled-memory',
          value: bytesPerServer,
          unit: 'bytes/server',
          note: 'the records in the memory store and the servers of the memory backend included',
        }),
      ]
    } finally {
      await subject.stop()
    }
  },
}
