/** Read-only queries on inventory entries. */
import type { Build } from '../../rules/model/resources.js'
import type { BuildCounts } from '../../rules/model/status.js'
import { isAllocatable } from '../../rules/planning/allocation.js'
import type { Bucket, BuildEntry, ServerEntry } from './entries.js'

/** True if the server runs, or will run, the build's current template. */
export function isCurrent(entry: ServerEntry): boolean {
  return entry.record.templateHash === entry.build.templateHash
}

/** True while an operator is draining the build. */
export function isDraining(record: Build): boolean {
  return record.conditions.some((condition) => condition.type === 'Draining')
}

/** True if servers in this bucket can be allocated. */
export function isReady(bucket: Bucket): boolean {
  return bucket === 'ready' || bucket === 'outdatedReady'
}

/** True if the build has no servers. */
export function isEmpty(build: BuildEntry): boolean {
  return Object.values(build.buckets).every((bucket) => bucket.size === 0)
}

/** Returns the bucket that the entry belongs in. */
export function bucketOf(entry: ServerEntry): Bucket {
  const current = isCurrent(entry)
  switch (entry.record.state) {
    case 'Pending':
      return current ? 'pending' : 'outdatedPending'
    case 'Initializing':
      return current ? 'initializing' : 'outdatedInitializing'
    case 'StandingBy':
      if (entry.intent) return 'reserved'
      if (isAllocatable(entry.record)) return current ? 'ready' : 'outdatedReady'
      return current ? 'unready' : 'outdatedUnready'
    case 'Active':
      return 'active'
    case 'Terminating':
      return 'terminating'
  }
}

/** Counts the servers of a build by the state in their records. */
export function countsOf(build: BuildEntry): BuildCounts {
  const { buckets } = build
  return {
    pending: buckets.pending.size + buckets.outdatedPending.size,
    initializing: buckets.initializing.size + buckets.outdatedInitializing.size,
    standingBy:
      buckets.ready.size +
      buckets.unready.size +
      buckets.outdatedReady.size +
      buckets.outdatedUnready.size +
      buckets.reserved.size,
    active: buckets.active.size,
    terminating: buckets.terminating.size,
  }
}

export function* serversOf(build: BuildEntry): Generator<ServerEntry> {
  for (const bucket of Object.values(build.buckets)) yield* bucket
}

/**
 * Counts the servers that are not terminating, separately for the current template and earlier ones. Iterates over all
 * servers, so it must not be used on hot paths.
 */
export function generationsOf(build: BuildEntry): { readonly updated: number; readonly outdated: number } {
  let updated = 0
  let outdated = 0
  for (const entry of serversOf(build)) {
    if (entry.record.state === 'Terminating') continue
    if (isCurrent(entry)) updated++
    else outdated++
  }
  return { updated, outdated }
}
