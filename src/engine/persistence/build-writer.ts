/**
 * Changes a build's record: changes that come while a write is on its way are written together by the next one. A
 * change is a function of the record, so that it can be made again on what another writer has left.
 */
import { FleetError } from '../../contracts/errors.js'
import type { Build } from '../../rules/model/resources.js'
import type { Store } from '../../contracts/store.js'
import type { BuildEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'

export type BuildChange = (build: Build) => Build

export interface BuildWriter {
  /** Resolves when the change is durable and in force. Rejects with what the change threw, or with the store's error. */
  change(build: BuildEntry, change: BuildChange): Promise<void>
  /** Takes over what another writer has made of the record, past every host. False when the record is gone. */
  refresh(build: BuildEntry): Promise<boolean>
  /** Resolves when what is being written of it now is written, or has failed. */
  settled(build: BuildEntry): Promise<void>
  /** Nobody knows any more what the store holds of it. */
  markUncertain(build: BuildEntry): void
  /** Builds of which nobody knows what the store holds: a call failed, and so did reading it back. */
  readonly uncertain: ReadonlySet<BuildEntry>
}

interface Pending {
  readonly change: BuildChange
  resolve(): void
  reject(error: unknown): void
}

const mostAttempts = 5

export function buildWriter(
  store: Store,
  inventory: Inventory,
  changed: (build: BuildEntry, before: Build) => void,
  /** Something of it was written, and nothing is any more: whoever found it changing may have his turn. */
  over: (build: BuildEntry) => void,
  /** A write has found no record of it, and none is under way any more. */
  missing: (build: BuildEntry) => void,
): BuildWriter {
  const pending = new Map<BuildEntry, Pending[]>()
  const unsure = new Set<BuildEntry>()

  async function writeAll(build: BuildEntry): Promise<void> {
    let ok = false
    let isMissing = false
    for (;;) {
      const batch = take(build)
      if (batch.length === 0) {
        // In the tick in which nothing was left to take: a change that comes now starts a writer of its own.
        build.writing = false
        // After a failure that would be at once again: see `unsure`.
        if (ok) over(build)
        else if (isMissing) missing(build)
        return
      }
      try {
        const accepted = await write(build, batch)
        ok = true
        isMissing = false
        for (const { resolve } of accepted) resolve()
      } catch (error) {
        ok = false
        isMissing = FleetError.is(error, 'not-found')
        unsure.add(build)
        for (const { reject } of batch) reject(error)
      }
    }
  }

  function take(build: BuildEntry): Pending[] {
    const batch = pending.get(build) ?? []
    pending.delete(build)
    return batch
  }

  /** Returns the changes that were accepted; those that threw are rejected already. */
  async function write(build: BuildEntry, batch: readonly Pending[]): Promise<readonly Pending[]> {
    let base = build.record
    let revision = build.revision
    let left = batch
    for (let attempt = 1; ; attempt++) {
      const { record, accepted } = apply(base, left)
      // Who was told that a change is refused must not find it made by a later attempt.
      left = accepted
      if (record === base && revision === build.revision) return accepted
      try {
        put(build, record, await store.builds.update(record, revision))
        return accepted
      } catch (error) {
        if (FleetError.is(error, 'not-found')) throw notFound(build, error)
        const current = await store.builds.get(build.record)
        if (current === undefined || current.record.uid !== build.record.uid) throw notFound(build, error)
        if (JSON.stringify(current.record) === JSON.stringify(record)) {
          put(build, current.record, current.revision)
          return accepted
        }
        if (attempt >= mostAttempts) throw error
        base = current.record
        revision = current.revision
      }
    }
  }

  function put(build: BuildEntry, record: Build, revision: string): void {
    const before = build.record
    unsure.delete(build)
    inventory.replaceBuild(build, record, revision)
    changed(build, before)
  }

  return {
    uncertain: unsure,

    change(build, change) {
      return new Promise<void>((resolve, reject) => {
        const waiting = pending.get(build)
        const item = { change, resolve, reject }
        if (waiting) waiting.push(item)
        else pending.set(build, [item])
        if (build.writing) return
        build.writing = true
        void writeAll(build)
      })
    },

    async settled(build) {
      // A change of nothing: it waits its turn, and writes nothing. That of others is told to those who made it.
      if (build.writing) await this.change(build, (record) => record).catch(() => undefined)
    },

    async refresh(build) {
      const { revision } = build
      const current = await store.builds.get(build.record)
      // What this host writes meanwhile is newer, and finds out by itself.
      if (build.writing || build.revision !== revision) return true
      unsure.delete(build)
      if (build.deleted) return true
      if (current?.record.uid !== build.record.uid) return false
      if (current.revision !== revision) put(build, current.record, current.revision)
      return true
    },

    markUncertain(build) {
      unsure.add(build)
    },
  }
}

function apply(base: Build, batch: readonly Pending[]): { readonly record: Build; readonly accepted: Pending[] } {
  let record = base
  const accepted: Pending[] = []
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
