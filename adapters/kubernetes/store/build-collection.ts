/**
 * Builds as GameServerBuild objects. What people ask for is in the spec and what hosts know in the status, which are written
 * apart; and so are the figures for people, which change often and must not be taken for a change of the record.
 */
import { isDeepStrictEqual } from 'node:util'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { type Build, type BuildSpec, keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { Versioned } from '../../../src/contracts/store.js'
import { type BuildFigures, buildStatus, newBuildObject, readBuild } from './build-object.js'
import { type CollectionDependencies, CustomCollection, wholeOrUnknown } from './custom-collection.js'
import { fieldsAt, type FleetResources, textAt } from './custom-resources.js'
import { keyFor, type KubeObject, type OwnerReference, pathOf, revisionOf } from '../client/kube-objects.js'
import { ownerOf } from './owner-references.js'

interface Known {
  readonly record: Build
  /** Of the object. */
  readonly actual: string
  /** What the record's revision is called: older than `actual` when only figures were written since. */
  readonly shown: string
  readonly owner: OwnerReference | undefined
  /** Its status has said who it is: that never changes, whatever somebody makes of the status. */
  readonly isTold: boolean
}

export class BuildCollection extends CustomCollection<Build> {
  readonly #parts: CollectionDependencies
  readonly #resources: FleetResources
  readonly #known = new Map<string, Known>()
  readonly #figures = new Map<string, BuildFigures>()
  /** Records of which nobody knows yet that their status says who they are. */
  readonly #made = new Map<string, Build>()
  /** Uids that servers know builds by whose status does not say it any more, by the uid of the object. */
  readonly #toldByServers = new Map<string, string>()
  /** By namespace and uid of the record. Those that are gone as well: what is made for one yet must go at once. */
  readonly #owners = new Map<string, OwnerReference>()

  constructor(parts: CollectionDependencies, resources: FleetResources) {
    super(parts, {
      resource: resources.builds,
      read: (object) => readBuild(object, resources, this.#made.get(keyFor(object))),
      create: (build) => newBuildObject(build, resources),
      rest: (build, upon) => buildStatus(build, {}, upon),
    })
    this.#parts = parts
    this.#resources = resources
  }

  /** The object of that name. Undefined when none is there, or it was not seen. */
  owner(ref: Ref): OwnerReference | undefined {
    return this.#known.get(keyOf(ref))?.owner
  }

  /** For what this very build has: it goes when the build does. Undefined when it never was seen. */
  ownerByUid(namespace: string, uid: string): OwnerReference | undefined {
    return this.#owners.get(ownerKey(namespace, uid))
  }

  override async create(record: Build, options?: CallOptions): Promise<string> {
    const key = keyOf(record)
    this.#made.set(key, record)
    try {
      const revision = await super.create(record, options)
      const known = this.#known.get(key)
      if (known) this.#written(key, { ...known, isTold: true }, record, revision)
      this.#made.delete(key)
      return revision
    } catch (error) {
      // After any other it may be there, or come to be, without a status that says who it is.
      if (FleetError.is(error, 'conflict') || FleetError.is(error, 'invalid')) this.#made.delete(key)
      throw error
    }
  }

  override versioned(object: KubeObject): Versioned<Build> | undefined {
    const found = super.versioned(object)
    if (!found) return undefined
    const { revision } = found
    const key = keyOf(found.record)
    const owner = ownerOf(this.#resources.builds, object)
    const known = this.#known.get(key)
    // What is of before this store's own last write says nothing new.
    if (known && !isNewer(revision, known.actual)) return { record: known.record, revision: known.shown }
    const told = toldUid(object)
    const kept = this.#kept(found.record, known?.owner?.uid === owner?.uid ? known : undefined, owner)
    const record = kept ? { ...found.record, ...kept } : found.record
    const now = { actual: revision, owner, isTold: told !== undefined || kept !== undefined }
    const isSame = known !== undefined && isDeepStrictEqual(known.record, record)
    // Only figures, or what is none of the record: who holds it goes on holding it.
    const next = isSame ? { ...known, ...now } : { ...now, record, shown: revision }
    this.#know(key, next)
    if (kept && kept.uid !== told) this.#tellAgain(record)
    return { record: next.record, revision: next.shown }
  }

  override forgetAll(): void {
    this.#known.clear()
  }

  override forget(ref: Ref, last?: KubeObject): void {
    const key = keyOf(ref)
    const known = this.#known.get(key)
    // There is another one of that name already.
    if (known && last && isNewer(known.actual, revisionOf(last))) return
    this.#known.delete(key)
    this.#figures.delete(key)
    this.#made.delete(key)
  }

  async update(record: Build, revision: string, options?: CallOptions): Promise<string> {
    const key = keyOf(record)
    const known = await this.#at(record, this.revision(revision, record), options)
    let upon = known.actual
    if (!isSameSpec(record.spec, known.record.spec)) {
      upon = await this.patchSpec(record, upon, record.spec, options)
      const before = known.record
      const isAll = before.crashes === record.crashes && isDeepStrictEqual(withoutSpec(before), withoutSpec(record))
      if (isAll) return this.#written(key, known, record, upon)
      const writing = this.putStatus(record, upon, this.#status(record, upon), options)
      return this.#written(key, { ...known, isTold: true }, record, await wholeOrUnknown(writing))
    }
    const actual = await this.putStatus(record, upon, this.#status(record, upon), options)
    return this.#written(key, { ...known, isTold: true }, record, actual)
  }

  override async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const known = this.#known.get(keyOf(ref))
    await super.delete(ref, known?.shown === revision ? known.actual : revision, options)
  }

  /** Of the object, as it was heard of last. Undefined when there is none. */
  actualRevision(ref: Ref): string | undefined {
    return this.#known.get(keyOf(ref))?.actual
  }

  /** Writes figures beside the record. False when there is no such build, or somebody else has just written it. */
  async show(ref: Ref, figures: BuildFigures): Promise<boolean> {
    const key = keyOf(ref)
    this.#figures.set(key, figures)
    const known = this.#known.get(key)
    if (!known) return false
    try {
      const actual = await this.putStatus(ref, known.actual, this.#status(known.record, known.actual))
      // The record is what it was: who holds it goes on holding it.
      if (this.#known.get(key) === known) this.#known.set(key, { ...known, actual, isTold: true })
      return true
    } catch (error) {
      if (FleetError.is(error, 'conflict') || FleetError.is(error, 'not-found')) return false
      throw error
    }
  }

  /** A host that was away while a status was cleared learns from the servers of that build who it is. */
  protected override async prepare(objects: readonly KubeObject[], options: CallOptions | undefined): Promise<void> {
    const isKnown = (object: KubeObject) => this.#known.get(keyFor(object))?.owner?.uid === object.metadata.uid
    const unknown = objects.filter((object) => toldUid(object) === undefined && !isKnown(object))
    await Promise.all(unknown.map((object) => this.#askServers(object, options)))
  }

  async #askServers({ metadata }: KubeObject, options: CallOptions | undefined): Promise<void> {
    const { name, namespace, uid } = metadata
    const { servers, buildLabel } = this.#resources
    if (uid === undefined) return
    const { items } = await this.#parts.api.list({
      ...{ what: `list servers of ${name}`, method: 'GET', path: pathOf(servers, { namespace }) },
      ...{ query: { labelSelector: `${buildLabel}=${name}` }, signal: options?.signal },
    })
    const own = items.find((server) => server.metadata.ownerReferences?.some((owner) => owner.uid === uid))
    const buildUid = own && textAt(fieldsAt(own, 'spec'), 'buildUid')
    if (buildUid !== undefined) this.#toldByServers.set(uid, buildUid)
  }

  /** Who it is, where that is known already of the very object and not for its status to say. */
  #kept(
    record: Build,
    known: Known | undefined,
    owner: OwnerReference | undefined,
  ): Pick<Build, 'uid' | 'createdAt'> | undefined {
    if (known) return known.isTold ? { uid: known.record.uid, createdAt: known.record.createdAt } : undefined
    const uid = this.#toldByServers.get(owner?.uid ?? '')
    return uid === undefined ? undefined : { uid, createdAt: record.createdAt }
  }

  /** Where this host may not, or fails, it is said with whatever is written of it next. */
  #tellAgain(ref: Ref): void {
    void this.show(ref, this.#figures.get(keyOf(ref)) ?? {}).catch(() => false)
  }

  #know(key: string, known: Known): void {
    this.#known.set(key, known)
    const { record, owner } = known
    if (owner) this.#owners.set(ownerKey(record.namespace, record.uid), owner)
  }

  #status(record: Build, upon: string): object {
    return buildStatus(record, this.#figures.get(keyOf(record)) ?? {}, upon)
  }

  async #at(record: Build, revision: string, options: CallOptions | undefined): Promise<Known> {
    const known = this.#known.get(keyOf(record))
    if (known?.shown === revision) return known
    const object = await this.call('GET', record, {}, options)
    const now = this.versioned(object)
    const found = this.#known.get(keyOf(record))
    if (now?.revision === revision && found) return found
    const { namespace, name } = record
    if (!now) throw new FleetError('not-found', `GameServerBuild ${namespace}/${name} is being deleted`)
    throw new FleetError('conflict', `GameServerBuild ${namespace}/${name} is at another revision`)
  }

  #written(key: string, known: Known, record: Build, actual: string): string {
    const now = this.#known.get(key)
    // A watch may have shown it, or a later one, before the answer came.
    if (!now || !isNewer(now.actual, actual)) this.#know(key, { ...known, record, actual, shown: actual })
    return actual
  }
}

function ownerKey(namespace: string, uid: string): string {
  return keyOf({ namespace, name: uid })
}

/** As its status has it now. */
function toldUid(object: KubeObject): string | undefined {
  return textAt(fieldsAt(object, 'status'), 'uid')
}

/** Revisions of one object are numbers that grow, whatever else they may be. */
function isNewer(a: string, b: string): boolean {
  return Number(a) > Number(b)
}

function isSameSpec(a: BuildSpec, b: BuildSpec): boolean {
  return a === b || isDeepStrictEqual(a, b)
}

function withoutSpec({ spec: _, ...rest }: Build): Omit<Build, 'spec'> {
  return rest
}
