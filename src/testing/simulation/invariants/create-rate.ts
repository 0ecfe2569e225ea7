/** Invariant: for a build whose servers cannot run, the fleet creates no more instances than the back-off allows. */
import type { FleetLimits } from '../../../contracts/options.js'
import { pauseMs } from '../../../rules/lifecycle/backoff.js'
import type { World } from '../world/world.js'

const windowMs = 10 * 60_000
/** An attempt may take this long. With a shorter `backoffResetMs` the back-off starts over each time: nothing to check. */
const maxAttemptMs = 30_000

export class CreateRate {
  /** Elapsed ms of each create. */
  readonly #creates: number[] = []
  /** Elapsed ms of each election: a new leader starts with the initial back-off again. */
  readonly #elections: number[] = []

  constructor(
    readonly world: World,
    /** The `standingBy` of the build. */
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
    // Twice the number, since failed calls are retried and externally deleted servers are replaced.
    const most = 2 * this.standingBy * pauses
    if (this.#creates.length > most) {
      this.world.violate(`too many creates: ${this.#creates.length} within 10 minutes, the back-off allows ${most}`)
    }
  }

  /** Number of attempts until the back-off reaches its maximum, including the first attempt. */
  get #shortPauses(): number {
    const limits = { initialMs: this.limits.backoffInitialMs, maxMs: this.limits.backoffMaxMs }
    for (let failures = 1; ; failures++) if (pauseMs(failures, limits) >= limits.maxMs) return failures + 1
  }
}
