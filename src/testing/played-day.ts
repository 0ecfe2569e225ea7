/** Plays callers against the real engine, with simulated game servers, on a virtual clock. */
import { memoryBackend, type MemoryServer } from '../../adapters/memory/index.js'
import type { Clock } from '../contracts/clock.js'
import { accepted, FleetError } from '../contracts/errors.js'
import type { Fleet } from '../contracts/fleet.js'
import { defaultLimits, type FleetOptions } from '../contracts/options.js'
import type { Store } from '../contracts/store.js'
import { createFleet } from '../fleet/create-fleet.js'
import { type DemandDay, demandRef, startOfDay } from '../rules/demand/demand-day.js'
import type { BuildSpec, ServerState } from '../rules/model/resources.js'
import { readBuildInput } from '../rules/validation/build-schema.js'
import { memoryStore } from '../stores/memory.js'
import { seededRandom, virtualClock } from './virtual-clock.js'

export interface SimulatedCaller {
  readonly atMs: number
  readonly matchMs: number
}

export interface PlayedOutcome {
  readonly callers: number
  readonly served: number
  readonly refused: number
  /** How long each served caller waited, in ms, shortest first. */
  readonly waitsMs: readonly number[]
  /** The most servers at the same time, but for those that were ending. */
  readonly peakServers: number
  /** Hours of servers that were starting or standing by. */
  readonly idleServerHours: number
  readonly activeServerHours: number
  readonly minutes: readonly PlayedMinute[]
}

/** At the end of a minute. */
export interface PlayedMinute {
  /** Those that start, stand by or have a match. */
  readonly servers: number
  readonly inUse: number
  /** Callers who were refused in this minute. */
  readonly refused: number
}

