/** The options of a fleet, with defaults and units. */
import { defaultApiGroup } from '../rules/model/wire.js'
import { shown } from '../rules/validation/problem.js'
import type { Backend } from './backend.js'
import type { CallOptions } from './call-options.js'
import { type Clock, systemClock } from './clock.js'
import { alwaysLeader, type Elector } from './elector.js'
import { FleetError } from './errors.js'
import { type Logger, silentLogger } from './logger.js'
import type { Store } from './store.js'

export interface AgentOptions {
  /** Address to listen on. Default: what the backend requires, else `127.0.0.1`. */
  readonly host?: string
  /** Default 56001; 0 picks a free port. */
  readonly port?: number
  /** `host:port` where game servers reach the agent; without a port, the agent's is added. Default: the address it listens on. */
  readonly address?: string
}

export interface FleetOptions {
  /** What runs the game servers: `processBackend()`, `dockerBackend()`… */
  readonly backend: Backend
  /** Where records are kept. Default: the backend's default store. The fleet closes only a store that it opened itself. */
  readonly store?: Store
  /**
   * The heartbeat endpoint. Default: an agent on 127.0.0.1:56001 for backends whose servers send heartbeats over HTTP.
   * `{ external: 'host:port' }` starts none: the host app mounts `agentListener(fleet)` at that address.
   */
  readonly agent?: AgentOptions | { readonly external: string }
  /** API group in `apiVersion` of resources. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  readonly limits?: Partial<FleetLimits>
  /** Default: no logs. */
  readonly logger?: Logger
  /** Default: `systemClock`. */
  readonly clock?: Clock
  /** Default: the backend's default elector, or else this host always leads. */
  readonly elector?: Elector
}

/** Other values are rejected with `invalid`, and nothing is drained. */
export interface DrainOptions extends CallOptions {
  /** What happens to Active servers. `wait` (default): they finish their matches. `terminate`: they are ended with their grace period. */
  readonly active?: 'wait' | 'terminate'
  /** Stop waiting for Active servers after this many ms: a finite number, at least 0. Default: never. */
  readonly deadlineMs?: number
}

export interface DrainResult {
  /** Servers left: those with a match at the deadline, or all that were left when the drain was ended by `resume`. */
  readonly remaining: number
}

/** Numbers that an operator may tune. Times in ms. */
export interface FleetLimits {
  /** A server that sends no first heartbeat this long after its process started is Unhealthy, ended, and counts as a crash. Default 60 s. */
  readonly firstHeartbeatMs: number
  /** A server that sends no heartbeat for this long is Unhealthy and, unless Active, ended and counts as a crash. At least two intervals. Default 10 s. */
  readonly silenceMs: number
  /** Sent to servers as `nextHeartbeatIntervalMs`. At least 1000. Default 1 s. */
  readonly heartbeatIntervalMs: number
  /** An idle server is ended after this many Unhealthy reports in a row, counted once it has reported Healthy. Default 3. */
  readonly unhealthyReports: number
  /** Maximum number of servers created per reconcile of a build. Default 20. */
  readonly maxCreatesPerReconcile: number
  /** Maximum number of servers ended per reconcile of a build. Default 20. */
  readonly maxDeletesPerReconcile: number
  /** Maximum number of Pending servers of a build. Default 5,000. */
  readonly maxPending: number
  /** Back-off after the first crash; it doubles with each further one. Default 1 s. */
  readonly backoffInitialMs: number
  /** Longest back-off. Default 60 s. */
  readonly backoffMaxMs: number
  /** A server that stays up this long resets the back-off and lets a rolling update continue. Default 60 s. */
  readonly backoffResetMs: number
  /** Events kept in the log, for `explain` and `events`. Default 10,000. */
  readonly eventLogSize: number
  /** Longest `waitMs` of an allocation. Default 60 s. */
  readonly maxWaitMs: number
  /** Maximum number of waiting callers in the whole fleet; calls for the same session count once. Default 10,000. */
  readonly maxWaiting: number
  /** Longest time between two lists of the backend's instances and of a shared store's records. Default 60 s. */
  readonly resyncIntervalMs: number
  /** A backend call that takes longer than this, plus the grace period if it has one, counts as failed. Default 120 s. */
  readonly callTimeoutMs: number
  /** Maximum number of instances started at the same time. Default 20. */
  readonly maxConcurrentCreates: number
  /** Maximum number of instances destroyed at the same time; each can take its grace period. Default 100. */
  readonly maxConcurrentDestroys: number
}

export const defaultLimits: FleetLimits = Object.freeze({
  firstHeartbeatMs: 60_000,
  silenceMs: 10_000,
  heartbeatIntervalMs: 1_000,
  unhealthyReports: 3,
  maxCreatesPerReconcile: 20,
  maxDeletesPerReconcile: 20,
  maxPending: 5_000,
  backoffInitialMs: 1_000,
  backoffMaxMs: 60_000,
  backoffResetMs: 60_000,
  eventLogSize: 10_000,
  maxWaitMs: 60_000,
  maxWaiting: 10_000,
  resyncIntervalMs: 60_000,
  callTimeoutMs: 120_000,
  maxConcurrentCreates: 20,
  maxConcurrentDestroys: 100,
})

export interface ResolvedOptions {
  readonly apiGroup: string
  readonly limits: FleetLimits
  readonly logger: Logger
  readonly clock: Clock
  readonly elector: Elector
}

/** Applies defaults. Throws `invalid`, naming the option, for an unknown limit or one out of range. */
export function resolveOptions(options: FleetOptions): ResolvedOptions {
  return Object.freeze({
    apiGroup: options.apiGroup ?? defaultApiGroup,
    limits: resolveLimits(options.limits ?? {}),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
    elector: options.elector ?? options.backend.defaultElector ?? alwaysLeader,
  })
}

function resolveLimits(overrides: Partial<FleetLimits>): FleetLimits {
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(defaultLimits, name)) {
      throw new FleetError(
        'invalid',
        `limits.${name} does not exist; use one of ${Object.keys(defaultLimits).join(', ')}`,
      )
    }
    const minimum = name === 'heartbeatIntervalMs' ? 1_000 : 1
    if (!Number.isInteger(value) || value < minimum) {
      throw new FleetError('invalid', `limits.${name} must be an integer ≥ ${minimum}, but is ${shown(value)}`)
    }
  }
  const limits = Object.freeze({ ...defaultLimits, ...overrides })
  const { silenceMs, heartbeatIntervalMs } = limits
  if (silenceMs < 2 * heartbeatIntervalMs) {
    const minimum = `twice limits.heartbeatIntervalMs, which is ${heartbeatIntervalMs}`
    throw new FleetError('invalid', `limits.silenceMs must be at least ${minimum}, but is ${silenceMs}`)
  }
  return limits
}
