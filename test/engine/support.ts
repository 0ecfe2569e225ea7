/** Helpers for tests of single engine parts: an inventory with one build, and servers in any state. */
import { type Backend, defaultLimits, type FleetEvent, type Store } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { minimalBuild, minimalServer, virtualClock, type VirtualClock } from 'gamekeeper/testing'
import type { EngineContext } from '../../src/engine/context.js'
import type { BuildEntry, Place, ServerEntry } from '../../src/engine/state/entries.js'
import { Inventory } from '../../src/engine/state/inventory.js'
import { fairLimiter } from '../../src/util/limiter.js'
import { ResponsiveClock } from '../../src/engine/responsive-clock.js'
import { EndedSessions } from '../../src/engine/ended-sessions.js'
import { Emitter } from '../../src/fleet/event-emitter.js'
import { silentLogger } from '../../src/contracts/logger.js'
import type { Build, NewSession, Server, Session } from '../../src/rules/model/resources.js'
import { sessionKey } from '../../src/rules/model/names.js'
import type { Selection } from '../../src/rules/planning/selection.js'
import { memoryStore } from '../../src/stores/memory.js'
import { templateHash } from '../../src/rules/planning/rollout.js'

export const standsBy = { state: 'StandingBy', health: 'Healthy', address: '203.0.113.7' } as const

export function aSession(n: number): Session {
  return { id: `00000000-0000-4000-8000-00000000000${n}`, initialPlayers: [], number: 1, startedAt: 0 }
}

/** Takes a place on the server for a session, to be written next. */
export function take(
  inventory: Pick<Inventory, 'take'>,
  entry: ServerEntry,
  session: NewSession,
  selection?: Selection,
): Place {
  const place: Place = { entry, session, key: sessionKey(session.id), selection, state: 'reserved', granted: undefined }
  inventory.take(place)
  return place
}

export function aBuildRecord(name = 'arena', spec: Partial<Build['spec']> = {}): Build {
  const build = minimalBuild({ namespace: 'default', name })
  return { ...build, spec: { ...build.spec, max: 10, ...spec } }
}

export function aServerRecord(build: Build, name: string, more: Partial<Server> = {}): Server {
  return {
    ...minimalServer({ namespace: build.namespace, name }),
    build: build.name,
    buildUid: build.uid,
    templateHash: templateHash(build.spec),
    ...more,
  }
}

export interface Stock {
  readonly inventory: Inventory
  readonly build: BuildEntry
  /** Names of servers, in the order in which they became allocatable. */
  readonly ready: string[]
  /** Each change of a record, as `name: before → after`. */
  readonly changes: string[]
  /** Adds a server, which has been heard if its game is running. */
  add(name: string, more?: Partial<Server>, revision?: string): ServerEntry
}

export function stock(whenReady: (entry: ServerEntry) => void = () => {}): Stock {
  const ready: string[] = []
  const changes: string[] = []
  const inventory = new Inventory((change) => {
    if (change.type === 'ready') {
      ready.push(change.entry.record.name)
      whenReady(change.entry)
    }
    if (change.type !== 'server') return
    const { before, record } = change
    changes.push(`${record.name}: ${before.state} → ${record.state}`)
  })
  const build = inventory.addBuild(aBuildRecord(), '1')
  return {
    inventory,
    build,
    ready,
    changes,
    add(name, more, revision = '1') {
      const entry = inventory.addServer(build, aServerRecord(build.record, name, more), revision)
      const { state } = entry.record
      if (state === 'Initializing' || state === 'StandingBy') hear(inventory, entry)
      return entry
    },
  }
}

/** Records that the server has sent a heartbeat, as `Heartbeats` does. */
export function hear(inventory: Inventory, entry: ServerEntry): void {
  entry.build.heartbeating.add(entry)
  inventory.heardChanged(entry)
}

export function namesIn(entries: Iterable<ServerEntry>): readonly string[] {
  return Array.from(entries, ({ record }) => record.name)
}

export interface Surroundings {
  readonly ctx: EngineContext
  readonly clock: VirtualClock
  readonly events: FleetEvent[]
  /** Names of the builds that were enqueued and the servers that were touched. */
  readonly asked: string[]
}

/** The context of one engine part, with no other parts running. */
export function contextOf(
  inventory: Inventory,
  given: { readonly backend?: Backend; readonly store?: Store; readonly limits?: Partial<typeof defaultLimits> } = {},
): Surroundings {
  const clock = virtualClock()
  const emitter = new Emitter(silentLogger, 100)
  const events: FleetEvent[] = []
  const asked: string[] = []
  emitter.on('*', (event) => events.push(event))
  const ctx: EngineContext = {
    backend: given.backend ?? memoryBackend(),
    store: given.store ?? memoryStore(),
    clock,
    responsiveClock: new ResponsiveClock(clock),
    limits: { ...defaultLimits, ...given.limits },
    budget: undefined,
    logger: silentLogger,
    emitter,
    inventory,
    endedSessions: new EndedSessions(clock, 100),
    agentAddress: 'agent:56001',
    createLimiter: fairLimiter(20),
    destroyLimiter: fairLimiter(100),
    enqueue: (build) => void asked.push(build.record.name),
    requeue: (entry) => void asked.push(entry.record.name),
    stopped: () => false,
    stopError: () => undefined,
    deposedError: () => undefined,
  }
  return { ctx, clock, events, asked }
}
