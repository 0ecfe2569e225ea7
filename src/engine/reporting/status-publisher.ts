/** Publishes the status of builds to a store that displays it to people: at most once every 250 ms per build. */
import { gameServerBuild } from '../../rules/model/wire.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf, generationsOf } from '../state/queries.js'

const delayMs = 250

export class StatusPublisher {
  readonly #ctx: EngineContext
  readonly #cancelScheduled = new Map<BuildEntry, () => void>()
  readonly #published = new WeakMap<BuildEntry, string>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Schedules the publication of a build's status. Nothing is published if the status has not changed by then. */
  schedule(build: BuildEntry): void {
    const { clock, store } = this.#ctx
    if (!store.display || this.#cancelScheduled.has(build)) return
    this.#cancelScheduled.set(
      build,
      clock.after(delayMs, () => this.#publish(build)),
    )
  }

  stop(): void {
    for (const cancel of this.#cancelScheduled.values()) cancel()
    this.#cancelScheduled.clear()
  }

  #publish(build: BuildEntry): void {
    this.#cancelScheduled.delete(build)
    if (build.deleted || this.#ctx.stopped()) return
    const { status } = gameServerBuild(build.record, countsOf(build), '', generationsOf(build))
    const text = JSON.stringify(status)
    if (this.#published.get(build) === text) return
    this.#published.set(build, text)
    this.#ctx.store.display?.build(build.ref, status)
  }
}
