/** The callers of a simulated load. Pure: a seed determines them. */
import { memoryBackend } from '../../adapters/memory/index.js'
import { type BuildSpec, type Clock, createFleet, defaultLimits, FleetError, type ServerState } from '../index.js'
import type { Fleet } from '../contracts/fleet.js'
import { seededRandom, virtualClock } from '../testing/index.js'

export interface Load {
  readonly allocationsPerMinute: number
  /** Mean length of a match. */
  readonly matchSeconds: number
  /** Mean time from the start of a server until it is standing by. */
  readonly startSeconds: number
  /** How long a caller waits for a server. */
  readonly waitSeconds: number
  readonly hours: number
  readonly seed: number
}

interface SimulatedCaller {
  readonly atMs: number
  readonly matchMs: number
}

/** Callers come independently of each other, so that the number in a minute varies (a Poisson process). */
export function callersOf({ allocationsPerMinute, matchSeconds, hours, seed }: Load): readonly SimulatedCaller[] {
  const random = seededRandom(seed)
  const meanGapMs = 60_000 / allocationsPerMinute
  const endMs = hours * 3_600_000
  const callers: SimulatedCaller[] = []
  const nextGap = () => -Math.log(1 - random()) * meanGapMs
  for (let atMs = nextGap(); atMs < endMs; atMs += nextGap()) {
    callers.push({ atMs: Math.round(atMs), matchMs: around(matchSeconds * 1_000, random()) })
  }
  return callers
}

/** From half to one and a half times the mean. */
function around(meanMs: number, random: number): number {
  return Math.round(meanMs * (0.5 + random))
}

/** How many matches run at the same time at most, if every caller gets a server at once. */
export function peakMatches(callers: readonly SimulatedCaller[]): number {
  const changes = callers.flatMap(({ atMs, matchMs }) => [
    { atMs, by: 1 },
    { atMs: atMs + matchMs, by: -1 },
  ])
  let [now, peak] = [0, 0]
  for (const { by } of changes.toSorted((a, b) => a.atMs - b.atMs || a.by - b.by)) peak = Math.max(peak, (now += by))
  return peak
}

// Runs a load against the real engine, with simulated game servers, on a virtual clock.

export interface LoadOutcome {
  readonly callers: number
  readonly served: number
  readonly refused: number
  /** How long each served caller waited, in ms, shortest first. */
  readonly waitsMs: readonly number[]
  /** The most servers at the same time, but for those that were ending. */
  readonly peakServers: number
  readonly idleServerHours: number
  readonly activeServerHours: number
}

interface RunOptions {
  /** Ends the run early. Checked once a simulated minute. */
  readonly isOver?: (refused: number) => boolean
  /** Called once a simulated minute. */
  readonly onMinute?: (simulatedMs: number) => void
  readonly signal: AbortSignal
}

const minuteMs = 60_000
/** Games of the simulation are never silent, so they need not report often. */
const heartbeatIntervalMs = 5 * minuteMs
const portsPerNode = 60_000

/** Begins once the servers that stand by are ready, so that the start of an empty fleet does not count. Throws `aborted`. */
export async function runLoad(
  spec: BuildSpec,
  load: Load,
  callers: readonly SimulatedCaller[],
  { isOver = () => false, onMinute, signal }: RunOptions,
): Promise<LoadOutcome> {
  const clock = virtualClock({ seed: load.seed })
  const random = seededRandom(load.seed + 1)
  const nodeCount = Math.ceil((spec.max * Math.max(1, spec.portsToExpose.length)) / portsPerNode) + 1
  const backend = memoryBackend({
    clock,
    heartbeatIntervalMs,
    script: () => ({ startsAfterMs: around(load.startSeconds * 1_000, random()) }),
    nodes: Array.from({ length: nodeCount }, (_, index) => `node-${index + 1}`),
    portRange: { first: 5_000, last: 5_000 + portsPerNode },
  })
  const waitMs = load.waitSeconds * 1_000
  const fleet = await createFleet({
    backend,
    clock,
    logger: false,
    limits: {
      heartbeatIntervalMs,
      silenceMs: 3 * heartbeatIntervalMs,
      maxWaitMs: Math.max(defaultLimits.maxWaitMs, waitMs),
      maxWaiting: Math.max(defaultLimits.maxWaiting, callers.length),
      eventLogSize: 1,
    },
  })
  const hours = new ServerHours(clock, fleet)
  try {
    await fleet.builds.create({ metadata: { name: 'simulated' }, spec: simulated(spec) })
    const advance = async (ms: number) => {
      if (signal.aborted) throw new FleetError('aborted', 'the simulation was interrupted')
      await clock.advance(ms)
    }
    await warmUp(fleet, spec.standingBy, advance)
    const startedAt = clock.elapsed()
    hours.begin()
    const waitsMs: number[] = []
    let refused = 0
    const call = async (caller: SimulatedCaller, index: number) => {
      const calledAt = clock.elapsed()
      try {
        const request = { buildID: spec.buildID, sessionID: `session-${index}` }
        const { server } = await fleet.allocate(request, waitMs > 0 ? { waitMs } : {})
        waitsMs.push(clock.elapsed() - calledAt)
        const game = backend.server(server)
        // The game has its session at once, as with an SDK whose heartbeat is held.
        game.heartbeat()
        clock.after(caller.matchMs, () => game.exit())
      } catch (error) {
        if (!FleetError.is(error, 'none-standing-by') && !FleetError.is(error, 'max-reached')) throw error
        refused++
      }
    }
    let failure: Error | undefined
    callers.forEach((caller, index) =>
      clock.after(caller.atMs, () => void call(caller, index).catch((error: Error) => (failure ??= error))),
    )
    const endMs = load.hours * 60 * minuteMs
    for (let atMs = 0; atMs < endMs && !isOver(refused); atMs += minuteMs) {
      await advance(Math.min(minuteMs, endMs - atMs))
      if (failure) throw failure
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
    }
  } finally {
    await fleet.close()
  }
}

