/** Reads what the store holds when a term of leadership begins: builds and servers as their records say, oldest first. */
import { afterFailure } from '../../rules/lifecycle/backoff.js'
import { callsForPause, transition } from '../../rules/lifecycle/lifecycle.js'
import { type Build, keyOf, type Server } from '../../rules/model/resources.js'
import type { Versioned } from '../../contracts/store.js'
import { backoffLimits, type EngineContext } from '../context.js'
import { type BuildEntry, isCurrent, type ServerEntry } from '../state/entries.js'
import { needsProtection } from '../reconcile/server-actions.js'

export interface Loader {
  /** Rejects when the store cannot be read. */
  loadAll(): Promise<void>
  loadBuild(read: Versioned<Build>): BuildEntry
  loadServer(read: Versioned<Server>): ServerEntry
}

export function loader(ctx: EngineContext): Loader {
  const { store, clock, inventory } = ctx

  function loadBuild({ record, revision }: Versioned<Build>): BuildEntry {
    const build = inventory.addBuild(record, revision)
    // The pause itself is forgotten with the host that made it; a build that crashed lately begins with the shortest.
    if (record.conditions.some(({ type }) => type === 'Crashing')) {
      build.backoff = afterFailure(build.backoff, clock.elapsed(), backoffLimits(ctx))
      // Nobody knows any more which template it was: servers of the present one are trusted when they have stayed up.
      build.crashedTemplate = build.templateHash
    }
    return build
  }

  const leftBehind = new Map<string, BuildEntry>()

  function loadServer({ record, revision }: Versioned<Server>): ServerEntry {
    const entry = inventory.addServer(buildOf(record), record, revision)
    entry.standingBySince = elapsedAt(record.reachedStandingByOn)
    if (record.state === 'Active') entry.activeSince = elapsedAt(record.reachedActiveOn)
    entry.crashCounted = entry.build.record.countedCrashes.includes(record.uid)
    if (record.state === 'Terminating') {
      entry.terminatingSince = clock.elapsed()
      if (callsForPause(record) && isCurrent(entry)) {
        entry.build.crashedTemplate = entry.build.templateHash
      }
    } else if (entry.build.deleted) {
      const event = { type: 'end' as const, reason: 'BuildDeleted' as const, message: 'its build was deleted' }
      inventory.update(entry, transition(record, event, clock.now()))
    }
    const isUnfinished = record.state === 'Pending' || record.state === 'Terminating'
    if (isUnfinished || needsProtection(ctx, entry)) entry.build.needsAction.add(entry)
    return entry
  }

  /** By whatever the clock on the wall was then: nothing else outlives a host. */
  function elapsedAt(wallMs: number | undefined): number | undefined {
    return wallMs === undefined ? undefined : clock.elapsed() - Math.max(0, clock.now() - wallMs)
  }

  function buildOf(server: Server): BuildEntry {
    const build = inventory.builds.get(keyOf({ namespace: server.namespace, name: server.build }))
    if (build?.record.uid === server.buildUid) return build
    const known = leftBehind.get(server.buildUid)
    if (known) return known
    const deleted = inventory.addDeletedBuild(remains(server))
    leftBehind.set(server.buildUid, deleted)
    return deleted
  }

  async function loadAll(): Promise<void> {
    const [buildRecords, serverRecords, detailRecords] = await Promise.all([
      store.builds.list(),
      store.servers.list(),
      store.details.list(),
    ])
    const byAge = [...buildRecords].sort((a, b) => a.record.createdAt - b.record.createdAt)
    byAge.forEach(loadBuild)
    // Each list of the inventory is in the order of time, also across a restart: first ready, first handed out.
    const inOrder = [...serverRecords].sort((a, b) => since(a.record) - since(b.record))
    inOrder.forEach(loadServer)
    for (const { record, revision } of detailRecords) {
      const entry = inventory.servers.get(keyOf(record))
      if (!entry) {
        await store.details.delete(record, revision)
        continue
      }
      entry.players = record.players
      entry.detailRevision = revision
    }
  }

  return { loadAll, loadBuild, loadServer }
}

/** When it came into its present state. */
function since(server: Server): number {
  return server.reachedActiveOn ?? server.reachedStandingByOn ?? server.createdAt
}

/** What can still be said of a build whose record is gone: enough to end its servers. */
function remains(server: Server): Build {
  return {
    namespace: server.namespace,
    name: server.build,
    uid: server.buildUid,
    createdAt: server.createdAt,
    spec: { buildID: '', standingBy: 0, max: 0, portsToExpose: [], template: {} },
    crashes: 0,
    countedCrashes: [],
    conditions: [],
  }
}