export interface PlayOptions {
  readonly seed: number
  /** How long callers wait for a server. */
  readonly waitMs: number
  readonly durationMs: number
  /** How long a server takes until it is standing by. */
  readonly startMs: (random: number) => number
  /** Before the callers come. Default: until the servers that stand by are ready. */
  readonly warmUp?: {
    readonly ms: number
    /** Matches that go on when the callers begin to come: how long they still take. */
    readonly matchesMs: readonly number[]
  }
  /** When the callers begin to come: wall time in ms. Default: that of `virtualClock`. */
  readonly startsAt?: number
  /** What was recorded on days before. */
  readonly past?: readonly DemandDay[]
  /** Functions that the spec may name. */
  readonly scalingPolicies?: FleetOptions['scalingPolicies']
  /** Ends the run early. Checked once a simulated minute. */
  readonly isOver?: (refused: number) => boolean
  /** Called once a simulated minute. */
  readonly onMinute?: ((simulatedMs: number) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

const minuteMs = 60_000
/** Games of the simulation are never silent, so they need not report often. */
const heartbeatIntervalMs = 5 * minuteMs
const portsPerNode = 60_000
const name = 'simulated'

/** Throws `aborted`, and `invalid` for a spec that is not valid. */
export async function play(
  spec: BuildSpec,
  callers: readonly SimulatedCaller[],
  options: PlayOptions,
): Promise<PlayedOutcome> {
  const { seed, waitMs, durationMs, startMs, warmUp, startsAt, past = [], isOver = () => false, onMinute } = options
  const clock = virtualClock({ seed, ...(startsAt !== undefined && { now: startsAt - (warmUp?.ms ?? 0) }) })
  const random = seededRandom(seed + 1)
  accepted(readBuildInput({ metadata: { name }, spec: simulated(spec) }))
  const takesSeveral = (spec.sessionsPerServer ?? 1) > 1
  const nodeCount = Math.ceil((spec.max * Math.max(1, spec.portsToExpose.length)) / portsPerNode) + 1
  const backend = memoryBackend({
    clock,
    heartbeatIntervalMs,
    script: () => ({ startsAfterMs: startMs(random()), takesSeveral }),
    nodes: Array.from({ length: nodeCount }, (_, index) => `node-${index + 1}`),
    portRange: { first: 5_000, last: 5_000 + portsPerNode },
  })
  const fleet = await createFleet({
    backend,
    store: storeWith(past, startsAt),
    clock,
    logger: false,
    ...(options.scalingPolicies && { scalingPolicies: options.scalingPolicies }),
    limits: {
      heartbeatIntervalMs,
      silenceMs: 3 * heartbeatIntervalMs,
      maxWaitMs: Math.max(defaultLimits.maxWaitMs, waitMs, warmUp?.ms ?? 0),
      maxWaiting: Math.max(defaultLimits.maxWaiting, callers.length),
      eventLogSize: 1,
    },
  })
  const hours = new ServerHours(clock, fleet)
  const ending: (() => void)[] = []
  try {
    await fleet.builds.create({ metadata: { name }, spec: simulated(spec) })
    const advance = async (ms: number) => {
      if (options.signal?.aborted) throw new FleetError('aborted', 'the simulation was interrupted')
      await clock.advance(ms)
    }
    const begin = async (session: string, matchMs: number, wait: number) => {
      const request = { buildID: spec.buildID, sessionID: session }
      const { server } = await fleet.allocate(request, wait > 0 ? { waitMs: wait } : {})
      const game = backend.server(server)
      // The game has its session at once, as with an SDK whose heartbeat is held.
      game.heartbeat()
      ending.push(clock.after(matchMs, () => (takesSeveral ? endSession(game, session) : game.exit())))
    }
    let failure: Error | undefined
    if (warmUp) {
      await advance(warmUp.ms / 2)
      const leftMs = warmUp.ms / 2
      const fail = (error: Error) => {
        if (!isRefusal(error)) failure ??= error
      }
      warmUp.matchesMs.forEach((ms, index) => void begin(`before-${index}`, leftMs + ms, leftMs).catch(fail))
      await advance(leftMs)
    } else await untilReady(fleet, spec.standingBy, advance)

    const startedAt = clock.elapsed()
    hours.begin()
    const waitsMs: number[] = []
    const minutes: PlayedMinute[] = []
    let refused = 0
    const call = async ({ matchMs }: SimulatedCaller, index: number) => {
      const calledAt = clock.elapsed()
      try {
        await begin(`session-${index}`, matchMs, waitMs)
        waitsMs.push(clock.elapsed() - calledAt)
      } catch (error) {
        if (!isRefusal(error)) throw error
        refused++
      }
    }
    callers.forEach((caller, index) => {
      const come = () => void call(caller, index).catch((error: Error) => (failure ??= error))
      ending.push(clock.after(caller.atMs, come))
    })
    for (let atMs = 0; atMs < durationMs && !isOver(refused); atMs += minuteMs) {
      const before = refused
      await advance(Math.min(minuteMs, durationMs - atMs))
      if (failure) throw failure
      minutes.push({ servers: hours.servers, inUse: hours.inUse, refused: refused - before })
      onMinute?.(clock.elapsed() - startedAt)
    }
    hours.end()
    await clock.advance(waitMs + 1)
    return {
      callers: callers.length,
      served: waitsMs.length,
      refused,
      waitsMs: waitsMs.toSorted((a, b) => a - b),
      peakServers: hours.peak,
      idleServerHours: hours.idle,
      activeServerHours: hours.active,
      minutes,
    }
  } finally {
    await fleet.close()
    // Nothing waits for this clock any longer.
    for (const cancel of ending) cancel()
    for (const server of backend.servers()) server.exit()
  }
}

/** Of a server that has several; the fleet may have ended it before. */
function endSession(game: MemoryServer, session: string): void {
  if (game.sessions.some(({ sessionId }) => sessionId === session)) game.endSession(session)
}

/** What was recorded on the days before stays as it is: the warm-up does not count as their demand. */
function storeWith(past: readonly DemandDay[], startsAt = 0): Store {
  const store = memoryStore()
  const refOf = (day: string) => demandRef({ namespace: 'default', name }, day)
  const known = new Map(past.map((day) => [refOf(day.day).name, { ...refOf(day.day), build: name, ...day }]))
  const { demand } = store
  if (!demand) return store
  const isPast = ({ day }: DemandDay) => startOfDay(day) < startsAt
  return {
    ...store,
    demand: {
      get: async (ref) => {
        const record = known.get(ref.name)
        return record ? { record, revision: '0' } : demand.get(ref)
      },
      list: () => demand.list(),
      create: async (record) => (isPast(record) ? '0' : demand.create(record)),
      update: async (record, revision) => (isPast(record) ? '0' : demand.update(record, revision)),
      delete: async (ref, revision) => (known.has(ref.name) ? undefined : demand.delete(ref, revision)),
    },
  }
}

function isRefusal(error: unknown): boolean {
  return FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached')
}

/** Without the limits on heartbeats, which are rare in the simulation and never missing. */
function simulated(spec: BuildSpec): BuildSpec {
  const { firstHeartbeatSeconds: _first, silenceSeconds: _silence, ...health } = spec.health ?? {}
  return { ...spec, ...(spec.health && { health }) }
}

async function untilReady(fleet: Fleet, standingBy: number, advance: (ms: number) => Promise<void>): Promise<void> {
  const ready = () => fleet.stats().builds[0]?.servers.standingBy ?? 0
  // Starts that never end, for example because max is too small, are part of what is simulated.
  for (let minutes = 0; minutes < 24 * 60 && ready() < standingBy; minutes++) await advance(minuteMs)
}

/** Counts the servers of a simulated fleet over time. */
class ServerHours {
  /** The most servers at the same time since `begin`. Servers that are ending do not count, as in `max`. */
  peak = 0
  inUse = 0
  readonly #clock: Clock
  readonly #states = new Map<string, ServerState>()
  readonly #ms = { idle: 0, active: 0 }
  #countedAt = 0
  #isCounting = false

  constructor(clock: Clock, fleet: Fleet) {
    this.#clock = clock
    fleet.on('ServerCreated', ({ server }) => this.#set(server.name, 'Pending'))
    fleet.on('ServerStateChanged', ({ server, to }) => this.#set(server.name, to === 'Terminating' ? undefined : to))
    fleet.on('ServerRemoved', ({ server }) => this.#set(server.name, undefined))
  }

  get servers(): number {
    return this.#states.size
  }

  /** Hours of servers without a match: starting or standing by. */
  get idle(): number {
    return this.#ms.idle / 3_600_000
  }

  get active(): number {
    return this.#ms.active / 3_600_000
  }

  begin(): void {
    this.#countedAt = this.#clock.elapsed()
    this.peak = this.#states.size
    this.#isCounting = true
  }

  end(): void {
    this.#count()
    this.#isCounting = false
  }

  #set(server: string, state: ServerState | undefined): void {
    this.#count()
    if (this.#states.get(server) === 'Active') this.inUse--
    if (state === 'Active') this.inUse++
    if (state === undefined) this.#states.delete(server)
    else this.#states.set(server, state)
    if (this.#isCounting) this.peak = Math.max(this.peak, this.#states.size)
  }

  /** Adds the time since the last change. */
  #count(): void {
    const now = this.#clock.elapsed()
    const ms = this.#isCounting ? now - this.#countedAt : 0
    this.#ms.active += ms * this.inUse
    this.#ms.idle += ms * (this.#states.size - this.inUse)
    this.#countedAt = now
  }
}
