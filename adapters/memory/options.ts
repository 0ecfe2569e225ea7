/** The options of the memory backend: defaults and validation. */
import type { InstanceSpec } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { defaultPortRange, type PortRange } from '../../src/rules/model/ports.js'
import { shown } from '../../src/rules/validation/problem.js'

/** How a server behaves when the test does not control it. */
export interface ServerScript {
  /** If false, the server becomes ready only when the test calls `server.ready()`. Default true. */
  readonly autoReady?: boolean
  /** The server exits with this code, as soon as it is running or `exitsAfterMs` later. */
  readonly exitsWith?: number
  /** Delay before the server exits. Default 0. Requires a clock. */
  readonly exitsAfterMs?: number
  /** The server fails to start, for this reason, like a server whose command does not exist. */
  readonly cannotStart?: string
  /** If true, the server ignores termination until its grace period ends. If false, it exits with code 0. Default false. */
  readonly ignoresTerminate?: boolean
}

export interface MemoryBackendOptions {
  /**
   * The fleet's clock: a `virtualClock` or `systemClock`. Without a clock, delays are zero, and servers send heartbeats only
   * when they become ready and when a test reads their session. The fleet treats such servers as crashed after
   * `limits.silenceMs`, so longer tests need a clock.
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
  /**
   * Servers' heartbeat interval; 0 disables regular heartbeats. Default: the interval in the fleet's answers. Needs a clock.
   */
  readonly heartbeatIntervalMs?: number
  /**
   * Node names. Each node offers all ports in the range and has its own address, starting from 127.0.0.1. Default: one node,
   * `memory`.
   */
  readonly nodes?: readonly string[]
  /** Range of public ports on each node. Default 10000–12000. */
  readonly portRange?: PortRange
}

export type ResolvedServerScript = ServerScript & { readonly autoReady: boolean; readonly exitsAfterMs: number }

export interface ResolvedMemoryOptions {
  readonly clock: Clock | undefined
  readonly scriptOf: (spec: InstanceSpec) => ResolvedServerScript
  readonly createLatencyMs: number
  readonly startLatencyMs: number
  readonly readyAfterMs: number
  readonly heartbeatIntervalMs: number | undefined
  readonly nodes: readonly string[]
  readonly portRange: PortRange
}

const times = ['createLatencyMs', 'startLatencyMs', 'readyAfterMs', 'heartbeatIntervalMs'] as const

/** Throws `invalid`, naming the invalid option. */
export function resolveMemoryOptions(options: MemoryBackendOptions): ResolvedMemoryOptions {
  for (const name of times) checkTime(name, options[name] ?? 0, options.clock)
  const nodes = options.nodes ?? ['memory']
  if (nodes.length === 0 || new Set(nodes).size < nodes.length) {
    throw new FleetError('invalid', `nodes must be one or more distinct names, but is ${shown(nodes)}`)
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
    throw new FleetError('invalid', `${name} is ${ms}, which needs a clock: pass the fleet's clock`)
  }
}