/** Without the limits on heartbeats, which are rare in the simulation and never missing. */
function simulated(spec: BuildSpec): BuildSpec {
  const { firstHeartbeatSeconds: _first, silenceSeconds: _silence, ...health } = spec.health ?? {}
  return { ...spec, ...(spec.health && { health }) }
}

async function warmUp(fleet: Fleet, standingBy: number, advance: (ms: number) => Promise<void>): Promise<void> {
  const ready = () => fleet.stats().builds[0]?.servers.standingBy ?? 0
  // Starts that never end, for example because max is too small, are part of what is simulated.
  for (let minutes = 0; minutes < 24 * 60 && ready() < standingBy; minutes++) await advance(minuteMs)
}

/** Counts the servers of a simulated fleet over time. */
class ServerHours {
  /** The most servers at the same time since `begin`. Servers that are ending do not count, as in `max`. */
  peak = 0
  readonly #clock: Clock
  readonly #states = new Map<string, ServerState>()
  readonly #ms = { idle: 0, active: 0 }
  #active = 0
  #countedAt = 0
  #isCounting = false

  constructor(clock: Clock, fleet: Fleet) {
    this.#clock = clock
    fleet.on('ServerCreated', ({ server }) => this.#set(server.name, 'Pending'))
    fleet.on('ServerStateChanged', ({ server, to }) => this.#set(server.name, to === 'Terminating' ? undefined : to))
    fleet.on('ServerRemoved', ({ server }) => this.#set(server.name, undefined))
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

  #set(name: string, state: ServerState | undefined): void {
    this.#count()
    if (this.#states.get(name) === 'Active') this.#active--
    if (state === 'Active') this.#active++
    if (state === undefined) this.#states.delete(name)
    else this.#states.set(name, state)
    if (this.#isCounting) this.peak = Math.max(this.peak, this.#states.size)
  }

  /** Adds the time since the last change. */
  #count(): void {
    const now = this.#clock.elapsed()
    const ms = this.#isCounting ? now - this.#countedAt : 0
    this.#ms.active += ms * this.#active
    this.#ms.idle += ms * (this.#states.size - this.#active)
    this.#countedAt = now
  }
}

interface SizingOptions {
  /** An outcome that is known already. */
  readonly known: { readonly standingBy: number; readonly outcome: LoadOutcome }
  /** Called when a run begins, and once a simulated minute. */
  readonly onMinute: (standingBy: number, simulatedMs: number) => void
  readonly signal: AbortSignal
}

/**
 * Doubles until a number suffices, then halves the interval: with one fewer than the result, at least one caller is refused. Undefined
 * if even `max` does not suffice.
 */
export async function smallestStandingBy(
  spec: BuildSpec,
  load: Load,
  callers: readonly SimulatedCaller[],
  { known, onMinute, signal }: SizingOptions,
): Promise<number | undefined> {
  const suffices = async (standingBy: number) => {
    if (standingBy === known.standingBy) return known.outcome.refused === 0
    const outcome = await runLoad({ ...spec, standingBy }, load, callers, {
      isOver: (refused) => refused > 0,
      onMinute: (ms) => onMinute(standingBy, ms),
      signal,
    })
    return outcome.refused === 0
  }
  let tooFew = known.outcome.refused === 0 ? -1 : known.standingBy
  let enough = known.outcome.refused === 0 ? known.standingBy : Math.max(1, known.standingBy * 2)
  if (known.outcome.refused > 0) {
    while (enough < spec.max && !(await suffices(enough))) [tooFew, enough] = [enough, enough * 2]
    if (enough >= spec.max) {
      enough = spec.max
      if (tooFew >= enough || !(await suffices(enough))) return undefined
    }
  }
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (await suffices(middle)) enough = middle
    else tooFew = middle
  }
  return enough
}
