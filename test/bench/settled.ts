/** Benchmarks the calls, CPU time and memory of a settled fleet, which has nothing to start, stop or allocate. */
import { setTimeout as pause } from 'node:timers/promises'
import { collectGarbage, typical } from './cost.js'
import { Calls, countingBackend, countingStore } from './counting.js'
import { openFleet } from './fleet.js'
import { ownCpuUs } from './load.js'
import { atMost, type Bench } from './row.js'
import { startSubject } from './subject.js'

interface Settled {
  /** Number of store and backend calls, first without heartbeats and then with a heartbeat per server each second. */
  readonly calls: number
  readonly summary: string
  /** CPU time per second without heartbeats, before the fleet was created (`emptyMs`) and with the fleet (`settledMs`). */
  readonly emptyMs: number
  readonly settledMs: number
  readonly bytesPerServer: number
}

export async function open({ servers, seconds }: { servers: number; seconds: number }) {
  return {
    async measure(): Promise<Settled> {
      await settleProcess()
      const emptyMs = await cpuMsPerSecond(seconds)
      collectGarbage()
      const bytesBefore = process.memoryUsage().heapUsed

      const calls = new Calls()
      const { fleet, backend } = await openFleet({
        servers,
        store: countingStore(calls),
        wrap: countingBackend(calls),
      })
      if (calls.total < 2 * servers)
        throw new Error(`only ${calls.total} calls were counted for ${servers} servers: the counter is broken`)
      await settleProcess()
      const bytesPerServer = (process.memoryUsage().heapUsed - bytesBefore) / servers
      calls.reset()
      const settledMs = await cpuMsPerSecond(seconds)
      const hostIds = backend.servers().map(({ spec }) => spec.sdk.sessionHostId)
      for (let second = 0; second < seconds; second++) {
        for (const id of hostIds) fleet.heartbeat(id, { state: 'StandingBy', health: 'Healthy', players: [] })
        await pause(1_000)
      }
      return { calls: calls.total, summary: calls.summary, emptyMs, settledMs, bytesPerServer }
    },
  }
}

/** Waits until compilation and garbage collection have finished. */
async function settleProcess(): Promise<void> {
  collectGarbage()
  await pause(1_500)
  collectGarbage()
}

/** Measures each second separately, so that seconds with garbage collection after the set-up can be disregarded. */
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
      const { calls, summary, emptyMs, settledMs, bytesPerServer } = await subject.measure()
      return [
        atMost(0, {
          name: 'settled-calls',
          value: calls,
          unit: 'calls',
          note: `in ${2 * seconds} s, half of them with a heartbeat per server and second ${summary}`.trimEnd(),
        }),
        atMost(1, {
          name: 'settled-cpu',
          value: Math.max(0, settledMs - emptyMs),
          unit: 'ms/s',
          note: `${settledMs.toFixed(2)} ms/s, and ${emptyMs.toFixed(2)} ms/s without a fleet`,
        }),
        atMost(4_096, {
          name: 'settled-memory',
          value: bytesPerServer,
          unit: 'bytes/server',
          note: 'including the memory store and the memory backend',
        }),
      ]
    } finally {
      await subject.stop()
    }
  },
}
