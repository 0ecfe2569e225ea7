/** The options of a fleet, with defaults and units. */
import { defaultApiGroup } from '../rules/model/wire.js'
import { quantityOf } from '../rules/model/quantity.js'
import type { Amounts } from '../rules/planning/budget.js'
import { counted, isObject, shown } from '../rules/validation/problem.js'
import type { Backend } from './backend.js'
import type { AuditedCallOptions } from './call-options.js'
import { type Clock, systemClock } from './clock.js'
import { alwaysLeader, type Elector, type ForwardingOptions } from './elector.js'
import { FleetError } from './errors.js'
import { checkEventType, type EventListeners } from './events.js'
import { type Logger, loggerOf } from './logger.js'
import {
  aBoolean,
  aClock,
  aLogger,
  aNumber,
  anObject,
  aString,
  checkOptions,
  type OptionTypes,
  required,
  strings,
  suggestion,
  withMethods,
} from './option-checks.js'
import type { ScalingFunction } from './scaling-demand.js'
import type { Store } from './store.js'

export interface AgentOptions {
  /** Address to listen on. Default: the address that the backend requires, or else `127.0.0.1`. */
  readonly host?: string
  /** Port to listen on; 0 picks a free one. Default: 56001. */
  readonly port?: number
  /**
   * `host:port` at which game servers reach the agent. If the port is missing, the agent's port is added. Default: the
   * address that the agent listens on.
   */
  readonly address?: string
}

export interface FleetOptions {
  /** The backend that runs the game servers: `processBackend()`, `dockerBackend()`… */
  readonly backend: Backend
  /** Where records are kept. Default: the backend's default store. The fleet closes the store only if it opened it itself. */
  readonly store?: Store
  /**
   * The heartbeat endpoint. Default: an agent on 127.0.0.1:56001 if the backend's servers send heartbeats over HTTP. With
   * `{ external: 'host:port' }` no agent is started; the host app must mount `agentListener(fleet)` at that address.
   */
  readonly agent?: AgentOptions | { readonly external: string }
  /**
   * Whether to start with an empty store although game servers of this fleet exist, so that its data must have been lost, or with a
   * store that has lost records. Matches without a record then go on until they end, and other servers without one are terminated.
   * Default false: `createFleet` rejects with `directory-unusable`, and nothing is changed.
   */
  readonly acceptStoreLoss?: boolean
  /** API group in the `apiVersion` of resources. Default: `mps.gamekeeper.com`. */
  readonly apiGroup?: string
  readonly limits?: Partial<FleetLimits>
  /** What all builds together may have. `spec.budget` of a build says what part of it is its own, and who goes first. Default: unlimited. */
  readonly budget?: BudgetOptions
  /**
   * Listeners, as for `fleet.on`, that hear every event of this host: also what happened while no host ran, such as sessions that have
   * ended, which the fleet may find out before `createFleet` resolves.
   */
  readonly on?: EventListeners
  /** Whether calls that name their caller are audited by the event `Audited`. All HTTP requests name it. Default: true. */
  readonly audit?: boolean
  /** Default: warnings and errors go to stderr, as one line each: readable on a terminal, otherwise JSON. false: none. */
  readonly logger?: Logger | false
  /** Default: `systemClock`. */
  readonly clock?: Clock
  /** Default: the backend's default elector. If it has none, this host is always the leader. */
  readonly elector?: Elector
  /**
   * Has HTTP requests forwarded to the host that leads while this one does not. Needs an elector that knows the leader's address, such as
   * that of Kubernetes, and `serve` with its option `forwarding` on every host. Default: a host that does not lead refuses them with
   * `not-leader`.
   */
  readonly forwarding?: ForwardingOptions
  /**
   * Functions that decide how many servers a build keeps ready, by the name that builds put into `spec.scaling.function`. Each host of a fleet
   * needs them, since any may lead. Default: none.
   */
  readonly scalingPolicies?: Readonly<Record<string, ScalingFunction>>
  /**
   * Origins, such as `https://demand.example`, at which builds may have the hosts of the fleet call a URL of `spec.scaling.webhook`. Default:
   * none, since whoever may create builds could otherwise have a host call any URL that it reaches.
   */
  readonly scalingWebhooks?: readonly string[]
}

