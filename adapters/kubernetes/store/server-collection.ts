/**
 * Stores servers as GameServer objects, and their details as GameServerDetail objects. An allocation is a single conditional status write, or
 * one of many that are written together into the journal: the hot path of the fleet.
 */
import { isDeepStrictEqual } from 'node:util'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Versioned } from '../../../src/contracts/store.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { lastNumber } from '../../../src/rules/lifecycle/server-sessions.js'
import { type Detail, keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import { type Fields, objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { foundOrUndefined } from '../client/api-errors.js'
import type { ObjectApi } from '../client/api.js'
import { keyFor, type KubeObject, type OwnerReference, refOf, revisionOf } from '../client/kube-objects.js'
import type { BuildCollection } from './build-collection.js'
import {
  CustomCollection,
  type CustomObjects,
  type CustomObjectsDependencies,
  type FleetResources,
  ownerReferenceTo,
} from './custom-collection.js'
import type { StoredServer } from './journal/journal-entries.js'
import { ServerJournal, type ServerJournalDependencies } from './journal/server-journal.js'
import type { StatusWrite } from './journal/status-writer.js'
import {
  detailSpec,
  editedMetadata,
  type EditedMetadata,
  hasServerStatus,
  lastNumberIn,
  newDetailObject,
  newServerObject,
  readDetail,
  readEditedData,
  readServer,
  serverStatus,
  type TokenKey,
  withStatus,
} from './server-object.js'

interface CachedServer {
  /** The record's uid. */
  readonly uid: string | undefined
  readonly owner: OwnerReference | undefined
  /** The highest number of a session that it has or had. */
  readonly lastNumber: number
  /** Why it is Pending, as its status says. */
  readonly message: string | undefined
  /** Labels and annotations that people have edited, which the data of this revision include. */
  readonly edited: EditedMetadata | undefined
  readonly revision: number
  /** The revision that its status replaced. */
  readonly upon: string | undefined
}

type JournalOptions = Pick<
  ServerJournalDependencies,
  'clock' | 'logger' | 'storage' | 'term' | 'key' | 'warn' | 'minGroup'
>

interface ServerCollectionOptions {
  readonly logger: Logger
  readonly journal: JournalOptions
  /** Called with a sentence about an edit of a server's metadata that cannot be applied. */
  readonly editRefused: (ref: Ref, message: string) => void
}

export class ServerCollection extends CustomCollection<Server> {
  readonly #resources: FleetResources
  readonly #encryption: TokenKey
  readonly #builds: Pick<BuildCollection, 'ownerByUid'>
  readonly #cached = new Map<string, CachedServer>()
  readonly #specs: SpecRepair
  readonly #journal: ServerJournal
  /** Why servers are still Pending. A write of a record replaces the whole status, so it includes this. */
  readonly #messages = new Map<string, string>()
  /** Edits that are not possible, by key, so that each is reported once. */
  readonly #refused = new Map<string, string>()
  readonly #editRefused: (ref: Ref, refused: string) => void

  constructor(
    deps: CustomObjectsDependencies,
    resources: FleetResources,
    encryption: TokenKey,
    builds: Pick<BuildCollection, 'ownerByUid'>,
    { logger, editRefused, journal }: ServerCollectionOptions,
  ) {
    super(deps, resources.servers)
    this.#resources = resources
    this.#editRefused = editRefused
    this.#specs = new SpecRepair({
      api: deps.api,
      objects: this.objects,
      logger,
      isGenuine: (spec) => encryption.isGenuine(stringAt(spec, 'token') ?? '', stringAt(spec, 'uid') ?? ''),
    })
    this.#journal = new ServerJournal({
      ...journal,
      objects: {
        read: (ref) => this.#readObject(ref),
        write: (ref, write, options) => this.#writeStatus(ref, write, options),
        remove: (ref, at, options) => super.delete(ref, at, options),
      },
      withStatus,
      quietMs: () => deps.api.priorityPauseMs,
      connections: deps.api.connections,
      seen: (ref) => {
        const cached = this.#cached.get(keyOf(ref))
        if (cached?.owner === undefined) return undefined
        return { uid: cached.owner.uid, revision: String(cached.revision), upon: cached.upon }
      },
    })
    this.#encryption = encryption
    this.#builds = builds
  }

  /**
   * Owner reference for objects that belong to the server. Undefined if this host has not seen the server's object, or if the
   * object has a different uid.
   */
  owner(ref: Ref, uid?: string): OwnerReference | undefined {
    const cached = this.#cached.get(keyOf(ref))
    return uid === undefined || cached?.uid === uid ? cached?.owner : undefined
  }

  /** A server's spec contains only its identity, which never changes, so a single status write is enough. */
  async update(record: Server, revision: string, options?: CallOptions): Promise<string> {
    const known = this.#cached.get(keyOf(record))
    const entry = this.#journal.statusOf(record)
    // Only allocations get priority, because players are waiting for them.
    const isAllocation = lastNumber(record) > (entry ? lastNumberIn(entry) : (known?.lastNumber ?? 0))
    if (record.state !== 'Pending') this.#messages.delete(keyOf(record))
    const message = this.#messages.get(keyOf(record))
    // The write succeeds only if the metadata are still those of the revision that it replaces.
    const { appliedMetadata } = entry ?? { appliedMetadata: known?.edited }
    const status = {
      ...serverStatus(record),
      ...(message !== undefined && { message }),
      ...(appliedMetadata !== undefined && { appliedMetadata }),
    }
    return this.#journal.update({ record, status, revision, isAllocation }, options)
  }

  override async get(ref: Ref, options?: CallOptions): Promise<Versioned<Server> | undefined> {
    await this.#journal.settled(ref)
    return super.get(ref, options)
  }

  /** What an earlier leader has written into the journal is read first. */
  override async list(options?: CallOptions): Promise<readonly Versioned<Server>[]> {
    await this.#journal.takeOver()
    return super.list(options)
  }

  override async create(record: Server, options?: CallOptions): Promise<string> {
    const { owner } = this.#journal
    const revision = await super.create(record, options)
    if (this.#journal.owner === owner && hasServerStatus(record)) this.#journal.created(record, revision)
    return revision
  }

  override delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    return this.#journal.remove(ref, revision, options)
  }

  /** Brings the statuses of all servers up to date. Resolves when that is done, or has failed once. */
  flush(): Promise<void> {
    return this.#journal.flush()
  }

  close(): void {
    this.#journal.close()
  }

  async #readObject(ref: Ref): Promise<StoredServer | undefined> {
    // With priority, as a write of the status: nothing is added to the journal while an entry waits for too long.
    const object = await foundOrUndefined(this.objects.get(ref, { priority: true }))
    return object && this.#stored(object)
  }

  async #writeStatus(
    ref: Ref,
    { status, at, upon, urgency }: StatusWrite,
    options: CallOptions | undefined,
  ): Promise<string> {
    const revision = this.checkedRevision(at, ref)
    const next = { ...status, writtenUpon: upon }
    if (urgency !== 'behind') {
      return this.putStatus(ref, revision, next, { ...options, priority: urgency === 'players wait' })
    }
    // No caller needs the result, so it is left to the watch, which also reports metadata edited in the meantime.
    return revisionOf(await this.objects.putStatus(ref, revision, next, { priority: true, unattended: true }))
  }

  /** Sets why a server is still Pending; every write of its record includes it. Returns false if its status says so already. */
  setMessage(ref: Ref, message: string | undefined): boolean {
    const key = keyOf(ref)
    if (message === undefined) this.#messages.delete(key)
    else this.#messages.set(key, message)
    return this.#cached.get(key)?.message !== message
  }

  /**
   * Shows in `kubectl describe` why the server is still Pending, or no longer. The watch reports the new revision. Rejects with `conflict`
   * if the server is written meanwhile.
   */
  async writeMessage(ref: Ref): Promise<void> {
    const key = keyOf(ref)
    // A server that has started shows none, so there is nothing to read.
    if (this.#cached.get(key)?.message === this.#messages.get(key)) return
    const object = await this.objects.get(ref)
    const { message: shown, ...status } = objectAt(object, 'status')
    const message = this.#messages.get(key)
    if (!isPending(object) || shown === message) return
    await this.objects.putStatus(ref, revisionOf(object), { ...status, state: 'Pending', message })
    const cached = this.#cached.get(key)
    if (cached) this.#cached.set(key, { ...cached, message })
  }

  /** Call when this host no longer says why servers are Pending. */
  forgetMessages(): void {
    this.#messages.clear()
  }

  override versioned(object: KubeObject): Versioned<Server> | undefined {
    const stored = this.#stored(object)
    return stored && this.#journal.overlay(stored)
  }

  /** What the object says, without the journal. */
  #stored(object: KubeObject): StoredServer | undefined {
    const found = super.versioned(this.#specs.withOriginalSpec(object))
    return found && { ...found, uid: object.metadata.uid ?? '', upon: uponIn(object) }
  }

  override isUnseen(object: KubeObject): boolean {
    const cached = this.#cached.get(keyFor(object))
    return cached === undefined || Number(revisionOf(object)) > cached.revision
  }

  override forgetAll(): void {
    this.#cached.clear()
    this.#journal.forgetAll()
    this.#specs.forgetAll()
  }

  override forget(ref: Ref, last?: KubeObject): void {
    const cached = this.#cached.get(keyOf(ref))
    // A new server with that name already exists.
    if (cached && last && cached.revision > Number(revisionOf(last))) return
    this.#cached.delete(keyOf(ref))
    this.#journal.forget(ref)
    this.#messages.delete(keyOf(ref))
    this.#refused.delete(keyOf(ref))
    this.#specs.forget(keyOf(ref))
  }

  protected read(object: KubeObject): Server | undefined {
    return readServer(object, this.#encryption, this.#resources.servers.group)
  }

  protected newObject(server: Server): object {
    const owner = this.#builds.ownerByUid(server.namespace, server.buildUid)
    return newServerObject(server, this.#resources, this.#encryption, owner)
  }

  protected override initialStatus(server: Server, basedOn: string): object | undefined {
    return hasServerStatus(server) ? { ...serverStatus(server), writtenUpon: this.#journal.mark(basedOn) } : undefined
  }

  protected override observe(object: KubeObject): void {
    const key = keyFor(object)
    const cached = this.#cached.get(key)
    const revision = Number(revisionOf(object))
    if (cached && cached.revision >= revision) return
    const isSame = cached?.owner?.uid === object.metadata.uid
    const owner = isSame ? cached?.owner : ownerReferenceTo(this.#resources.servers, object)
    const uid = stringAt(objectAt(object, 'spec'), 'uid')
    const status = objectAt(object, 'status')
    const message = isPending(object) ? stringAt(status, 'message') : undefined
    const edited = editedMetadata(object, this.#resources.servers.group)
    const shown = { message, edited, lastNumber: lastNumberIn(status) }
    this.#cached.set(key, { uid, owner, ...shown, revision, upon: uponIn(object) })
    if (edited) this.#reportRefused(object)
  }

  #reportRefused(object: KubeObject): void {
    const key = keyFor(object)
    const { refused } = readEditedData(object, this.#resources.servers.group)
    const message = refused.join('; ')
    if (message === '' || this.#refused.get(key) === message) return
    this.#refused.set(key, message)
    this.#editRefused(refOf(object), message)
  }
}

function uponIn(object: KubeObject): string | undefined {
  return stringAt(objectAt(object, 'status'), 'writtenUpon')
}

/** A new object has no status yet. */
function isPending(object: KubeObject): boolean {
  return (stringAt(objectAt(object, 'status'), 'state') ?? 'Pending') === 'Pending'
}

/** Stores details as GameServerDetail objects. */
export class DetailCollection extends CustomCollection<Detail> {
  readonly #resources: FleetResources
  readonly #servers: ServerCollection

  constructor(deps: CustomObjectsDependencies, resources: FleetResources, servers: ServerCollection) {
    super(deps, resources.details)
    this.#resources = resources
    this.#servers = servers
  }

  protected read(object: KubeObject): Detail | undefined {
    return readDetail(object)
  }

  protected newObject(detail: Detail): object {
    return newDetailObject(detail, this.#resources, this.#servers.owner(detail))
  }

  async update(record: Detail, revision: string, options?: CallOptions): Promise<string> {
    const basedOn = this.checkedRevision(revision, record)
    return this.patchSpec(record, basedOn, detailSpec(record, basedOn), options)
  }
}

interface KnownSpec {
  readonly objectUid: string | undefined
  spec: Fields
  /** Number of repairs. */
  repairs: number
  /** The object as last seen with another spec. */
  edited: KubeObject | undefined
  isRepairing: boolean
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }

interface SpecRepairDependencies {
  readonly api: ObjectApi
  readonly objects: CustomObjects
  readonly logger: Logger
  /** Whether the fleet has made this token for this uid. */
  readonly isGenuine: (spec: Fields) => boolean
}

/**
 * Restores the spec of servers if someone edited it. A spec is the server's identity and never changes: with another uid, a match would
 * be another server. Every reader gets the original meanwhile.
 */
export class SpecRepair {
  readonly #deps: SpecRepairDependencies
  readonly #known = new Map<string, KnownSpec>()

  constructor(deps: SpecRepairDependencies) {
    this.#deps = deps
  }

  /**
   * Returns the object with the spec that it was first seen with. If it has another one, the first is restored in the background, unless it
   * had been edited before this host saw it and somebody has put it right.
   */
  withOriginalSpec(object: KubeObject): KubeObject {
    const key = keyFor(object)
    const { uid } = object.metadata
    const known = this.#known.get(key)
    if (known === undefined || known.objectUid !== uid) {
      const spec = objectAt(object, 'spec')
      this.#known.set(key, { objectUid: uid, spec, repairs: 0, edited: undefined, isRepairing: false })
      return object
    }
    const spec = objectAt(object, 'spec')
    const { isGenuine } = this.#deps
    if (isGenuine(spec) && !isGenuine(known.spec)) known.spec = spec
    const isOriginal = isDeepStrictEqual(spec, known.spec)
    known.edited = isOriginal ? undefined : object
    if (isOriginal) return object
    if (!known.isRepairing) void this.#repair(key, known)
    return { ...object, spec: known.spec }
  }

  forget(key: string): void {
    this.#known.delete(key)
  }

  forgetAll(): void {
    this.#known.clear()
  }

  /** Never rejects. Only the leader may write; another host leaves it to the leader. */
  async #repair(key: string, known: KnownSpec): Promise<void> {
    const { api, logger, objects } = this.#deps
    known.isRepairing = true
    for (let attempt = known.repairs; known.edited && this.#known.get(key) === known && !api.closed; attempt++) {
      // Back off if something keeps changing it.
      if (attempt > 0) await api.pause(pauseMs(attempt, retryLimits))
      const { edited } = known
      if (!edited) break
      try {
        await objects.patchSpec(refOf(edited), revisionOf(edited), known.spec, undefined)
        known.repairs++
        logger.warn({ server: key }, 'the spec of a GameServer was edited; restored')
        if (known.edited === edited) known.edited = undefined
      } catch (error) {
        // The watch reports what has been written meanwhile.
        if (FleetError.is(error, 'not-found') || FleetError.is(error, 'not-leader')) break
      }
    }
    known.isRepairing = false
  }
}
