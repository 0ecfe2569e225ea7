/** Terminates a server: counts its crash, destroys its instance within the grace period, and deletes its records. */
import { FleetError } from '../../contracts/errors.js'
import { graceSecondsOf } from '../../rules/validation/template.js'
import { withTimeout } from '../../util/with-timeout.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import type { DetailWriter } from '../persistence/detail-writer.js'
import { withCrashing } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

export interface ServerTerminatorDependencies {
  readonly buildWriter: BuildWriter
  readonly details: DetailWriter
}

const maxDeleteAttempts = 5

export class ServerTerminator {
  readonly #ctx: EngineContext
  readonly #deps: ServerTerminatorDependencies

  constructor(ctx: EngineContext, deps: ServerTerminatorDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Returns the time in ms after which to call again while the game is exiting on its own, or undefined once the server has
   * been removed.
   */
  async terminate(entry: ServerEntry): Promise<number | undefined> {
    const { backend, clock, emitter, inventory, limits } = this.#ctx
    await this.#countCrash(entry)
    const { gameMs, backendMs } = gracePeriods(entry)
    const waitMs = (entry.terminatingSince ?? 0) + gameMs - clock.elapsed()
    if (waitMs > 0 && entry.instance?.phase === 'running') return waitMs
    if (entry.createRequested) {
      const { ref } = entry
      // An instance reported as exited may still be running, so add the game's remaining time to the backend's.
      const graceMs = backendMs + Math.max(0, waitMs)
      await this.#ctx.destroyLimiter(() =>
        withTimeout(clock, graceMs + limits.callTimeoutMs, `the termination of ${ref.name}`, (signal) =>
          backend.destroy(ref, entry.record.uid, { graceMs, signal }),
        ),
      )
    }
    await this.#deps.details.remove(entry)
    // Needed even if the record was already deleted, because an earlier write may have taken effect late.
    if (entry.revision !== undefined) await this.#deleteRecord(entry)
    inventory.remove(entry)
    emitter.emit({ type: 'ServerRemoved', ...serverEvent(this.#ctx, entry, `${entry.record.name} was removed`) })
    return undefined
  }

  /** Adds the crash to the build's durable count before the server's record, the only trace of it, is deleted. */
  async #countCrash(entry: ServerEntry): Promise<void> {
    if (!entry.record.ending?.crash || entry.crashCounted || entry.build.deleted) return
    const { name, uid, ending } = entry.record
    await this.#deps.buildWriter.change(entry.build, (record) => {
      if (record.countedCrashes.includes(uid)) return record
      const counted = {
        ...record,
        crashes: record.crashes + 1,
        countedCrashes: [...withoutRemoved(entry.build, record.countedCrashes), uid],
      }
      return withCrashing(counted, name, ending, this.#ctx.clock.now())
    })
    entry.crashCounted = true
  }

  async #deleteRecord(entry: ServerEntry): Promise<void> {
    const { store } = this.#ctx
    for (let attempt = 1; entry.revision !== undefined; attempt++) {
      const { revision } = entry
      try {
        await store.servers.delete(entry.record, revision)
        // If the revision has changed, an earlier write took effect late and created the record again.
        if (entry.revision === revision) return
      } catch (error) {
        if (!FleetError.is(error, 'conflict')) throw error
        const current = await store.servers.get(entry.record)
        if (current?.record.uid !== entry.record.uid) return
        // Another writer changed the record. Retry immediately, because after a back-off it may have changed again.
        entry.revision = current.revision
        if (attempt >= maxDeleteAttempts) throw error
      }
    }
  }
}

/**
 * Splits the grace period in two. In the first half, a game that was told to terminate by a heartbeat answer can exit on its
 * own; in the second half, the backend terminates it. If the game sends no heartbeats, the backend gets the whole period.
 */
function gracePeriods(entry: ServerEntry): { readonly gameMs: number; readonly backendMs: number } {
  const { record, build } = entry
  const graceMs = 1_000 * (record.graceSeconds ?? graceSecondsOf(build.record.spec.template))
  const gameMs = entry.terminatesByHeartbeat ? graceMs / 2 : 0
  return { gameMs, backendMs: graceMs - gameMs }
}

/**
 * Drops the uids of servers that have been removed, but only once there are many of them, so that a burst of crashes stays
 * cheap.
 */
function withoutRemoved(build: BuildEntry, counted: readonly string[]): readonly string[] {
  const { terminating } = build.buckets
  if (counted.length <= 2 * terminating.size) return counted
  const uids = new Set(Array.from(terminating, ({ record }) => record.uid))
  return counted.filter((uid) => uids.has(uid))
}
