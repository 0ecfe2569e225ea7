/** The options of the memory backend: defaults and validation. */
import type { InstanceSpec } from '../../src/contracts/backend.js'
import { backgroundClock, type Clock, systemClock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import {
  aClock,
  aNumber,
  anything,
  checkOptions,
  type OptionTypes,
  strings,
} from '../../src/contracts/option-checks.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { shown } from '../../src/rules/validation/problem.js'
import { OptionReader } from '../shared/option-reader.js'

/** How a server behaves when the test does not control it. */
export interface ServerScript {
  /** If false, the server becomes ready only when the test calls `server.ready()`. Default true. */
  readonly autoReady?: boolean
  /** How long the server remains `pending`; Infinity: until it is destroyed. Default: `startLatencyMs`. Requires a clock. */
  readonly startsAfterMs?: number
  /** The reason that the instance gives while it is `pending`. Default: `starting`. */
  readonly pendingReason?: string
  /** The server exits with this code, as soon as it is running or `exitsAfterMs` later. */
  readonly exitsWith?: number
  /** Delay before the server exits. Default 0. Requires a clock. */
  readonly exitsAfterMs?: number
  /** The server fails to start, for this reason, like a server whose command does not exist. */
  readonly cannotStart?: string
  /** If true, the server ignores termination until its grace period ends. If false, it exits with code 0. Default false. */
  readonly ignoresTerminate?: boolean
  /**
   * If true, the game takes several sessions at the same time, like one with `onSession` of the SDK, as far as `sessionsPerServer` of its
   * build allows. Default false.
   */
  readonly takesSeveral?: boolean
}

export interface MemoryBackendOptions {
  /**
   * The fleet's clock: a `virtualClock` or `systemClock`. Without a clock, nothing takes time except the intervals between
   * heartbeats, which pass in real time. A fleet on a `virtualClock` must pass it here, too: otherwise it treats the servers as
   * crashed once its own time has advanced by `limits.silenceMs`.
   */
  readonly clock?: Clock
  /**
   * `auto` (default): servers become ready and receive their session automatically. `manual`: a server sends no heartbeats
   * until the test sends them through `backend.server(name)`. A function chooses the behaviour of each server.
   */
  readonly script?: 'auto' | 'manual' | ((spec: InstanceSpec) => ServerScript)
  /** How long `create` takes. Default 0. This option and the next two need a clock. */
  readonly createLatencyMs?: number
  /** How long a new server remains `pending`. Default 0. */
  readonly startLatencyMs?: number
  /** How long a running server remains Initializing. Default 0. */
  readonly readyAfterMs?: number
  /** Servers' heartbeat interval; 0 disables regular heartbeats. Default: the interval in the fleet's answers. */
  readonly heartbeatIntervalMs?: number
  /**
   * Node names. Each node offers all ports in the range and has its own address, starting from 127.0.0.1. Default: one node,
   * `memory`.
   */
  readonly nodes?: readonly string[]
  /** Range of public ports on each node, as `{ first, last }` or `10000-12000`. Default 10000–12000. */
  readonly portRange?: PortRange | string
}

export type ResolvedServerScript = ServerScript & {
  readonly autoReady: boolean
  readonly startsAfterMs: number
  readonly exitsAfterMs: number
}

export interface ResolvedMemoryOptions {
  readonly clock: Clock | undefined
  /** Times the heartbeats. */
  readonly heartbeatClock: Clock
  readonly scriptOf: (spec: InstanceSpec) => ResolvedServerScript
  readonly createLatencyMs: number
  readonly readyAfterMs: number
  readonly heartbeatIntervalMs: number | undefined
  readonly nodes: readonly string[]
  readonly portRange: PortRange
}

const optionTypes: OptionTypes<MemoryBackendOptions> = {
  clock: aClock,
  script: {
    must: "must be 'auto', 'manual' or a function",
    is: (value) => value === 'auto' || value === 'manual' || typeof value === 'function',
  },
  createLatencyMs: aNumber,
  startLatencyMs: aNumber,
  readyAfterMs: aNumber,
  heartbeatIntervalMs: aNumber,
  nodes: strings,
  portRange: anything,
}
const reader = new OptionReader('memoryBackend')

const delays = ['createLatencyMs', 'startLatencyMs', 'readyAfterMs'] as const

/** Throws `invalid`, naming the invalid option. */
export function resolveMemoryOptions(options: MemoryBackendOptions): ResolvedMemoryOptions {
  checkOptions('memoryBackend', options, optionTypes)
  const clock = options.clock === systemClock ? backgroundClock : options.clock
  for (const name of delays) checkTime(name, options[name] ?? 0, clock)
  checkTime('heartbeatIntervalMs', options.heartbeatIntervalMs ?? 0, backgroundClock)
  const nodes = options.nodes ?? ['memory']
  if (nodes.length === 0 || new Set(nodes).size < nodes.length) {
    throw new FleetError('invalid', `nodes must be one or more distinct names, but is ${shown(nodes)}`)
  }
  const script = options.script ?? 'auto'
  const common = { autoReady: script !== 'manual', startsAfterMs: options.startLatencyMs ?? 0, exitsAfterMs: 0 }
  return Object.freeze({
    clock,
    heartbeatClock: clock ?? backgroundClock,
    scriptOf(spec: InstanceSpec) {
      if (typeof script !== 'function') return common
      const own = script(spec)
      const { autoReady = true, startsAfterMs = common.startsAfterMs, exitsAfterMs = 0 } = own
      if (startsAfterMs !== Infinity) checkTime('startsAfterMs', startsAfterMs, clock)
      checkTime('exitsAfterMs', exitsAfterMs, clock)
      return { ...own, autoReady, startsAfterMs, exitsAfterMs }
    },
    createLatencyMs: options.createLatencyMs ?? 0,
    readyAfterMs: options.readyAfterMs ?? 0,
    heartbeatIntervalMs: options.heartbeatIntervalMs,
    nodes: [...nodes],
    portRange: options.portRange === undefined ? defaultPortRange : reader.portRange(options.portRange),
  })
}

function checkTime(name: string, ms: number, clock: Clock | undefined): void {
  if (!(Number.isFinite(ms) && ms >= 0)) {
    throw new FleetError('invalid', `${name} must be a number of ms ≥ 0, but is ${shown(ms)}`)
  }
  if (ms > 0 && !clock) {
    throw new FleetError('invalid', `${name} is ${ms}, which needs a clock: pass the fleet's clock`)
  }
}
