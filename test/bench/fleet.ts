/** A fleet for benchmarks: the real engine with servers in memory, all of them standing by before the measurement. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Allocation, type AllocationRequest, type Backend, createFleet, type Fleet, type Store } from 'gamekeeper'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'

export const buildID = '85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'

export interface BenchFleet {
  readonly fleet: Fleet
  readonly backend: MemoryBackend
  /** Ends the matches on these servers. Resolves when all of the servers have been replaced. */
  refill(allocations: readonly Allocation[]): Promise<void>
}

export interface BenchFleetOptions {
  readonly servers: number
  /** Wraps the backend that is passed to the fleet. */
  readonly wrap?: (backend: MemoryBackend) => Backend
  readonly store?: Store
  /** Namespace of the build. Default: `default`. */
  readonly namespace?: string
}

const hourMs = 3_600_000

/** Opens a fleet with `max` equal to `servers`, so that allocated servers are not replaced during the measurement. */
export async function openFleet({ servers, wrap, store, namespace }: BenchFleetOptions): Promise<BenchFleet> {
  const games = memoryBackend({
    portRange: { first: 10_000, last: 65_000 },
    nodes: ['north', 'east', 'south', 'west'],
    heartbeatIntervalMs: 0,
  })
  // The games do not wait for their sessions, since what they do with one would be measured as well.
  const watch: Backend['watch'] = ({ changed, gone, resync, heartbeat }) =>
    games.watch({ changed, gone, resync, heartbeat })
  const backend: MemoryBackend = { ...games, watch }
  const fleet = await createFleet({
    backend: wrap?.(backend) ?? backend,
    // Allows for servers that send no further heartbeats, and creates all servers at once.
    limits: { silenceMs: hourMs, firstHeartbeatMs: hourMs, maxCreatesPerReconcile: 1_000, maxConcurrentCreates: 1_000 },
    agent: { port: 0 },
    ...(store && { store }),
  })
  /** Runs `work`. Resolves when `ready` servers have become ready and `gone` servers have been removed. */
  const until = async (ready: number, gone: number, work: () => Promise<unknown>) => {
    let readyLeft = ready
    let goneLeft = gone
    await new Promise<void>((resolve, reject) => {
      const check = () => {
        if (readyLeft > 0 || goneLeft > 0) return
        stopReady()
        stopGone()
        resolve()
      }
      const stopReady = fleet.on('ServerStateChanged', ({ to }) => {
        if (to === 'StandingBy') readyLeft--
        check()
      })
      const stopGone = fleet.on('ServerRemoved', () => {
        goneLeft--
        check()
      })
      work().catch(reject)
    })
    // Wait while the last records are being written.
    await pause(100)
  }
  await until(servers, 0, () =>
    fleet.builds.create({
      metadata: { name: 'arena', ...(namespace !== undefined && { namespace }) },
      spec: {
        buildID,
        standingBy: servers,
        max: servers,
        portsToExpose: [7_777],
        template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
      },
    }),
  )
  return {
    fleet,
    backend,
    refill(allocations) {
      const taken = new Set(allocations.map(({ IPV4Address, Ports }) => `${IPV4Address} ${Ports}`))
      return until(taken.size, taken.size, async () => {
        for (const server of backend.servers()) {
          const { address, ports } = server.instance
          if (taken.has(`${address} ${ports[0]?.container}:${ports[0]?.public}`)) server.exit()
        }
      })
    },
  }
}

export function newRequests(count: number): readonly AllocationRequest[] {
  return Array.from({ length: count }, () => ({ buildID, sessionID: randomUUID(), initialPlayers: ['amie'] }))
}

/** Allocates all requests with several concurrent callers, each making one call after the other. */
export async function allocateAll(
  fleet: Fleet,
  requests: readonly AllocationRequest[],
  callers: number,
): Promise<readonly Allocation[]> {
  const allocations: Allocation[] = []
  let next = 0
  const caller = async () => {
    for (let request = requests[next++]; request; request = requests[next++]) {
      allocations.push(await fleet.allocate(request))
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return allocations
}
