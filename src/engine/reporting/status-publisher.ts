/** Publishes the status of builds to a store that displays it to people: at most once every 250 ms per build. */
import { canonical } from '../../rules/model/values.js'
import type { BuildSpec } from '../../rules/model/resources.js'
import { gameServerBuild } from '../../rules/model/wire.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf, readinessOfBuild, statusOf } from '../state/queries.js'

const delayMs = 250

export class StatusPublisher {
  readonly #ctx: EngineContext
  readonly #cancelScheduled = new Map<BuildEntry, () => void>()
  readonly #published = new WeakMap<BuildEntry, { readonly text: string; readonly spec: BuildSpec }>()

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
    const { status } = gameServerBuild(build.record, countsOf(build), '', statusOf(build))
    const { spec } = build.record
    const readiness = readinessOfBuild(build, this.#ctx.limits.maxServersPerBuild)
    const text = JSON.stringify([status, readiness])
    const published = this.#published.get(build)
    // A spec that was observed is published even if nothing else has changed.
    if (published?.text === text && isSameSpec(published.spec, spec)) return
    this.#published.set(build, { text, spec })
    this.#ctx.store.display?.build(build.ref, status, { ...readiness, spec })
  }
}

/** A spec that was read again is another object. */
function isSameSpec(a: BuildSpec, b: BuildSpec): boolean {
  return a === b || canonical(a) === canonical(b)
}
