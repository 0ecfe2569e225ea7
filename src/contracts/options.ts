/** Every option of a fleet with its default and unit, resolved once and frozen. */
import type { Backend } from './backend.js'
import type { CallOptions } from './call-options.js'
import { type Clock, systemClock } from './clock.js'
import { alwaysLeader, type Elector } from './elector.js'
import { FleetError } from './errors.js'
import { type Logger, silentLogger } from './logger.js'
import { shown } from '../rules/validation/problem.js'
import { defaultApiGroup } from '../rules/model/wire.js'
import type { Store } from './store.js'

export interface AgentOptions {
  /** Where the agent listens. Default `127.0.0.1`. */
  readonly host?: string
  /** Default 56001; 0 takes a free one. */
  readonly port?: number
  /** `host:port` that game servers are told; a lone host gets the agent's port. Default: where the agent listens. */
  readonly address?: string
}

export interface FleetOptions {
  /** What runs the game servers: `processBackend()`, `memoryBackend()`… */
  readonly backend: Backend
  /** Where records are kept. Default: what the backend names. The fleet closes a store that it opened itself. */
  readonly store?: Store
  /**
   * Where game servers send their heartbeats. Default: an agent on 127.0.0.1:56001 for backends whose servers need one.
   * `false` starts none: the host mounts `agentListener(fleet)` and gives `{ external: 'host:port' }`.
   */
  readonly agent?: AgentOptions | { readonly external: string }
  /** Group of `apiVersion`. Default `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  readonly limits?: Partial<FleetLimits>
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
  /** Default: what the backend names, or else this host always leads. */
  readonly elector?: Elector
}

/** Anything else is `invalid`, and nothing is drained. */
export interface DrainOptions extends CallOptions {
  /** What becomes of Active servers. Default `wait`: they go on to their end. `terminate`: they are told, as by a deletion. */
  readonly active?: 'wait' | 'terminate'
  /** Gives up waiting for Active servers after this long: a finite number, at least 0. Default: never. */
  readonly deadlineMs?: number
}

export interface DrainResult {
  /** Servers still there: matches that went on past the deadline, or what a resume has left. */
  readonly remaining: number
}

/** Numbers an operator may tune. Times in ms. */
export interface FleetLimits {
  /** No first heartbeat this long after its process runs: Unhealthy, removed, one crash. Default 60 s. */
  readonly firstHeartbeatMs: number
  /** Silent for this long after a heartbeat: Unhealthy; unless Active removed, one crash. At least two heartbeats. Default 10 s. */
  readonly silenceMs: number
  /** What servers are told as `nextHeartbeatIntervalMs`. At least 1000. Default 1 s. */
  readonly heartbeatIntervalMs: number
  /** Reports of Unhealthy in a row, after a Healthy one, that end an idle server. Default 3. */
  readonly unhealthyReports: number
  /** Most creations started in one pass of a build. Default 20. */
  readonly maxCreatesPerReconcile: number
  /** Most deletions started in one pass of a build. Default 20. */
  readonly maxDeletesPerReconcile: number
  /** Most Pending servers of a build: no more are begun beside them. Default 5,000. */
  readonly maxPending: number
  /** First pause after a crash; doubles with each further one. Default 1 s. */
  readonly backoffInitialMs: number
  /** Longest pause after crashes. Default 60 s. */
  readonly backoffMaxMs: number
  /** A server that stayed up this long resets the pause, and lets a rolling change go on. Default 60 s. */
  readonly backoffResetMs: number
  /** Events that the log keeps for `explain` and `events`. Default 10,000. */
  readonly eventLogSize: number
  /** Longest that an allocation may wait. Default 60 s. */
  readonly maxWaitMs: number
  /** Most callers waiting in the whole fleet; calls for one session count once. Default 10,000. */
  readonly maxWaiting: number
  /** The backend's list is read again at least this often. Default 60 s. */
  readonly resyncIntervalMs: number
  /** A call of the backend that is not answered after this long, besides its grace period, counts as failed. Default 120 s. */
  readonly callTimeoutMs: number
  /** Most instances being started at once. Default 20. */
  readonly maxConcurrentCreates: number
  /** Most instances being ended at once; each may take its grace period. Default 100. */
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

/** Throws `invalid`, naming the option, when a limit is not a whole number of its range. */
export function resolveOptions(options: FleetOptions): ResolvedOptions {
  return Object.freeze({
    apiGroup: options.apiGroup ?? defaultApiGroup,
    limits: resolveLimits(options.limits ?? {}),
    logger: options.logger ?? silentLogger,
    clock: options.clock ?? systemClock,
    elector: options.elector ?? options.backend.defaultElector ?? alwaysLeader,
  })
}

function resolveLimits(given: Partial<FleetLimits>): FleetLimits {
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(defaultLimits, name)) {
      throw new FleetError(
        'invalid',
        `limits.${name} is not a limit; known are ${Object.keys(defaultLimits).join(', ')}`,
      )
    }
    const least = name === 'heartbeatIntervalMs' ? 1_000 : 1
    if (!Number.isInteger(value) || value < least) {
      throw new FleetError('invalid', `limits.${name} must be an integer ≥ ${least}, but is ${shown(value)}`)
    }
  }
  const limits = Object.freeze({ ...defaultLimits, ...given })
  const { silenceMs, heartbeatIntervalMs } = limits
  if (silenceMs < 2 * heartbeatIntervalMs) {
    const least = `twice limits.heartbeatIntervalMs, which is ${heartbeatIntervalMs}`
    throw new FleetError('invalid', `limits.silenceMs must be at least ${least}, but is ${silenceMs}`)
  }
  return limits
}
