/** Invariant: for a build whose servers cannot run, the fleet creates no more instances than the back-off allows. */
import type { FleetLimits } from '../../../src/contracts/options.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import type { World } from '../world/world.js'

const windowMs = 10 * 60_000
/** How long an attempt may take. If `backoffResetMs` is shorter, the back-off resets each time and cannot be checked. */
const maxAttemptMs = 30_000

export class CreateRate {
  /** Elapsed ms at each create. */
  readonly #creates: number[] = []
  /** Elapsed ms at each election: a new leader starts over with the initial back-off. */
  readonly #elections: number[] = []

  constructor(
    readonly world: World,
    /** `standingBy` from the build's spec. */
    readonly standingBy: number,
    readonly limits: Pick<FleetLimits, 'backoffInitialMs' | 'backoffMaxMs' | 'backoffResetMs'>,
  ) {}

  leaderElected(): void {
    this.#elections.push(this.world.elapsedMs)
  }

  created(): void {
    if (this.limits.backoffResetMs < maxAttemptMs) return
    const { elapsedMs } = this.world
    const from = elapsedMs - windowMs
    this.#creates.push(elapsedMs)
    while ((this.#creates[0] ?? Infinity) < from) this.#creates.shift()
    while ((this.#elections[0] ?? Infinity) < from) this.#elections.shift()
    const pauses = this.#shortPauses * (1 + this.#elections.length) + windowMs / this.limits.backoffMaxMs
    // Doubled, since failed calls are retried and externally deleted servers are replaced.
    const most = 2 * this.standingBy * pauses
    if (this.#creates.length > most) {
      this.world.violate(`too many creates: ${this.#creates.length} within 10 minutes, the back-off allows ${most}`)
    }
  }

  /** Number of attempts until the back-off reaches its maximum, counting the first attempt. */
  get #shortPauses(): number {
    const limits = { initialMs: this.limits.backoffInitialMs, maxMs: this.limits.backoffMaxMs }
    for (let failures = 1; ; failures++) if (pauseMs(failures, limits) >= limits.maxMs) return failures + 1
  }
}
