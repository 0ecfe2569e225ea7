/**
 * Owns the journal for one term of leadership. A leader takes it over before it reads servers: it reads the entries, and writes the journal,
 * so that no write of an earlier leader can succeed any more. Every write is conditional, and after one whose outcome is unknown the journal
 * is taken over again, which says what has become of it.
 */
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import { objectAt, stringAt, stringsAt } from '../../../../src/rules/validation/pod-template.js'
import { foundOrUndefined, statusOf } from '../../client/api-errors.js'
import type { KubernetesApi } from '../../client/api.js'
import { pathOf, type ResourceType, revisionOf, typeMetaOf } from '../../client/kube-objects.js'
import {
  isNewer,
  type JournalEntry,
  markedBy,
  openEntry,
  ownerFrom,
  ownerOf,
  type PendingEntries,
  sealEntry,
  sessionsIn,
} from './journal-entries.js'

export interface JournalDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly storage: JournalStorage
  /** Changes whenever this host becomes the leader. Undefined while it does not lead. */
  readonly term: () => number | undefined
  /** The key for the hashes of entries. Undefined while it is not known. */
  readonly key: () => Uint8Array | undefined
  /** Shows operators what is wrong with the journal. */
  readonly warn: (message: string) => void
}

/** `unsettled`: the outcome of the last write is not known. `lost`: another leader has taken the journal over. */
type State = 'unused' | 'owned' | 'unsettled' | 'lost'

const maxAttempts = 5
const nothing = () => {}

export class Journal {
  readonly #deps: JournalDependencies
  readonly #pending: PendingEntries
  // Ownership: who writes the journal. A host must find out that it is deposed before it overwrites what the next leader has answered.
  #state: State = 'unused'
  #term: number | undefined
  #owner = ''
  /** Owners that this host has followed. */
  readonly #former = new Set<string>()
  // Content: what the next write replaces.
  #revision: string | undefined
  /** Number of lines in the journal, as last written. */
  #written = 0
  /** Unknown outcomes: servers whose entries may or may not be in the journal. None of them is read or written before that is found out. */
  readonly #unknown = new Set<string>()
  /** The last of the calls, which run one after the other. Never rejects. */
  #last: Promise<void> = Promise.resolve()
  #hasWarned = false
  /** All callers share it: one after the other, each would wait for a timeout while the journal cannot be reached. */
  #settling: Promise<void> | undefined

  constructor(deps: JournalDependencies, pending: PendingEntries) {
    this.#deps = deps
    this.#pending = pending
  }

  get isOwned(): boolean {
    return this.#state === 'owned' && this.isCurrent
  }

  /** Whether this host leads, and has taken the journal over since it became the leader. */
  get isCurrent(): boolean {
    return this.#term !== undefined && this.#term === this.#deps.term()
  }

  /**
   * Who this host is in the journal. Undefined until it has taken the journal over: others would take what it writes for an earlier
   * leader's.
   */
  get owner(): string | undefined {
    return this.isCurrent && this.#state !== 'unused' ? this.#owner : undefined
  }

  /** Whether the outcome of a write of this host must be found out. */
  get isUnsettled(): boolean {
    return this.#state === 'unsettled' && this.isCurrent
  }

  /** Whether the journal contains entries that are not pending any more. */
  get hasRemains(): boolean {
    return this.isOwned && this.#written > this.#pending.size
  }

  /** Whether it is unknown if this server has an entry. */
  isUnknown(ref: Ref): boolean {
    return this.#unknown.size > 0 && this.#unknown.has(keyOf(ref))
  }

