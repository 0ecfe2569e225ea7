/** Loads records from the store into the inventory. When a leadership term begins, loads all of them. */
import type { Versioned } from '../../contracts/store.js'
import { afterFailure } from '../../rules/lifecycle/backoff.js'
import { needsBackoff, transition } from '../../rules/lifecycle/lifecycle.js'
import { type Build, keyOf, type Server } from '../../rules/model/resources.js'
import { backoffLimits, type EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { isCurrent, needsProtectionChange } from '../state/queries.js'

export interface LoaderDependencies {
  /** Called for each server that was loaded. */
  readonly loaded: (entry: ServerEntry) => void
}

export class Loader {
  readonly #ctx: EngineContext
  readonly #deps: LoaderDependencies
  /** Builds whose record has been deleted but that still have servers, by uid. */
  readonly #deletedBuilds = new Map<string, BuildEntry>()

  constructor(ctx: EngineContext, deps: LoaderDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Loads all records. Rejects if the store cannot be read. */
  async loadAll(): Promise<void> {
    const { store, inventory } = this.#ctx
    const [buildRecords, serverRecords, detailRecords] = await Promise.all([
      store.builds.list(),
      store.servers.list(),
      store.details.list(),
    ])
    const byAge = [...buildRecords].sort((a, b) => a.record.createdAt - b.record.createdAt)
    for (const build of byAge) this.loadBuild(build)
    // Load servers in the order in which they entered their state, so that the inventory's lists stay in time order across
    // restarts and the server that has been standing by longest is allocated first.
    const inOrder = [...serverRecords].sort((a, b) => stateSince(a.record) - stateSince(b.record))
    for (const server of inOrder) this.loadServer(server)
    for (const { record, revision } of detailRecords) {
      const entry = inventory.servers.get(keyOf(record))
      if (!entry) {
        await store.details.delete(record, revision)
        continue
      }
      inventory.setPlayers(entry, record.players)
      entry.detailRevision = revision
      // A server has a detail once its game has reported a player. If the game has ended sessions, that may have been in one of them, but
      // a session that had players must never end for lack of them. One that is yet to come had none.
      entry.hadPlayers = entry.record.state === 'Active'
    }
  }

  loadBuild({ record, revision }: Versioned<Build>): BuildEntry {
    const build = this.#ctx.inventory.addBuild(record, revision)
    // The back-off is not stored, so a build that crashed recently starts again with the shortest back-off.
    if (record.conditions.some(({ type }) => type === 'Crashing')) {
      build.backoff = afterFailure(build.backoff, this.#ctx.clock.elapsed(), backoffLimits(this.#ctx))
      // Which template crashed is not stored either, so assume that it was the current one until its servers stay up.
      build.crashedTemplate = build.templateHash
    }
    const disappearing = record.conditions.find(({ type }) => type === 'Disappearing')
    if (disappearing) {
      const limits = backoffLimits(this.#ctx)
      build.backoff = afterFailure(build.backoff, this.#ctx.clock.elapsed(), limits)
      build.disappearing = disappearing
      build.losses = { since: disappearing.since, until: this.#ctx.clock.now() + limits.initialMs + limits.resetMs }
    }
    return build
  }

  loadServer({ record, revision }: Versioned<Server>): ServerEntry {
    const { clock, inventory } = this.#ctx
    const entry = inventory.addServer(this.#findOrAddBuild(record), record, revision)
    entry.standingBySince = this.#elapsedAt(record.reachedStandingByOn)
    if (record.state === 'Active') entry.activeSince = this.#elapsedAt(record.reachedActiveOn)
    // An earlier leader has protected it for its last session, and may not have taken that back.
    entry.isProtected = record.state === 'StandingBy' && record.startedSessions !== undefined
    entry.crashCounted = entry.build.record.countedCrashes.includes(record.uid)
    if (record.state === 'Terminating') {
      if (needsBackoff(record) && isCurrent(entry)) {
        entry.build.crashedTemplate = entry.build.templateHash
      }
      // The leader before this one had its port freed. If this one did not count that, it would give up another server.
      if (givesUpPort(record)) entry.build.freedPorts++
    } else if (entry.build.deleted) {
      const event = { type: 'end' as const, reason: 'BuildDeleted' as const, message: 'its build was deleted' }
      inventory.update(entry, transition(record, event, clock.now()))
    }
    const isUnfinished = record.state === 'Pending' || record.state === 'Terminating'
    if (isUnfinished || needsProtectionChange(this.#ctx, entry)) entry.build.needsAction.add(entry)
    this.#deps.loaded(entry)
    return entry
  }

  /**
   * Converts wall-clock time to elapsed time. Records contain only wall-clock times, because elapsed time does not survive a
   * restart.
   */
  #elapsedAt(wallMs: number | undefined): number | undefined {
    const { clock } = this.#ctx
    return wallMs === undefined ? undefined : clock.elapsed() - Math.max(0, clock.now() - wallMs)
  }

  #findOrAddBuild(server: Server): BuildEntry {
    const { inventory } = this.#ctx
    const build = inventory.builds.get(keyOf({ namespace: server.namespace, name: server.build }))
    if (build?.record.uid === server.buildUid) return build
    const existing = this.#deletedBuilds.get(server.buildUid)
    if (existing) return existing
    const deleted = inventory.addDeletedBuild(placeholderBuild(server))
    this.#deletedBuilds.set(server.buildUid, deleted)
    return deleted
  }
}

/** Whether a rolling update ended this server, which was running, for the port of a new one. */
function givesUpPort({ ending, ports = [] }: Server): boolean {
  return ports.length > 0 && (ending?.reason === 'Replaced' || ending?.reason === 'Late')
}

/** Returns the time at which the server entered its current state. */
function stateSince(server: Server): number {
  return server.reachedActiveOn ?? server.reachedStandingByOn ?? server.createdAt
}

/** Creates a placeholder for a build whose record has been deleted or lost and that still has servers. */
export function placeholderBuild(server: Server): Build {
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
