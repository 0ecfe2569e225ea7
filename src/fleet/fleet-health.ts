/** Reports whether this host can serve calls. Probes the store and the backend, and caches the results. */
import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import type { FleetHealth } from '../contracts/fleet.js'
import type { Logger } from '../contracts/logger.js'
import type { Store } from '../contracts/store.js'
import { withTimeout } from '../util/with-timeout.js'

/** How long a probe's result is reused, so that frequent health checks add no load. */
const cacheMs = 2_000
const probeTimeoutMs = 2_000

interface HealthDependencies {
  readonly store: Store
  readonly backend: Backend
  readonly clock: Clock
  readonly logger: Logger
  /** Why this host cannot allocate now, or undefined if it can. */
  readonly notReadyReason: () => string | undefined
  readonly leads: () => boolean
  /** Absent if this host forwards no calls. */
  readonly follower?: Follower | undefined
  /** Why this host has not been able to lead for a minute, or undefined if it can. */
  readonly cannotLeadReason: () => string | undefined
}

/** What a host that does not lead can do for its callers. */
interface Follower {
  /** True once this host closes and should get no more calls. */
  readonly isClosed: () => boolean
  /** Resolves if the leader carries out calls that this host forwards. */
  readonly askLeader: (signal: AbortSignal) => Promise<unknown>
  /** Why this host can neither lead nor find out who does, or undefined if it can. */
  readonly obstacle: () => string | undefined
}

export class HealthCheck {
  readonly #deps: HealthDependencies
  readonly #store: CachedProbe
  readonly #backend: CachedProbe
  readonly #leader: CachedProbe | undefined
  /** Whether this host has once been able to lead. */
  #hasBeenAble = false

  constructor(deps: HealthDependencies) {
    const { store, backend, follower } = deps
    this.#deps = deps
    this.#store = new CachedProbe(deps, 'the store', (signal) =>
      store.probe ? store.probe({ signal }) : store.builds.get({ namespace: 'default', name: 'x' }, { signal }),
    )
    this.#backend = new CachedProbe(deps, `the ${backend.name} backend`, (signal) =>
      backend.probe ? backend.probe({ signal }) : backend.list({ signal }),
    )
    this.#leader = follower && new CachedProbe(deps, 'the host that leads', follower.askLeader)
  }

  async run(): Promise<FleetHealth> {
    const { backend, leads, notReadyReason } = this.#deps
    const asksLeader = !leads()
    const [storeProblem, backendProblem, leaderProblem] = await Promise.all([
      this.#store.run(),
      this.#backend.run(),
      asksLeader ? this.#leader?.run() : undefined,
    ])
    const own = [storeProblem, backendProblem].filter((problem) => problem !== undefined)
    const reason = notReadyReason()
    const follows = asksLeader && !leads() && reason !== undefined
    const problems =
      (follows ? this.#problemsOfFollower(leaderProblem, own) : undefined) ??
      (reason === undefined ? own : [reason, ...own])
    if (!follows && problems.length === 0) this.#hasBeenAble = true
    return {
      ready: problems.length === 0,
      leads: leads(),
      canLead: this.#deps.cannotLeadReason() === undefined,
      store: storeProblem === undefined,
      backend: backendProblem === undefined,
      problems,
      ...(backend.isolation && { isolation: backend.isolation }),
      ...(backend.usage && { measuresUsage: true }),
    }
  }

  /**
   * A host that does not lead is ready if it reaches the one that does, or could lead itself: it then holds calls until a host leads. One that
   * has never been able to lead is not, so that a rollout which would leave no leader does not go on. Undefined if this host does not forward.
   */
  #problemsOfFollower(leaderProblem: string | undefined, own: readonly string[]): readonly string[] | undefined {
    const { follower } = this.#deps
    if (!follower || follower.isClosed()) return undefined
    const obstacle = follower.obstacle()
    const unable = obstacle === undefined ? own : [`this host cannot lead the fleet now: ${obstacle}`, ...own]
    if (unable.length === 0) this.#hasBeenAble = true
    if (!this.#hasBeenAble) return unable
    return leaderProblem === undefined || unable.length === 0 ? [] : [leaderProblem, ...unable]
  }
}

/** Probes the store, the backend or the leader. Reuses a result for `cacheMs`, and logs a problem only when it is new. */
class CachedProbe {
  readonly #deps: Pick<HealthDependencies, 'clock' | 'logger'>
  readonly #what: string
  readonly #call: (signal: AbortSignal) => Promise<unknown>
  /** `at`: when the result arrived, in elapsed ms; Infinity while the probe is running. */
  #last: { at: number; readonly result: Promise<string | undefined> } | undefined
  #problem: string | undefined

  constructor(
    deps: Pick<HealthDependencies, 'clock' | 'logger'>,
    what: string,
    call: (signal: AbortSignal) => Promise<unknown>,
  ) {
    this.#deps = deps
    this.#what = what
    this.#call = call
  }

  /** Resolves with a description of the problem, or undefined if there is none. Never rejects. */
  run(): Promise<string | undefined> {
    const { clock } = this.#deps
    if (this.#last !== undefined && clock.elapsed() - this.#last.at < cacheMs) return this.#last.result
    const current = { at: Infinity, result: this.#probe() }
    this.#last = current
    void current.result.then(() => (current.at = clock.elapsed()))
    return current.result
  }

  async #probe(): Promise<string | undefined> {
    const { clock, logger } = this.#deps
    try {
      await withTimeout(clock, probeTimeoutMs, this.#what, this.#call)
      this.#problem = undefined
    } catch (error) {
      const problem = `${this.#what} is unavailable: ${messageOf(error)}`
      if (problem !== this.#problem) logger.warn({ probe: this.#what, err: error }, 'health probe failed')
      this.#problem = problem
    }
    return this.#problem
  }
}
