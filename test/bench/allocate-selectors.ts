/** Benchmarks allocations that choose their servers by data and order, against plain ones in the same fleet. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Allocation, type AllocationRequest, createFleet } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { clocks, collectYoungGarbage, type Cost, costOf, perSecond, typicalWorkUs } from './cost.js'
import { allocateAll } from './fleet.js'
import { type Bench, ratioAtLeast } from './row.js'
import { startSubject } from './subject.js'

const builds = 20
const maps = ['dust', 'canyon', 'harbour', 'ridge']
const hourMs = 3_600_000
const idOf = (n: number) => `build-${n % builds}`

/** Every fifth request is one of these five; `n` decides its builds. */
/** A request without its session. */
type Target = AllocationRequest extends infer T ? (T extends AllocationRequest ? Omit<T, 'sessionID'> : never) : never

function selective(n: number): Target {
  const map = maps[n % maps.length] ?? ''
  switch (n % 5) {
    case 0:
      return { select: [{ builds: [idOf(n)], matchLabels: { map } }, { builds: [idOf(n), idOf(n + 1)] }] }
    case 1:
      return { select: [{ builds: [idOf(n), idOf(n + 7)], counters: { rooms: { minAvailable: 2 } } }] }
    case 2:
      return { buildID: idOf(n), counters: { rooms: { increment: 1 } }, labels: { map } }
    case 3:
      return { buildID: idOf(n), order: { by: 'packed' } }
    default:
      return {
        select: [
          { builds: [idOf(n)], matchExpressions: [{ key: 'map', operator: 'NotIn', values: [map] }] },
          { builds: [idOf(n + 3)] },
        ],
        order: { by: 'least-available', counter: 'rooms' },
      }
  }
}

export async function open({ servers, calls }: { servers: number; calls: number }) {
  const backend = memoryBackend({
    portRange: { first: 10_000, last: 65_000 },
    nodes: Array.from({ length: 50 }, (_, n) => `node-${n}`),
    heartbeatIntervalMs: 0,
  })
  const fleet = await createFleet({
    backend: {
      ...backend,
      watch: ({ changed, gone, resync, heartbeat }) => backend.watch({ changed, gone, resync, heartbeat }),
    },
    limits: { silenceMs: hourMs, firstHeartbeatMs: hourMs, maxCreatesPerReconcile: 1_000, maxConcurrentCreates: 1_000 },
    agent: { port: 0 },
  })
  const standingBy = async () => (await fleet.servers.list()).filter(({ status }) => status.state === 'StandingBy')
  const untilReady = async () => {
    for (let ready = await standingBy(); ready.length < servers; ready = await standingBy()) await pause(20)
    return standingBy()
  }
  for (let n = 0; n < builds; n++) {
    await fleet.builds.create({
      metadata: { name: idOf(n) },
      spec: {
        buildID: idOf(n),
        standingBy: servers / builds,
        max: servers / builds,
        portsToExpose: [7_777],
        template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
        counters: { rooms: { count: 0, capacity: 8 } },
      },
    })
  }
  const known = new Set<string>()
  /** Gives new servers one of four maps and one of four counts, so that each build has 16 kinds of servers. */
  const vary = async () => {
    for (const [n, { metadata }] of (await untilReady()).entries()) {
      if (known.has(metadata.name)) continue
      known.add(metadata.name)
      const map = maps[n % maps.length] ?? ''
      await fleet.servers.update(metadata.name, {
        labels: { map },
        counters: { rooms: { count: Math.floor(n / 4) % 4 } },
      })
    }
  }
  await vary()
  const measure = async (requests: readonly AllocationRequest[]): Promise<Cost> => {
    collectYoungGarbage()
    let allocations: readonly Allocation[] = []
    const cost = await costOf(calls, async () => {
      allocations = await allocateAll(fleet, requests, 1)
    })
    const taken = new Set(allocations.map(({ server }) => server.name))
    if (taken.size !== calls) throw new Error(`${calls} calls got ${taken.size} servers`)
    for (const server of backend.servers()) if (taken.has(server.ref.name)) server.exit()
    for (const name of taken) {
      while (
        await fleet.servers.get(name).then(
          () => true,
          () => false,
        )
      )
        await pause(5)
    }
    await vary()
    return cost
  }
  const requestsOf = (ask: (n: number) => Target) =>
    Array.from({ length: calls }, (_, n) => ({ ...ask(n), sessionID: randomUUID(), initialPlayers: ['amie'] }))
  return {
    plain: () => measure(requestsOf((n) => ({ buildID: idOf(n) }))),
    selective: () => measure(requestsOf(selective)),
  }
}

export const allocateSelectors: Bench = {
  names: ['allocate-selectors'],

  async run(quick) {
    const calls = quick ? 40 : 1_000
    const warmUps = quick ? 1 : 6
    const rounds = quick ? 1 : 12
    const subject = await startSubject(import.meta.url, open, { servers: quick ? 200 : 10_000, calls })
    try {
      const plain: Cost[] = []
      const selected: Cost[] = []
      for (let round = 0; round < warmUps + rounds; round++) {
        const costs = [await subject.plain(), await subject.selective()] as const
        // The first rounds are a warm-up.
        if (round < warmUps) continue
        plain.push(costs[0])
        selected.push(costs[1])
      }
      return [
        ratioAtLeast(0.5, {
          name: 'allocate-selectors',
          value: perSecond(typicalWorkUs(selected)),
          unit: 'calls/s',
          baseline: perSecond(typicalWorkUs(plain)),
          note: `10,000 servers of 20 builds: ${clocks(selected)}; baseline: ${clocks(plain)}`,
        }),
      ]
    } finally {
      await subject.stop()
    }
  },
}