/**
 * Limits of the whole fleet: one or more of these. A server counts with what the containers of its build's template request, and with 0 for
 * what they do not request. Matches never end for a budget.
 */
export interface BudgetOptions {
  /** Number of servers. An integer ≥ 1. */
  readonly servers?: number
  /** CPU cores, as a Kubernetes quantity: `16` or `'500m'`. */
  readonly cpu?: string | number
  /** Bytes of memory, as a Kubernetes quantity: `'64Gi'`. */
  readonly memory?: string | number
}

/** Invalid values are rejected with `invalid`, and nothing is drained. */
export interface DrainOptions extends AuditedCallOptions {
  /**
   * What happens to Active servers. `wait` (default): they finish their matches. `terminate`: they are terminated, each with its
   * whole grace period.
   */
  readonly active?: 'wait' | 'terminate'
  /** Time in ms after which to stop waiting for Active servers: a finite number ≥ 0. Default: wait without limit. */
  readonly deadlineMs?: number
}

export interface DrainResult {
  /** Number of servers left: those with a match at the deadline, or all those left when `resume` ended the drain. */
  readonly remaining: number
}

/** Limits that an operator can tune. All times are in ms. */
export interface FleetLimits {
  /**
   * How long a server may take to send its first heartbeat after its process starts. After that it is terminated and
   * counted as a crash. Default: 60 s.
   */
  readonly firstHeartbeatMs: number
  /**
   * Time without a heartbeat after which an idle server is terminated and counted as a crash, and an Active one is marked
   * Unhealthy. At least two heartbeat intervals. Default: 10 s.
   */
  readonly silenceMs: number
  /**
   * How long a server may take from the request to start it until it is standing by. After that it is late: another is
   * started beside it within `max`, and the late one is used if it comes and terminated if it does not. Doubles while the
   * servers of a build keep being late. Default: 60 s.
   */
  readonly lateStartMs: number
  /** Heartbeat interval, sent to servers as `nextHeartbeatIntervalMs`. At least 1000. Default: 1 s. */
  readonly heartbeatIntervalMs: number
  /**
   * Number of consecutive Unhealthy reports after which an idle server is terminated. Reports count only after the server
   * has once reported Healthy. Default: 3.
   */
  readonly unhealthyReports: number
  /** Maximum number of servers created each time a build is reconciled. Default: 20. */
  readonly maxCreatesPerReconcile: number
  /** Maximum number of servers terminated each time a build is reconciled. Default: 20. */
  readonly maxDeletesPerReconcile: number
  /** Maximum number of Pending servers per build, without late ones. Default: 5,000. */
  readonly maxPending: number
  /** The highest `max`, and so `standingBy`, that a build may have. Default: 100,000. */
  readonly maxServersPerBuild: number
  /** Back-off after the first crash. It doubles with each further crash. Default: 1 s. */
  readonly backoffInitialMs: number
  /** Maximum back-off. Default: 60 s. */
  readonly backoffMaxMs: number
  /**
   * The back-off is reset after this long without a crash. A rolling update that a crash held up continues once new servers
   * have been up for this long. Default: 60 s.
   */
  readonly backoffResetMs: number
  /**
   * Number of events kept in the log, for `explain` and `events`, and of sessions of which `sessions.get` says how they have ended.
   * Default: 10,000.
   */
  readonly eventLogSize: number
  /** Number of days for which the demand for each build is recorded, today included; 0: it is not. Default: 9. */
  readonly demandDays: number
  /** Maximum `waitMs` of an allocation. Default: 60 s. */
  readonly maxWaitMs: number
  /** Maximum number of waiting callers in the whole fleet. Calls for the same session count once. Default: 10,000. */
  readonly maxWaiting: number
  /** Maximum time between two listings of the backend's instances, and of the records in a shared store. Default: 60 s. */
  readonly resyncIntervalMs: number
  /**
   * Timeout of a call to the backend or the store, of which the latter may take up to half as long again; the grace period is added for
   * calls that have one. After that the call counts as failed. Default: 120 s.
   */
  readonly callTimeoutMs: number
  /**
   * Maximum number of instances that are started at the same time. Builds take turns, and each build may always have one
   * start in progress, even beyond this limit. Default: 20.
   */
  readonly maxConcurrentCreates: number
  /**
   * Maximum number of instances that are destroyed at the same time, shared between builds in the same way. Each can take up
   * to its grace period. Default: 100.
   */
  readonly maxConcurrentDestroys: number
}

