/** Runs a load against the real engine, with simulated game servers, on a virtual clock. */
import { memoryBackend } from '../../../adapters/memory/index.js'
import { type BuildSpec, createFleet, defaultLimits, type Fleet, FleetError } from '../../index.js'
import { seededRandom, virtualClock } from '../../testing/index.js'
import { around, type Caller, type Load } from './load.js'
import { ServerHours } from './server-hours.js'

export interface Outcome {
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

export interface RunOptions {
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
  callers: readonly Caller[],
  { isOver = () => false, onMinute, signal }: RunOptions,
): Promise<Outcome> {
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
    const call = async (caller: Caller, index: number) => {
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
