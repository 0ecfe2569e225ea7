/**
 * Stores servers as GameServer objects. An allocation is a single conditional status write, or one of many that are written together into
 * the journal: the hot path of the fleet.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Versioned } from '../../../src/contracts/store.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { lastNumber } from '../../../src/rules/lifecycle/sessions.js'
import { keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import { fieldsAt, textAt } from '../client/fields.js'
import { keyFor, type KubeObject, type OwnerReference, refOf, revisionOf } from '../client/kube-objects.js'
import type { BuildCollection } from './build-collection.js'
import { CustomCollection } from './custom-collection.js'
import type { CustomObjectsDependencies } from './custom-objects.js'
import type { StoredServer } from './journal/entry.js'
import { ServerJournal, type ServerJournalDependencies } from './journal/server-journal.js'
import type { StatusWrite } from './journal/status-writer.js'
import { type FleetResources, ownerReferenceTo } from './objects/custom-resources.js'
import { editedMetadata, type EditedMetadata } from './objects/edited-metadata.js'
import { lastNumberIn } from './objects/session-fields.js'
import {
  hasServerStatus,
  newServerObject,
  readEditedData,
  readServer,
  serverStatus,
  type TokenKey,
  withStatus,
} from './objects/server-object.js'
import { SpecRepair } from './spec-repair.js'

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

export type JournalOptions = Pick<
  ServerJournalDependencies,
  'clock' | 'logger' | 'storage' | 'term' | 'key' | 'warn' | 'minGroup'
>

export interface ServerCollectionOptions {
  readonly logger: Logger
  readonly journal: JournalOptions
  /** Called with a sentence about an edit of a server's metadata that cannot be applied. */
  readonly editRefused: (ref: Ref, message: string) => void
}

export class ServerCollection extends CustomCollection<Server> {
  readonly #resources: FleetResources
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
    let mark = (upon: string) => upon
    super(deps, {
      resource: resources.servers,
      read: (object) => readServer(object, encryption, resources.servers.group),
      create: (server) =>
        newServerObject(server, resources, encryption, builds.ownerByUid(server.namespace, server.buildUid)),
      initialStatus: (server, basedOn) =>
        hasServerStatus(server) ? { ...serverStatus(server), writtenUpon: mark(basedOn) } : undefined,
    })
    this.#resources = resources
    this.#editRefused = editRefused
    this.#specs = new SpecRepair({
      api: deps.api,
      objects: this.objects,
      logger,
      isGenuine: (spec) => encryption.isGenuine(textAt(spec, 'token') ?? '', textAt(spec, 'uid') ?? ''),
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
    mark = (upon) => this.#journal.mark(upon)
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
    try {
      // As a write of the status does: nothing is added to the journal while an entry waits for too long.
      return this.#stored(await this.objects.get(ref, undefined, { priority: true }))
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  #writeStatus(
    ref: Ref,
    { status, at, upon, urgency }: StatusWrite,
    options: CallOptions | undefined,
  ): Promise<string> {
    const revision = this.checkedRevision(at, ref)
    const next = { ...status, writtenUpon: upon }
    if (urgency === 'behind') return this.#writeUnseen(ref, revision, next)
    return this.putStatus(ref, revision, next, { ...options, priority: urgency === 'players wait' })
  }

  /** No caller needs the result, so it is left to the watch, which also reports metadata edited in the meantime. */
  async #writeUnseen(ref: Ref, revision: string, status: object): Promise<string> {
    return revisionOf(await this.objects.putStatus(ref, revision, status, { priority: true, unattended: true }))
  }

  /** Sets why a server is still Pending. Returns false if its status says so already. */
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
    const object = await this.objects.get(ref, undefined)
    const { message: shown, ...status } = fieldsAt(object, 'status')
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

  protected override observe(object: KubeObject): void {
    const key = keyFor(object)
    const cached = this.#cached.get(key)
    const revision = Number(revisionOf(object))
    if (cached && cached.revision >= revision) return
    const isSame = cached?.owner?.uid === object.metadata.uid
    const owner = isSame ? cached?.owner : ownerReferenceTo(this.#resources.servers, object)
    const uid = textAt(fieldsAt(object, 'spec'), 'uid')
    const status = fieldsAt(object, 'status')
    const message = isPending(object) ? textAt(status, 'message') : undefined
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
  return textAt(fieldsAt(object, 'status'), 'writtenUpon')
}

/** A new object has no status yet. */
function isPending(object: KubeObject): boolean {
  return (textAt(fieldsAt(object, 'status'), 'state') ?? 'Pending') === 'Pending'
}
