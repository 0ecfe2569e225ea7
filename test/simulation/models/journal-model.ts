/**
 * Models a store that keeps several allocations in a journal before the records show them, as the Kubernetes store does. The code that
 * uses the journal is the real one, brought by whoever runs the simulation. The model knows what is durable: a record with the entry that
 * the journal has for it.
 */
import { FleetError } from '../../../src/contracts/errors.js'
import type { Collection, StoreListener as WatchListener, Versioned } from '../../../src/contracts/store.js'
import { lastNumber } from '../../../src/rules/lifecycle/server-sessions.js'
import { keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { type CallObserver, HostCalls } from './host-calls.js'
import type { RemoteCallOptions } from './remote-call.js'
import type {
  EntryLike,
  Fields,
  HostJournal,
  JournalContent,
  JournalParts,
  StoredServer,
  TestedJournal,
} from './tested-journal.js'

/** The store around the journal. */
export interface JournalSurroundings extends Omit<CallObserver, 'listMs'> {
  /** The records with their entries. */
  readonly servers: Map<string, Versioned<Server>>
  nextRevision(): string
  /** A record was written or deleted, for watches. */
  changed(ref: Ref): void
  written(before: Server | undefined, after: Server, late: boolean): void
  removed(before: Server): void
}

/** As with many servers, or a slow API server: longer than an entry stays in the journal. */
const slowLists = [100, 1_500] as const

export class JournalModel {
  readonly objects = new Map<string, StoredServer>()
  readonly #world: World
  readonly #tested: TestedJournal
  readonly #store: JournalSurroundings
  readonly #minGroup: number
  /** Whether hosts act as if allocations never paused, so that statuses follow late. */
  readonly #isNeverQuiet: boolean
  readonly #listMs: readonly [number, number]
  #journal: (JournalContent & { readonly revision: string }) | undefined
  readonly #formerOwners = new Set<string>()

  constructor(world: World, tested: TestedJournal, store: JournalSurroundings) {
    this.#world = world
    this.#tested = tested
    this.#store = store
    this.#minGroup = world.oneOf([1, 1, 2]) ?? 1
    this.#isNeverQuiet = world.chance(0.7)
    this.#listMs = world.oneOf<readonly [number, number]>([[0, 5], slowLists, slowLists]) ?? slowLists
  }

  /** How long a list takes, in ms. */
  listMs(): number {
    return this.#world.between(...this.#listMs)
  }

  /** The servers as one host sees them, and the listener for its watch. */
  for(host: Host, options: RemoteCallOptions) {
    const calls = new HostCalls(this.#world, host, options, { ...this.#store, listMs: () => this.listMs() })
    const journal = this.#tested.open({
      clock: host.clock(),
      term: () => (host.leads && !host.closed ? host.terms : undefined),
      objects: this.#objects(calls),
      storage: this.#storage(calls),
      seen: (ref) => calls.seen.get(keyOf(ref)),
      quietMs: () => (this.#isNeverQuiet ? 0 : this.#world.elapsedMs - calls.lastUrgentMs),
      minGroup: this.#minGroup,
    })
    return { servers: this.#collection(calls, journal), watching: this.#watching(calls, journal) }
  }

  /** A label was changed. */
  touch(key: string): void {
    const found = this.objects.get(key)
    if (!found) return
    this.objects.set(key, { ...found, revision: this.#store.nextRevision() })
    this.#store.changed(found.record)
    this.#refresh(key, false)
  }

  /** The record was deleted by somebody else. */
  remove(key: string): void {
    this.objects.delete(key)
    this.#store.servers.delete(key)
  }

  /**
   * Somebody deletes the journal, or puts nonsense and old entries into it. Only when no entry is needed: what is lost together with its
   * leader cannot be restored. Returns what was done.
   */
  edit(): string | undefined {
    const entries = this.#tested.entriesIn(this.#journal?.entries ?? [])
    if (!this.#journal || entries.some((entry) => this.#isPending(entry))) return undefined
    if (this.#world.chance(0.5)) {
      this.#journal = undefined
      return 'deleted'
    }
    this.#journal = {
      ...this.#journal,
      entries: ['nonsense', ...this.#journal.entries],
      revision: this.#store.nextRevision(),
    }
    return 'edited'
  }

  #isPending(entry: EntryLike): boolean {
    const found = this.objects.get(keyOf(entry))
    return found !== undefined && this.#tested.isPending(entry, found)
  }

  /** Call after the record or the journal has changed. */
  #refresh(key: string, late: boolean): void {
    const { servers } = this.#store
    const found = this.objects.get(key)
    if (!found) return
    const entries = this.#tested.entriesIn(this.#journal?.entries ?? [])
    const entry = entries.find((each) => keyOf(each) === key && this.#isPending(each))
    const record = entry ? this.#tested.withStatus(found.record, entry.status) : found.record
    const before = servers.get(key)?.record
    servers.set(key, { record, revision: entry?.revision ?? found.revision })
    if (JSON.stringify(before) !== JSON.stringify(record)) this.#store.written(before, record, late)
  }

  #put(host: Host, record: Server, upon: string | undefined): StoredServer {
    const found = { record, uid: record.uid, upon, revision: this.#store.nextRevision() }
    const key = keyOf(record)
    this.objects.set(key, found)
    this.#store.changed(record)
    this.#refresh(key, !host.mayWrite)
    return found
  }

  /** Throws unless the record is at this revision. */
  #at(ref: Ref, revision: string): StoredServer {
    const found = this.objects.get(keyOf(ref))
    if (!found) throw new FleetError('not-found', `${keyOf(ref)} is gone`)
    if (found.revision === revision) return found
    throw new FleetError('conflict', `${keyOf(ref)} is at ${found.revision}, not ${revision}`)
  }

  #objects(calls: HostCalls): JournalParts['objects'] {
    return {
      read: (ref) => calls.read(() => this.objects.get(keyOf(ref))),
      write: async (ref, { status, at, upon, urgency }) => {
        if (urgency === 'players wait') calls.lastUrgentMs = this.#world.elapsedMs
        const fields: Fields = JSON.parse(JSON.stringify(status))
        const written = await calls.write(() => {
          const { record } = this.#at(ref, at)
          return this.#put(calls.host, this.#tested.withStatus(record, fields), upon)
        })
        return written.revision
      },
      remove: (ref, at) =>
        calls.change(() => {
          const key = keyOf(ref)
          if (!this.objects.has(key)) return
          this.#at(ref, at)
          const before = this.#store.servers.get(key)?.record
          this.remove(key)
          this.#store.changed(ref)
          if (before) this.#store.removed(before)
        }),
    }
  }

  #storage(calls: HostCalls): JournalParts['storage'] {
    return {
      read: () => calls.request(() => this.#journal),
      write: (content, revision) =>
        calls.change(() => {
          const current = this.#journal
          if (!current && revision !== undefined) throw new FleetError('not-found', 'the journal is gone')
          if (current?.revision !== revision) throw new FleetError('conflict', 'the journal has changed')
          this.#checkOwner(current?.owner, content.owner)
          this.#journal = { ...content, revision: this.#store.nextRevision() }
          const { host } = calls
          const lines = [...(current?.entries ?? []), ...content.entries]
          const keys = new Set(this.#tested.entriesIn(lines).map((entry) => keyOf(entry)))
          for (const key of keys) this.#refresh(key, !host.mayWrite)
          return this.#journal.revision
        }),
    }
  }

  /** Each term of a leader has an owner of its own. */
  #checkOwner(before: string | undefined, owner: string): void {
    if (this.#formerOwners.has(owner))
      this.#world.violate('the journal was written by a leader that another has followed')
    if (before !== undefined && before !== owner) this.#formerOwners.add(before)
  }

  #collection(calls: HostCalls, journal: HostJournal): Collection<Server> {
    const { objects } = this
    return {
      async get(ref) {
        await journal.settled(ref)
        const found = await calls.read(() => objects.get(keyOf(ref)))
        return found && journal.overlay(found)
      },
      async list() {
        await journal.takeOver()
        const all = await calls.list(() => [...objects.values()])
        return all.map((found) => journal.overlay(calls.receive(found)))
      },
      create: async (record) => {
        const upon = journal.mark('new')
        const written = await calls.write(() => {
          if (objects.has(keyOf(record))) throw new FleetError('conflict', `${keyOf(record)} exists`)
          return this.#put(calls.host, record, upon)
        })
        journal.created(record, written.revision)
        return written.revision
      },
      update: (record, revision) => {
        const seen = calls.seen.get(keyOf(record))?.record
        const isAllocation = lastNumber(record) > (seen ? lastNumber(seen) : 0)
        return journal.update({ record, status: this.#tested.statusOf(record), revision, isAllocation })
      },
      delete: (ref, revision) => journal.remove(ref, revision),
    }
  }

  #watching(calls: HostCalls, journal: HostJournal) {
    const overlaid = (found: Versioned<Server>) => (isStored(found) ? journal.overlay(calls.receive(found)) : found)
    return ({ builds, servers }: WatchListener): WatchListener => ({
      builds,
      servers: {
        listed: (all, namespace) => servers.listed(all.map(overlaid), namespace),
        changed: (found) => servers.changed(overlaid(found)),
        gone(ref) {
          journal.forget(ref)
          servers.gone(ref)
        },
      },
    })
  }
}

function isStored(found: Versioned<Server>): found is StoredServer {
  return 'upon' in found
}