  /** Call before all servers are read. Rejects if the journal cannot be read, and if it may contain entries that are not known. */
  takeOver(): Promise<void> {
    return this.#inTurn(async () => {
      const term = this.#deps.term()
      if (term === undefined) return this.#readOnly()
      const isNew = term !== this.#term
      if (isNew) this.#begin(term)
      // A leader that does not know the journal gives the servers in it to other sessions.
      if (this.#state !== 'owned') await this.#claim(true, isNew)
    })
  }

  /**
   * Adds the entries. Resolves with those that were not added, for certain: all of them if one has waited since before the journal was
   * taken over, as its version may be known to others. Rejects if that is not known; the journal then counts as unsettled.
   */
  append(entries: readonly JournalEntry[]): Promise<ReadonlySet<JournalEntry>> {
    return this.#inTurn(async () => {
      const key = this.#deps.key()
      if (!this.isOwned || !key || entries.some(({ revision }) => !this.isMarked(revision))) return new Set(entries)
      const lines = entries.map((entry) => sealEntry(entry, key))
      try {
        await this.#write([...this.#lines(), ...lines])
      } catch (error) {
        return this.#afterFailure(entries, error)
      }
      for (const [i, entry] of entries.entries()) this.#pending.add(entry, lines[i] ?? '', this.#deps.clock.elapsed())
      return new Set()
    })
  }

  /** Finds out what has become of a write. Rejects if that is not possible now. */
  settle(): Promise<void> {
    this.#settling ??= this.#inTurn(async () => {
      if (this.isUnsettled) await this.#claim(false)
      else if (this.#unknown.size > 0) await this.#readUnknown()
      if (this.#unknown.size > 0) throw outcomeUnknown('this host does not lead any more')
    }).finally(() => (this.#settling = undefined))
    return this.#settling
  }

  /** Adds to a `writtenUpon` that this leader has written it. */
  mark(upon: string): string {
    const { owner } = this
    return owner === undefined ? upon : markedBy(owner, upon)
  }

  /** Whether this leader has written it. */
  isMarked(upon: string): boolean {
    return this.owner !== undefined && ownerOf(upon) === this.owner
  }

  /**
   * Call before a write of a server whose status says this. If another leader has written it, either this host has followed it and still
   * owns the journal, or has been deposed, maybe by several, and might overwrite an entry. Rejects with `not-leader` in the latter case.
   */
  async confirm(upon: string | undefined): Promise<void> {
    const owner = ownerOf(upon)
    if (owner === undefined || this.#state === 'unused') return
    if (owner === this.#owner || this.#former.has(owner)) return
    await this.#inTurn(async () => {
      if (this.#former.has(owner)) return
      const found = await this.#deps.storage.read()
      if (found && found.owner !== this.#owner) {
        // If somebody has edited the owner, this host leads, and knows all entries from then on.
        if (found.owner !== owner && this.isCurrent) await this.#claim(true)
        throw new FleetError('not-leader', 'another host has taken the journal of the fleet over')
      }
      this.#former.add(owner)
    })
  }

  /** Removes the entries that are not pending any more. */
  trim(): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.hasRemains) return
      try {
        await this.#write(this.#lines())
      } catch (error) {
        this.#state = 'unsettled'
        if (!isRefusal(error)) throw error
        await this.#claim(false)
      }
    })
  }

  #begin(term: number): void {
    this.#term = term
    this.#owner = ownerFrom(this.#deps.clock.randomBytes(8))
    this.#state = 'unused'
    this.#pending.clear()
    this.#former.clear()
    this.#unknown.clear()
  }

  /**
   * Makes the journal this host's, and the entries in it known. Without `force`, gives way to another leader. With it, becomes a new owner
   * if one has taken it over, since that one takes what the old owner has written for that of an earlier leader.
   */
  async #claim(force: boolean, isPatient = false): Promise<void> {
    const isMine = this.#state !== 'unused'
    for (let attempt = 1; ; attempt++) {
      try {
        const found = await this.#deps.storage.read(isPatient)
        const other = found && found.owner !== this.#owner ? found : undefined
        if (!force && other) return this.#giveUp(other)
        // If the write below fails, the old owner must not add entries.
        if (other && this.#state === 'owned') this.#state = 'lost'
        this.#adopt(found, isMine && !other)
        this.#revision = found?.revision
        const owner = isMine && other ? ownerFrom(this.#deps.clock.randomBytes(8)) : this.#owner
        await this.#write(this.#lines(), owner)
        this.#owner = owner
        this.#state = 'owned'
        if (other) this.#former.add(other.owner)
        this.#unknown.clear()
        return
      } catch (error) {
        if (isRefusal(error) && attempt < maxAttempts) continue
        if (isUnsupported(error) && !isMine) return this.#doWithout(error)
        throw error
      }
    }
  }

  /**
   * Another leader, or somebody with kubectl, has written the journal, so every earlier write of this host has taken effect or never will. The
   * journal's sessions are durable even if another host owns it.
   */
  #giveUp(found: StoredJournal): void {
    this.#state = 'lost'
    this.#learn(found, (entry) => this.isUnknown(entry))
    this.#unknown.clear()
    this.#deps.logger.warn(
      { owner: found.owner },
      'the journal has another owner, so each allocation is written by itself until it is taken over again',
    )
  }

  /** `wasMine`: whether nobody but this host should have written it. */
  #adopt(found: StoredJournal | undefined, wasMine: boolean): void {
    const { clock, key, logger, warn } = this.#deps
    const secret = key()
    if (!secret) throw new FleetError('unavailable', 'this host does not know the key of the fleet')
    const known = new Set(found?.entries)
    const missing = [...this.#pending.all()].filter(({ line }) => !known.has(line))
    if (wasMine && missing.length > 0) {
      logger.warn({ sessions: sessionsIn(missing.map(({ entry }) => entry)) }, 'entries of the journal restored')
      if (!this.#hasWarned) warn('The journal was edited or deleted while it was in use. It has been restored.')
      this.#hasWarned = true
    }
    const damaged: string[] = []
    for (const line of known) {
      const entry = openEntry(line, secret)
      if (!entry) damaged.push(line)
      else if (isNewer(entry, this.#pending.get(entry)?.entry)) this.#pending.add(entry, line, clock.elapsed())
    }
    if (damaged.length === 0) return
    logger.error({ entries: damaged }, 'entries of the journal are not genuine; they are left out')
    warn(
      `${damaged.length} entries of the journal were edited, and are left out. Sessions that were allocated within the second before the last leader ended may be missing.`,
    )
  }

  /** A host that does not lead by the Lease must not write the journal. It sees the entries in place of statuses. */
  async #readOnly(): Promise<void> {
    if (!this.#deps.key()) return
    try {
      this.#learn(await this.#deps.storage.read(), () => true)
    } catch (error) {
      if (!isUnsupported(error)) throw error
    }
  }

  #learn(found: StoredJournal | undefined, isWanted: (entry: JournalEntry) => boolean): void {
    const { clock, key } = this.#deps
    const secret = key()
    for (const line of (secret && found?.entries) ?? []) {
      const entry = secret && openEntry(line, secret)
      if (entry && isWanted(entry)) this.#pending.add(entry, line, clock.elapsed())
    }
  }

  /** While this host does not lead: its last write is still on its way until the next leader has taken the journal over. */
  async #readUnknown(): Promise<void> {
    const found = await this.#deps.storage.read()
    if (found && found.owner !== this.#owner) this.#giveUp(found)
  }

  #doWithout(error: unknown): void {
    this.#state = 'unused'
    this.#deps.logger.warn(
      { err: error },
      'cannot use a journal, so each allocation is written by itself: install the definition of GameServerJournal, and grant `get`, `create` and `update` on gameserverjournals',
    )
  }

  /** Resolves with the entries that are certainly not in the journal. */
  async #afterFailure(entries: readonly JournalEntry[], error: unknown): Promise<ReadonlySet<JournalEntry>> {
    this.#state = 'unsettled'
    if (!hasNoEffect(error)) for (const entry of entries) this.#unknown.add(keyOf(entry))
    // If this fails, it is found out later, before any of these servers is read or written.
    await this.#claim(false).catch(nothing)
    if (entries.some((entry) => this.isUnknown(entry))) throw outcomeUnknown(error)
    return new Set(entries.filter((entry) => this.#pending.get(entry)?.entry.revision !== entry.revision))
  }

  async #write(entries: readonly string[], owner = this.#owner): Promise<void> {
    this.#revision = await this.#deps.storage.write({ owner, entries }, this.#revision)
    this.#written = entries.length
  }

  #lines(): readonly string[] {
    return Array.from(this.#pending.all(), ({ line }) => line)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.then(nothing, nothing)
    return result
  }
}

