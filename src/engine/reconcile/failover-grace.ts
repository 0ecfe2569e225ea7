/**
 * Servers that a new leader finds beyond its builds' standingBy. Callers that waited at the previous leader are about to
 * retry here, so these servers are not scaled down for the length of the retry grace.
 */
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf } from '../state/queries.js'
import { retryGraceMs } from '../allocation/retry-grace.js'

export class FailoverGrace {
  readonly #ctx: EngineContext
  readonly #surplus = new Map<BuildEntry, number>()
  #cancel = () => {}

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Records the present surplus of each build. */
  recordSurplus(): void {
    for (const build of this.#ctx.inventory.everyBuild) {
      const { pending, initializing, standingBy } = countsOf(build)
      const idle = pending + initializing + standingBy
      this.#surplus.set(build, Math.max(0, idle - build.record.spec.standingBy))
    }
  }

  /** Starts the timer that ends the grace, and reconciles every build then. */
  start(): void {
    this.#cancel = this.#ctx.clock.after(retryGraceMs, () => {
      this.#surplus.clear()
      for (const build of this.#ctx.inventory.everyBuild) this.#ctx.enqueue(build)
    })
  }

  stop(): void {
    this.#cancel()
  }

  /** Surplus servers of this build that must not be scaled down yet. */
  surplusOf(build: BuildEntry): number {
    return this.#surplus.get(build) ?? 0
  }
}
