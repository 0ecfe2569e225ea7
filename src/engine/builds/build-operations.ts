/** Patches, updates, drains and deletes builds. A call resolves when its change is validated, durable and applied. */
import { FleetError, invalidInput } from '../../contracts/errors.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import type { Ref } from '../../rules/model/resources.js'
import { readPatch } from '../../rules/validation/build-schema.js'
import type { WaitQueue } from '../allocation/wait-queue.js'
import { buildEvent, type EngineContext } from '../context.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { hasCondition, withDraining } from '../reporting/conditions.js'
import type { EventReporter } from '../reporting/event-reporter.js'
import type { BuildEntry } from '../state/entries.js'
import { lookUp } from '../state/inventory.js'
import { serversOf } from '../state/queries.js'
import { type Applied, applyBuild } from './build-application.js'
import type { BuildCreation } from './build-creation.js'
import { buildNotFound, type CheckedInput, patched, readForBackend, readUpdate, replaced } from './build-edits.js'

export interface BuildOperationDependencies {
  readonly creation: BuildCreation
  readonly events: EventReporter
  readonly waitQueue: WaitQueue
  readonly writer: BuildWriter
  /** Called when a build was deleted. */
  readonly deleted: (build: BuildEntry) => void
  /** Called when a caller has set `standingBy`. */
  readonly setByHand: (build: BuildEntry) => void
}

export class BuildOperations {
  readonly #ctx: EngineContext
  readonly #deps: BuildOperationDependencies

  constructor(ctx: EngineContext, deps: BuildOperationDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Returns the entry of a build. Throws `not-found`. */
  find(ref: Ref): BuildEntry {
    const build = lookUp(this.#ctx.inventory.builds, ref)
    if (!build) throw buildNotFound(ref)
    return build
  }

  create(input: unknown): Promise<BuildEntry> {
    return this.#deps.creation.create(input)
  }

  async patch(ref: Ref, change: unknown): Promise<BuildEntry> {
    const { limits } = this.#ctx
    const build = this.find(ref)
    const checked = readPatch(change)
    if (!checked.ok) throw invalidInput(checked.problem, 'the change')
    await this.#deps.writer.change(build, (record) => patched(record, checked.value, limits.maxServersPerBuild))
    if (checked.value.standingBy !== undefined) this.#deps.setByHand(build)
    const { standingBy, max } = build.record.spec
    const message = `build ${ref.name} was patched: standingBy ${standingBy}, max ${max}`
    this.#ctx.emitter.emit({
      type: 'BuildPatched',
      ...buildEvent(this.#ctx, build.record, message),
      standingBy,
      max,
    })
    return build
  }

  async update(ref: Ref, change: unknown): Promise<BuildEntry> {
    const build = this.find(ref)
    const { backend, emitter, limits } = this.#ctx
    let skipped: readonly string[] = []
    await this.#deps.writer.change(build, (record) => {
      const next = readUpdate(record, change, { backend, maxServers: limits.maxServersPerBuild })
      skipped = next.skipped
      return { ...record, spec: next.input.spec }
    })
    emitter.emit({ type: 'BuildUpdated', ...buildEvent(this.#ctx, build.record, `build ${ref.name} was updated`) })
    this.#deps.events.fieldsSkipped(build.record, skipped)
    return build
  }

  /** Creates a build, or replaces the spec of the build that has its name. Throws `invalid`, `exists`, or the store's error. */
  apply(input: unknown): Promise<Applied> {
    const { backend, inventory } = this.#ctx
    const checked = readForBackend(input, backend)
    const { creation, writer } = this.#deps
    return applyBuild({
      find: () => lookUp(inventory.builds, checked.input.metadata),
      create: () => creation.create(checked.input),
      created: () => creation.settled(checked.input.metadata),
      refresh: async (build) => {
        if (!(await writer.refresh(build))) this.recordDeleted(build)
      },
      replace: (build) => this.#replace(build, checked),
    })
  }

  /** Resolves with false if the build has this spec already. */
  async #replace(build: BuildEntry, { input, skipped }: CheckedInput): Promise<boolean> {
    const { emitter, limits } = this.#ctx
    let isChanged = false
    await this.#deps.writer.change(build, (record) => {
      const next = replaced(record, input.spec, limits.maxServersPerBuild)
      isChanged = next !== record
      return next
    })
    if (!isChanged) return false
    const message = `build ${build.record.name} was updated`
    emitter.emit({ type: 'BuildUpdated', ...buildEvent(this.#ctx, build.record, message) })
    this.#deps.events.fieldsSkipped(build.record, skipped)
    return true
  }

  async setDraining(ref: Ref, draining: boolean): Promise<BuildEntry> {
    const build = this.find(ref)
    await this.#deps.writer.change(build, (record) => withDraining(record, draining, this.#ctx.clock.now()))
    if (draining) this.#deps.waitQueue.rejectAll(new FleetError('draining', `build ${ref.name} is draining`), build)
    return build
  }

  async delete(ref: Ref): Promise<void> {
    const build = this.find(ref)
    try {
      await this.#deleteRecord(build)
    } catch (error) {
      // The record may have been deleted although the call failed. The next resync reads it back.
      this.#deps.writer.markUncertain(build)
      throw error
    }
    this.recordDeleted(build)
  }

  /** Call when the record is no longer in the store. Rejects waiting callers and terminates the servers. */
  recordDeleted(build: BuildEntry): void {
    if (build.deleted) return
    const { clock, emitter, inventory } = this.#ctx
    const { name } = build.record
    inventory.deleteBuild(build)
    const error = new FleetError('not-found', `build ${name} was deleted while the caller waited`)
    this.#deps.waitQueue.rejectAll(error, build)
    for (const entry of [...serversOf(build)]) {
      const event = { type: 'end' as const, reason: 'BuildDeleted' as const, message: `build ${name} was deleted` }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
    this.#enqueueInvalidBuilds()
    this.#deps.deleted(build)
    emitter.emit({ type: 'BuildDeleted', ...buildEvent(this.#ctx, build.record, `build ${name} was deleted`) })
    this.#ctx.enqueue(build)
  }

  /** Call when an edit has changed the buildID. Rejects waiting callers, because they requested the old buildID. */
  buildIDChanged(build: BuildEntry, oldID: string): void {
    const message = `build ${build.record.name} no longer has the buildID ${JSON.stringify(oldID)}`
    this.#deps.waitQueue.rejectAll(new FleetError('not-found', message), build)
    this.#enqueueInvalidBuilds()
  }

  /** Reconciles Invalid builds again: one that is Invalid because its buildID was taken may now be valid. */
  #enqueueInvalidBuilds(): void {
    for (const other of this.#ctx.inventory.builds.values()) {
      if (hasCondition(other.record, 'Invalid')) this.#ctx.enqueue(other)
    }
  }

  async #deleteRecord(build: BuildEntry): Promise<void> {
    const { store } = this.#ctx
    for (let revision = build.revision; ;) {
      try {
        return await store.builds.delete(build.ref, revision)
      } catch (error) {
        const current = await store.builds.get(build.record)
        if (current?.record.uid !== build.record.uid) return
        if (!FleetError.is(error, 'conflict')) throw error
        revision = current.revision
      }
    }
  }
}
