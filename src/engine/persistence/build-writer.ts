/**
 * Writes changes to build records by compare-and-swap. Changes made while a write is in progress are batched into the next
 * write. Each change is a function that maps a record to its new version, so that it can be applied again if another writer
 * has changed the record.
 */
import { FleetError } from '../../contracts/errors.js'
import type { Store, Versioned } from '../../contracts/store.js'
import type { Build } from '../../rules/model/resources.js'
import type { BuildEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'

export type BuildChange = (build: Build) => Build

export interface BuildWriterDependencies {
  /** A write has succeeded, and no further write is in progress. */
  readonly idle: (build: BuildEntry) => void
  /** A write found no record of the build, and no further write is in progress. */
  readonly recordMissing: (build: BuildEntry) => void
}

interface PendingChange {
  readonly change: BuildChange
  resolve(): void
  reject(error: unknown): void
}

const maxAttempts = 5

export class BuildWriter {
  readonly #store: Pick<Store, 'builds'>
  readonly #inventory: Inventory
  readonly #deps: BuildWriterDependencies
  readonly #pending = new Map<BuildEntry, PendingChange[]>()
  readonly #uncertain = new Set<BuildEntry>()
  /** Builds whose record in the store is in an unknown state, because a call failed and reading the record back failed too. */
  readonly uncertain: ReadonlySet<BuildEntry> = this.#uncertain

  constructor(store: Pick<Store, 'builds'>, inventory: Inventory, deps: BuildWriterDependencies) {
    this.#store = store
    this.#inventory = inventory
    this.#deps = deps
  }

  /**
   * Resolves when the change is durable and applied. Rejects with the error thrown by the change, or with the store's error.
   */
  change(build: BuildEntry, change: BuildChange): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const pending = this.#pending.get(build)
      const item = { change, resolve, reject }
      if (pending) pending.push(item)
      else this.#pending.set(build, [item])
      if (build.writing) return
      build.writing = true
      void this.#writeAll(build)
    })
  }

  /** Resolves when the write in progress, if any, has ended. Never rejects. */
  async settled(build: BuildEntry): Promise<void> {
    // A change that changes nothing waits for its turn and writes nothing. Failures are reported to the callers whose
    // changes failed.
    if (build.writing) await this.change(build, (record) => record).catch(() => undefined)
  }

  /**
   * Applies a version reported by the store's watch. Returns false if it cannot be used, because the record is in an unknown
   * state, belongs to another build, or is being written: `found` may then be older than this host's write.
   */
  accept(build: BuildEntry, found: Versioned<Build>): boolean {
    if (build.writing || this.#uncertain.has(build) || found.record.uid !== build.record.uid) return false
    if (found.revision !== build.revision) this.#replace(build, found.record, found.revision)
    return true
  }

  /** Reads the record and applies changes made by another writer. Returns false if the record has been deleted. */
  async refresh(build: BuildEntry): Promise<boolean> {
    const { revision } = build
    const current = await this.#store.builds.get(build.record)
    // A write in progress detects any conflict itself.
    if (build.writing) return true
    const isGone = current?.record.uid !== build.record.uid
    // What was read may be older than a write that this host has completed in the meantime. A missing record is not: it existed.
    if (!isGone && build.revision !== revision) return true
    this.#uncertain.delete(build)
    if (build.deleted) return true
    if (isGone) return false
    if (current.revision !== revision) this.#replace(build, current.record, current.revision)
    return true
  }

  /** Marks the state of the record in the store as unknown. */
  markUncertain(build: BuildEntry): void {
    this.#uncertain.add(build)
  }

  async #writeAll(build: BuildEntry): Promise<void> {
    let succeeded = false
    let isMissing = false
    for (;;) {
      const batch = this.#takePending(build)
      if (batch.length === 0) {
        // Set synchronously after the last batch, so that a later change starts a new write.
        build.writing = false
        // After any other failure, neither callback is called. The build is then in `uncertain`, and the next resync
        // retries it.
        if (succeeded) this.#deps.idle(build)
        else if (isMissing) this.#deps.recordMissing(build)
        return
      }
      try {
        const accepted = await this.#write(build, batch)
        succeeded = true
        isMissing = false
        for (const { resolve } of accepted) resolve()
      } catch (error) {
        succeeded = false
        isMissing = FleetError.is(error, 'not-found')
        this.#uncertain.add(build)
        for (const { reject } of batch) reject(error)
      }
    }
  }

  #takePending(build: BuildEntry): PendingChange[] {
    const batch = this.#pending.get(build) ?? []
    this.#pending.delete(build)
    return batch
  }

  /** Returns the accepted changes. Changes that threw have already been rejected. */
  async #write(build: BuildEntry, batch: readonly PendingChange[]): Promise<readonly PendingChange[]> {
    let base = build.record
    let revision = build.revision
    let remaining = batch
    for (let attempt = 1; ; attempt++) {
      const { record, accepted } = apply(base, remaining)
      // A later attempt must not apply the rejected changes again.
      remaining = accepted
      if (record === base && revision === build.revision) return accepted
      try {
        this.#replace(build, record, await this.#store.builds.update(record, revision))
        return accepted
      } catch (error) {
        if (FleetError.is(error, 'not-found')) throw notFound(build, error)
        const current = await this.#store.builds.get(build.record)
        if (current === undefined || current.record.uid !== build.record.uid) throw notFound(build, error)
        if (JSON.stringify(current.record) === JSON.stringify(record)) {
          this.#replace(build, current.record, current.revision)
          return accepted
        }
        if (attempt >= maxAttempts) throw error
        base = current.record
        revision = current.revision
      }
    }
  }

  #replace(build: BuildEntry, record: Build, revision: string): void {
    this.#uncertain.delete(build)
    this.#inventory.replaceBuild(build, record, revision)
  }
}

function apply(
  base: Build,
  batch: readonly PendingChange[],
): { readonly record: Build; readonly accepted: PendingChange[] } {
  let record = base
  const accepted: PendingChange[] = []
  for (const item of batch) {
    try {
      record = item.change(record)
      accepted.push(item)
    } catch (error) {
      item.reject(error)
    }
  }
  return { record, accepted }
}

function notFound(build: BuildEntry, cause: unknown): FleetError {
  return new FleetError('not-found', `build ${build.record.namespace}/${build.record.name} does not exist`, { cause })
}