/** The write has had no effect and never will. */
function isRefusal(error: unknown): boolean {
  return (['conflict', 'not-found', 'not-leader', 'closed'] as const).some((code) => FleetError.is(error, code))
}

/** The API server has refused it, so it is not on its way any more. */
function hasNoEffect(error: unknown): boolean {
  const status = statusOf(error)
  return isRefusal(error) || (status !== undefined && status >= 400 && status < 500 && status !== 408)
}

function outcomeUnknown(cause: unknown): FleetError {
  return new FleetError('unavailable', 'it is not known yet whether the journal contains the session', { cause })
}

/** Whether the host cannot use a journal: its definition is not installed, the host may not access it, or a policy refuses it. */
function isUnsupported(error: unknown): boolean {
  const status = statusOf(error)
  return status !== undefined && [400, 403, 404, 405, 422].includes(status)
}

export interface JournalContent {
  /** Which term of which leader has written it last. */
  readonly owner: string
  /** One line for each entry. */
  readonly entries: readonly string[]
}

interface StoredJournal extends JournalContent {
  readonly revision: string
}

export interface JournalStorage {
  /** Undefined if there is no journal. `isPatient`: a host that may not read it asks again for 3 s. */
  read(isPatient?: boolean): Promise<StoredJournal | undefined>
  /**
   * Replaces the journal at this revision, or creates it, and resolves with the new revision. Rejects with `conflict` or `not-found` if it
   * has changed. After any other rejection, the outcome is unknown.
   */
  write(content: JournalContent, revision: string | undefined): Promise<string>
}

