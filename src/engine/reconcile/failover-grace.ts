/**
 * The servers that a term found beyond what their builds want: whoever waited at the host before is on his way here, so for
 * a moment they are not too many.
 */
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf } from '../state/queries.js'
import { retryGraceMs } from '../allocation/retry-grace.js'

export interface FailoverGrace {
  /** Counts those that are there now. */
  count(): void
  /** From now on it takes 3 s until none is spared any more. */
  start(): void
  stop(): void
  /** How many servers of this build are spared. */
  spared(build: BuildEntry): number
}

/** `over` is called when none is spared any more. */
export function failoverGrace({ clock, inventory }: EngineContext, over: () => void): FailoverGrace {
  const beyondWanted = new Map<BuildEntry, number>()
  let stop = () => {}

  return {
    count() {
      for (const build of inventory.everyBuild) {
        const { pending, initializing, standingBy } = countsOf(build)
        beyondWanted.set(build, Math.max(0, pending + initializing + standingBy - build.record.spec.standingBy))
      }
    },
    start() {
      stop = clock.after(retryGraceMs, () => {
        beyondWanted.clear()
        over()
      })
    },
    stop: () => stop(),
    spared: (build) => beyondWanted.get(build) ?? 0,
  }
}
