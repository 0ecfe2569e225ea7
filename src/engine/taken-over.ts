/**
 * The servers that a term found beyond what their builds want: whoever waited at the host before is on his way here, so for
 * a moment they are not too many.
 */
import { type BuildEntry, countsOf } from './entries.js'
import type { EngineContext } from './context.js'
import { comesBackMs } from './expected-callers.js'

export interface TakenOver {
  /** Counts those that are there now. */
  count(): void
  /** From now on it takes 3 s until none is spared any more. */
  start(): void
  stop(): void
  /** How many servers of this build are spared. */
  spared(build: BuildEntry): number
}

export function takenOver(ctx: Pick<EngineContext, 'clock' | 'inventory' | 'enqueue'>): TakenOver {
  const beyondWanted = new Map<BuildEntry, number>()
  let stop = () => {}

  return {
    count() {
      for (const build of ctx.inventory.everyBuild) {
        const { pending, initializing, standingBy } = countsOf(build)
        beyondWanted.set(build, Math.max(0, pending + initializing + standingBy - build.record.spec.standingBy))
      }
    },
    start() {
      stop = ctx.clock.after(comesBackMs, () => {
        beyondWanted.clear()
        for (const build of ctx.inventory.everyBuild) ctx.enqueue(build)
      })
    },
    stop: () => stop(),
    spared: (build) => beyondWanted.get(build) ?? 0,
  }
}