interface JournalObjectDependencies {
  readonly api: Pick<KubernetesApi, 'object' | 'pause'>
  readonly resource: ResourceType
  readonly namespace: string
  readonly name: string
}

/** Pauses before a patient host asks again. An API server that has just started may forbid for a moment what the roles allow. */
const forbiddenPausesMs = [250, 500, 1_000, 1_500]

/** Reads and writes the GameServerJournal of a fleet, in its system namespace. */
export class JournalObject implements JournalStorage {
  readonly #deps: JournalObjectDependencies

  constructor(deps: JournalObjectDependencies) {
    this.#deps = deps
  }

  async read(isPatient = false): Promise<StoredJournal | undefined> {
    for (const ms of isPatient ? forbiddenPausesMs : []) {
      try {
        return await this.#read()
      } catch (error) {
        if (statusOf(error) !== 403) throw error
      }
      await this.#deps.api.pause(ms)
    }
    return this.#read()
  }

  async #read(): Promise<StoredJournal | undefined> {
    const { api, resource, namespace, name } = this.#deps
    const path = pathOf(resource, { namespace, name })
    const call = { what: `get ${this.#what}`, method: 'GET', path, priority: true } as const
    const object = await foundOrUndefined(api.object(call))
    if (!object) return undefined
    const spec = objectAt(object, 'spec')
    return { revision: revisionOf(object), owner: stringAt(spec, 'owner') ?? '', entries: stringsAt(spec, 'entries') }
  }

  async write({ owner, entries }: JournalContent, revision: string | undefined): Promise<string> {
    const { api, resource, namespace, name } = this.#deps
    const isNew = revision === undefined
    const object = await api.object({
      what: `${isNew ? 'create' : 'update'} ${this.#what}`,
      method: isNew ? 'POST' : 'PUT',
      path: pathOf(resource, isNew ? { namespace } : { namespace, name }),
      body: {
        ...typeMetaOf(resource),
        metadata: { namespace, name, ...(!isNew && { resourceVersion: revision }) },
        // Without the number, a write that changes nothing would get no new revision.
        spec: { owner, entries, writtenUpon: revision },
      },
      priority: true,
    })
    return revisionOf(object)
  }

  get #what(): string {
    const { resource, namespace, name } = this.#deps
    return `${resource.kind} ${namespace}/${name}`
  }
}
