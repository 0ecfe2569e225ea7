/** What can be told to the memory backend, with defaults. Times in ms. */
import type { InstanceSpec } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { shown } from '../../src/rules/validation/problem.js'

/** How one server behaves by itself. */
export interface ServerScript {
  /** It becomes ready for players by itself. Default true; false: when the test says `server.ready()`. */
  readonly autoReady?: boolean
  /** It ends with this code by itself, as soon as it runs or `exitsAfterMs` later. */
  readonly exitsWith?: number
  /** Default 0; needs a clock. */
  readonly exitsAfterMs?: number
  /** It cannot be started at all, for this reason: the same as a command that does not exist. */
  readonly cannotStart?: string
  /** Told to terminate, it stays until its grace period is over. Default false: it says so and exits with 0. */
  readonly ignoresTerminate?: boolean
}

export interface MemoryBackendOptions {
  /**
   * Where time comes from: the fleet's `virtualClock`, or `systemClock`. Without one nothing takes time and nothing
   * beats: servers speak when they become ready and when a test looks at their session. A fleet takes such silence
   * for a crash after `limits.silenceMs`, so give a clock when it is to live longer.
   */
  readonly clock?: Clock
  /**
   * `auto` (the default): servers become ready by themselves and learn of their session. `manual`: they say nothing
   * until the test speaks for them through `backend.server(name)`. A function decides for each server.
   */
  readonly script?: 'auto' | 'manual' | ((spec: InstanceSpec) => ServerScript)
  /** How long `create` takes to answer. Default 0; needs a clock, as the two below. */
  readonly createLatencyMs?: number
  /** How long a new server stays `pending`. Default 0. */
  readonly startLatencyMs?: number
  /** How long a running server stays Initializing. Default 0. */
  readonly readyAfterMs?: number
  /** How often a server beats, once it has spoken. Default: as often as the fleet asks for. 0: never. Needs a clock. */
  readonly heartbeatIntervalMs?: number
  /** Machines; each has the whole range of ports, and the addresses are 127.0.0.1 and on. Default: one, `memory`. */
  readonly nodes?: readonly string[]
  /** Public ports of each machine. Default 10000–12000. */
  readonly portRange?: PortRange
}

export interface ResolvedMemoryOptions {
  readonly clock: Clock | undefined
  readonly scriptOf: (
    spec: InstanceSpec,
  ) => ServerScript & { readonly autoReady: boolean; readonly exitsAfterMs: number }
  readonly createLatencyMs: number
  readonly startLatencyMs: number
  readonly readyAfterMs: number
  readonly heartbeatIntervalMs: number | undefined
  readonly nodes: readonly string[]
  readonly portRange: PortRange
}

const times = ['createLatencyMs', 'startLatencyMs', 'readyAfterMs', 'heartbeatIntervalMs'] as const

/** Throws `invalid`, naming the option. */
export function resolveMemoryOptions(options: MemoryBackendOptions): ResolvedMemoryOptions {
  for (const name of times) checkTime(name, options[name] ?? 0, options.clock)
  const nodes = options.nodes ?? ['memory']
  if (nodes.length === 0 || new Set(nodes).size < nodes.length) {
    throw new FleetError('invalid', `nodes must be at least one name, each once, but is ${shown(nodes)}`)
  }
  const script = options.script ?? 'auto'
  return Object.freeze({
    clock: options.clock,
    scriptOf(spec: InstanceSpec) {
      const own = typeof script === 'function' ? script(spec) : {}
      const { autoReady = script !== 'manual', exitsAfterMs = 0 } = own
      checkTime('exitsAfterMs', exitsAfterMs, options.clock)
      return { ...own, autoReady, exitsAfterMs }
    },
    createLatencyMs: options.createLatencyMs ?? 0,
    startLatencyMs: options.startLatencyMs ?? 0,
    readyAfterMs: options.readyAfterMs ?? 0,
    heartbeatIntervalMs: options.heartbeatIntervalMs,
    nodes: [...nodes],
    portRange: options.portRange ?? defaultPortRange,
  })
}

function checkTime(name: string, ms: number, clock: Clock | undefined): void {
  if (!(Number.isFinite(ms) && ms >= 0)) {
    throw new FleetError('invalid', `${name} must be a number of ms ≥ 0, but is ${shown(ms)}`)
  }
  if (ms > 0 && !clock) {
    throw new FleetError('invalid', `${name} is ${ms}, which needs a clock: give the one that the fleet has`)
  }
}
