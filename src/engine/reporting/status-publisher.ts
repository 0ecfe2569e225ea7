/** Shows the counts of builds to those who look into the store: when they have changed, and not more often than people read. */
import { gameServerBuild } from '../../rules/model/wire.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf, generationsOf } from '../state/queries.js'

export interface StatusPublisher {
  /** Something about the build may have changed. */
  touch(build: BuildEntry): void
  stop(): void
}

const delayMs = 250

export function statusPublisher(ctx: EngineContext): StatusPublisher {
  const { clock, store } = ctx
  const planned = new Map<BuildEntry, () => void>()
  const shown = new WeakMap<BuildEntry, string>()

  function show(build: BuildEntry): void {
    planned.delete(build)
    if (build.deleted || ctx.stopped()) return
    const { status } = gameServerBuild(build.record, countsOf(build), '', generationsOf(build))
    const text = JSON.stringify(status)
    if (shown.get(build) === text) return
    shown.set(build, text)
    store.display?.build(build.ref, status)
  }

  return {
    touch(build) {
      if (!store.display || planned.has(build)) return
      planned.set(
        build,
        clock.after(delayMs, () => show(build)),
      )
    },
    stop() {
      for (const cancel of planned.values()) cancel()
      planned.clear()
    },
  }
}
