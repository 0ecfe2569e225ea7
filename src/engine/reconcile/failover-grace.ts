/**
 * Protects the surplus servers that a new leader finds. Callers that were waiting at the previous leader are about to retry
 * here, so idle servers in excess of standingBy are not scaled down during the retry grace.
 */
import { retryGraceMs } from '../allocation/retry-grace.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf } from '../state/queries.js'

export class FailoverGrace {
  readonly #ctx: EngineContext
  readonly #surplus = new Map<BuildEntry, number>()
  #cancel = () => {}

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Records the current surplus of each build. */
  recordSurplus(): void {
    for (const build of this.#ctx.inventory.everyBuild) {
      const { pending, initializing, standingBy } = countsOf(build)
      const idle = pending + initializing + standingBy
      this.#surplus.set(build, Math.max(0, idle - build.record.spec.standingBy))
    }
  }

  /** Starts the timer that ends the grace period and then reconciles every build. */
  start(): void {
    this.#cancel = this.#ctx.clock.after(retryGraceMs, () => {
      this.#surplus.clear()
      for (const build of this.#ctx.inventory.everyBuild) this.#ctx.enqueue(build)
    })
  }

  stop(): void {
    this.#cancel()
  }

  /** Returns the number of surplus servers of this build that must not be scaled down yet. */
  surplusOf(build: BuildEntry): number {
    return this.#surplus.get(build) ?? 0
  }
}