export const defaultLimits: FleetLimits = Object.freeze({
  firstHeartbeatMs: 60_000,
  silenceMs: 10_000,
  lateStartMs: 60_000,
  heartbeatIntervalMs: 1_000,
  unhealthyReports: 3,
  maxCreatesPerReconcile: 20,
  maxDeletesPerReconcile: 20,
  maxPending: 5_000,
  maxServersPerBuild: 100_000,
  backoffInitialMs: 1_000,
  backoffMaxMs: 60_000,
  backoffResetMs: 60_000,
  eventLogSize: 10_000,
  demandDays: 9,
  maxWaitMs: 60_000,
  maxWaiting: 10_000,
  resyncIntervalMs: 60_000,
  callTimeoutMs: 120_000,
  maxConcurrentCreates: 20,
  maxConcurrentDestroys: 100,
})

export interface ResolvedOptions {
  readonly apiGroup: string
  readonly audit: boolean
  readonly budget: FleetBudget | undefined
  readonly limits: FleetLimits
  readonly logger: Logger
  readonly clock: Clock
  readonly elector: Elector
  readonly forwarding: ForwardingOptions | undefined
  readonly scalingPolicies: ReadonlyMap<string, ScalingFunction>
  readonly scalingWebhooks: ReadonlySet<string>
}

/** A budget, as the fleet keeps to it. */
export interface FleetBudget {
  readonly limits: Amounts
  /** For people: `10 servers, 64Gi of memory`. */
  readonly text: string
}

const fleetOptionTypes: OptionTypes<FleetOptions> = {
  backend: required(
    withMethods('a backend, such as processBackend()', ['create', 'destroy', 'list', 'watch', 'close']),
  ),
  store: withMethods('a store, such as memoryStore()', ['close']),
  audit: aBoolean,
  agent: { ...anObject, must: 'must be an object, such as { port: 56001 }' },
  acceptStoreLoss: aBoolean,
  apiGroup: aString,
  limits: anObject,
  budget: { ...anObject, must: 'must be an object, such as { servers: 100 }' },
  on: anObject,
  logger: aLogger,
  clock: aClock,
  elector: withMethods('an elector', ['run']),
  forwarding: { ...anObject, must: "must be an object, such as { address: '10.0.0.4:5002' }" },
  scalingPolicies: { ...anObject, must: "must be an object of functions, such as { 'match-day': () => 10 }" },
  scalingWebhooks: { ...strings, must: "must be an array of origins, such as ['https://demand.example']" },
}
const agentOptionTypes: OptionTypes<AgentOptions & { readonly external: string }> = {
  host: aString,
  port: aNumber,
  address: aString,
  external: aString,
}

const aQuantity = {
  must: "must be a Kubernetes quantity above 0, such as 16, '500m' or '64Gi'",
  is: (value: unknown) => (typeof value === 'string' || typeof value === 'number') && quantityOf(String(value)) > 0,
}

const budgetTypes: OptionTypes<BudgetOptions> = {
  servers: { must: 'must be an integer ≥ 1', is: (value) => Number.isSafeInteger(value) && Number(value) >= 1 },
  cpu: aQuantity,
  memory: aQuantity,
}

const forwardingTypes: OptionTypes<ForwardingOptions> = { address: required(aString), secret: aString }

/** Applies defaults. Throws `invalid`, naming the option, if one is unknown, missing or bad. */
export function resolveOptions(options: FleetOptions): ResolvedOptions {
  if (isObject(options) && 'development' in options) {
    const mend = 'createFleet({ backend: processBackend({ development: true }) })'
    throw new FleetError('invalid', `createFleet: development is an option of processBackend: ${mend}`)
  }
  checkOptions('createFleet', options, fleetOptionTypes)
  if (options.agent) checkOptions('createFleet: agent', options.agent, agentOptionTypes)
  if (options.forwarding) checkForwarding(options.forwarding)
  for (const [type, listener] of Object.entries(options.on ?? {})) checkListener(type, listener)
  for (const [name, decide] of Object.entries(options.scalingPolicies ?? {})) checkScalingPolicy(name, decide)
  for (const origin of options.scalingWebhooks ?? []) checkOrigin(origin)
  checkClocks(options)
  return Object.freeze({
    apiGroup: options.apiGroup ?? defaultApiGroup,
    audit: options.audit ?? true,
    budget: options.budget && resolveBudget(options.budget),
    limits: resolveLimits({
      ...(options.backend.capabilities.development && { silenceMs: pauseMs }),
      ...options.limits,
    }),
    logger: loggerOf(options.logger),
    clock: options.clock ?? systemClock,
    elector: options.elector ?? options.backend.defaultElector ?? alwaysLeader,
    forwarding: options.forwarding,
    scalingPolicies: new Map(Object.entries(options.scalingPolicies ?? {})),
    scalingWebhooks: new Set(options.scalingWebhooks),
  })
}

function resolveBudget(budget: BudgetOptions): FleetBudget {
  checkOptions('createFleet: budget', budget, budgetTypes)
  const { servers, cpu, memory } = budget
  const parts = [
    ...(servers === undefined ? [] : [counted(servers, 'server')]),
    ...(cpu === undefined ? [] : [`${cpu} CPU`]),
    ...(memory === undefined ? [] : [`${memory} of memory`]),
  ]
  if (parts.length === 0) {
    throw new FleetError('invalid', 'createFleet: budget must have servers, cpu or memory, but has none of them')
  }
  const limits = {
    servers: servers ?? Infinity,
    cpu: cpu === undefined ? Infinity : Math.round(quantityOf(String(cpu)) * 1_000),
    memory: memory === undefined ? Infinity : Math.floor(quantityOf(String(memory))),
  }
  return Object.freeze({ limits: Object.freeze(limits), text: parts.join(', ') })
}

function checkListener(type: string, listener: unknown): void {
  if (type !== '*') checkEventType('createFleet: on', type)
  if (listener === undefined || typeof listener === 'function') return
  throw new FleetError('invalid', `createFleet: on.${type} must be a function, but is ${shown(listener)}`)
}

function checkScalingPolicy(name: string, decide: unknown): void {
  if (typeof decide === 'function') return
  throw new FleetError('invalid', `createFleet: scalingPolicies.${name} must be a function, but is ${shown(decide)}`)
}

function checkOrigin(origin: string): void {
  if (/^https?:/.test(origin) && URL.canParse(origin) && new URL(origin).origin === origin) return
  const must = 'must be origins like https://demand.example, without a path'
  throw new FleetError('invalid', `createFleet: scalingWebhooks ${must}, but one is ${shown(origin)}`)
}

/** With two clocks, a test that advances one of them would wait for ever for what the other does. */
function checkClocks({ clock, backend }: FleetOptions): void {
  if (backend.clock === undefined || backend.clock === (clock ?? systemClock)) return
  const mend =
    'give the backend and createFleet the same one: createFleet({ backend: memoryBackend({ clock }), clock })'
  throw new FleetError(
    'invalid',
    `createFleet: clock is ${clock ? 'another clock than' : 'missing, but there is'} that of the backend; ${mend}`,
  )
}

function checkForwarding(options: ForwardingOptions): void {
  checkOptions('createFleet: forwarding', options, forwardingTypes)
  const { address, secret } = options
  const port = Number(/^(?:\[[\da-f:.]+\]|[\w.-]+):(\d{1,5})$/i.exec(address)?.[1])
  if (!(port >= 1 && port <= 65_535)) {
    throw new FleetError('invalid', `createFleet: forwarding.address must be host:port, but is ${shown(address)}`)
  }
  if (secret !== undefined && secret.length < 16) {
    throw new FleetError('invalid', 'createFleet: forwarding.secret must have at least 16 characters')
  }
}

const minimums: Readonly<Record<string, number>> = { heartbeatIntervalMs: 1_000, demandDays: 0 }

/** How long a game may pause in a debugger, in development. */
const pauseMs = 10 * 60_000

function resolveLimits(overrides: Partial<FleetLimits>): FleetLimits {
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(defaultLimits, name)) {
      throw new FleetError(
        'invalid',
        `limits.${name} does not exist; ${suggestion(name, Object.keys(defaultLimits), 'limits')}`,
      )
    }
    const minimum = minimums[name] ?? 1
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
