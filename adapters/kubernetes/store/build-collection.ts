/**
 * Stores builds as GameServerBuild objects. Spec and status are written separately. So are the counts shown by kubectl, which
 * change often and must not count as changes to the record.
 */
import { isDeepStrictEqual } from 'node:util'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Versioned } from '../../../src/contracts/store.js'
import { type Build, keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import type { ObjectApi } from '../client/api.js'
import {
  isNewerRevision,
  keyFor,
  type KubeObject,
  type OwnerReference,
  pathOf,
  revisionOf,
} from '../client/kube-objects.js'
import type { CheckTemplate } from '../provisioning/template-check.js'
import { type BuildCounts, buildStatus, newBuildObject, readBuild, ReadyConditions } from './build-object.js'
import {
  CustomCollection,
  type CustomObjectsDependencies,
  type FleetResources,
  ownerReferenceTo,
  secondWrite,
} from './custom-collection.js'
import type { FleetHome } from './fleet-home.js'

/** How often, and how many times, a deletion checks whether the cluster has released the build's servers. */
const releaseCheckMs = 100
const maxReleaseChecks = 50

interface BuildCollectionDependencies extends CustomObjectsDependencies {
  readonly clock: Clock
  readonly home: FleetHome
  /** Default: the template is not checked. */
  readonly checkTemplate?: CheckTemplate | undefined
}

export class BuildCollection extends CustomCollection<Build> {
  readonly #resources: FleetResources
  readonly #api: ObjectApi
  /** The builds that this host has read or written. */
  readonly #known = new Map<string, KnownBuild>()
  /**
   * Owner references by namespace and uid of the build. Deleted builds remain here, so that servers still being created for them refer to
   * the deleted owner and are deleted too.
   */
  readonly #owners = new Map<string, OwnerReference>()
  /** Records whose creation is in progress; their objects may not have a status yet. */
  readonly #creating = new Map<string, Build>()
  /** The build uid that servers refer to, by the uid of the build's object. */
  readonly #uidsFromServers = new Map<string, string>()
  readonly #ready = new ReadyConditions()
  readonly #counts = new Map<string, BuildCounts>()
  readonly #clock: Clock
  readonly #home: FleetHome
  readonly #findProblem: CheckTemplate | undefined

  constructor(deps: BuildCollectionDependencies, resources: FleetResources) {
    super(deps, resources.builds)
    this.#resources = resources
    this.#clock = deps.clock
    this.#home = deps.home
    this.#findProblem = deps.checkTemplate
    this.#api = deps.api
  }

  /** Owner reference for objects that belong to the build with this name. Undefined if this host has not seen the build. */
  owner(ref: Ref): OwnerReference | undefined {
    return this.#known.get(keyOf(ref))?.owner
  }

  /**
   * Owner reference for objects that belong to the build with this uid, even if it has been deleted. Undefined if this host
   * has not seen the build.
   */
  ownerByUid(namespace: string, uid: string): OwnerReference | undefined {
    return this.#owners.get(keyOf({ namespace, name: uid }))
  }

  override async create(record: Build, options?: CallOptions): Promise<string> {
    await this.#checkTemplate(record)
    const key = keyOf(record)
    this.#creating.set(key, record)
    try {
      const revision = await super.create(record, options)
      const known = this.#known.get(key)
      if (known) this.#written({ ...known, hasIdentity: true }, record, revision)
      this.#creating.delete(key)
      return revision
    } catch (error) {
      // After any other error, the object may exist or appear later, still without a status.
      if (FleetError.is(error, 'conflict') || FleetError.is(error, 'invalid')) this.#creating.delete(key)
      throw error
    }
  }

  override versioned(object: KubeObject): Versioned<Build> | undefined {
    const versioned = super.versioned(object)
    if (!versioned) return undefined
    const { revision } = versioned
    const key = keyOf(versioned.record)
    const owner = ownerReferenceTo(this.#resources.builds, object)
    const known = this.#known.get(key)
    // The object is no newer than this host's latest known revision.
    if (known && !isNewerRevision(revision, known.objectRevision)) return current(known)
    const uid = statusUid(object)
    const sameObject = known?.owner?.uid === owner?.uid ? known : undefined
    const recovered = this.#recoveredIdentity(versioned.record, sameObject, owner)
    const record = recovered ? { ...versioned.record, ...recovered } : versioned.record
    const hasIdentity = uid !== undefined || recovered !== undefined
    const isSame = known !== undefined && isDeepStrictEqual(known.record, record)
    // If only counts or fields outside the record have changed, the record keeps its revision.
    const kept = isSame ? known : { record, recordRevision: revision }
    const next: KnownBuild = { ...kept, objectRevision: revision, owner, hasIdentity }
    this.#setKnown(next)
    if (recovered && recovered.uid !== uid) this.#restoreIdentity(record)
    return current(next)
  }

  override forgetAll(): void {
    this.#known.clear()
    this.#ready.forgetAll()
  }

  override forget(ref: Ref, last?: KubeObject): void {
    const key = keyOf(ref)
    const known = this.#known.get(key)
    // A new build with that name already exists.
    if (known && last && isNewerRevision(known.objectRevision, revisionOf(last))) return
    this.#known.delete(key)
    this.#home.gone(key)
    this.#counts.delete(key)
    this.#ready.forget(key)
    this.#creating.delete(key)
  }

  async update(record: Build, revision: string, options?: CallOptions): Promise<string> {
    const known = await this.#knownAt(record, this.checkedRevision(revision, record), options)
    if (isDeepStrictEqual(record.spec, known.record.spec)) {
      const written = await this.#putRecordStatus(record, known.objectRevision, options)
      this.#written({ ...known, hasIdentity: true }, record, written)
      return written
    }
    if (!isDeepStrictEqual(record.spec.template, known.record.spec.template)) await this.#checkTemplate(record)
    const patched = await this.patchSpec(record, known.objectRevision, record.spec, options)
    if (isSameStatus(known.record, record)) {
      this.#written(known, record, patched)
      return patched
    }
    const written = await secondWrite(this.#putRecordStatus(record, patched, options))
    this.#written({ ...known, hasIdentity: true }, record, written)
    return written
  }

  /**
   * Releases the build's servers instead of letting the cluster delete them: it would delete their pods too, whose games then
   * get SIGTERM without `Terminate` before it. The engine terminates them instead.
   */
  override async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const known = this.#known.get(keyOf(ref))
    const written = this.checkedRevision(known?.recordRevision === revision ? known.objectRevision : revision, ref)
    await this.objects.delete(ref, written, 'Orphan', options)
    this.forget(ref)
    await this.#untilReleased(ref, options)
  }

  /** Waits until the name can be reused, but not for long: the fleet already reads the build as deleted. */
  async #untilReleased(ref: Ref, options: CallOptions | undefined): Promise<void> {
    for (let check = 1; check <= maxReleaseChecks; check++) {
      const found = await this.objects.get(ref, options).catch(() => undefined)
      if (found?.metadata.deletionTimestamp === undefined) return
      await new Promise<void>((resolve) => void this.#clock.after(releaseCheckMs, resolve))
    }
  }

  /** Returns undefined if this host has not seen the build. */
  objectRevision(ref: Ref): string | undefined {
    return this.#known.get(keyOf(ref))?.objectRevision
  }

  /** Writes the counts without changing the record. Returns false if the build was deleted or changed concurrently. */
  async writeCounts(ref: Ref, counts: BuildCounts): Promise<boolean> {
    const key = keyOf(ref)
    this.#counts.set(key, counts)
    const known = this.#known.get(key)
    if (!known) return false
    try {
      const objectRevision = await this.#putRecordStatus(known.record, known.objectRevision)
      if (this.#known.get(key) === known) this.#known.set(key, { ...known, objectRevision, hasIdentity: true })
      return true
    } catch (error) {
      if (FleetError.is(error, 'conflict') || FleetError.is(error, 'not-found')) return false
      throw error
    }
  }

  /** Reads whose the builds are. Unlike `list`, it does not reject if they belong to another fleet. */
  async seeAll(): Promise<void> {
    this.#home.seeAll(await this.objects.list(undefined))
  }

  protected read(object: KubeObject): Build | undefined {
    return readBuild(object, this.#resources, this.#creating.get(keyFor(object)))
  }

  protected newObject(build: Build): object {
    return newBuildObject(build, this.#resources)
  }

  protected override initialStatus(build: Build, basedOn: string): object {
    return buildStatus(build, {}, { basedOn, home: this.#home.home })
  }

  protected override observe(object: KubeObject): void {
    this.#home.see(object)
    this.#ready.see(object)
  }

  protected override async beforeRead(objects: readonly KubeObject[], options: CallOptions | undefined): Promise<void> {
    this.#home.seeAll(objects)
    this.#throwIfForeign()
    const isKnown = (object: KubeObject) => this.#known.get(keyFor(object))?.owner?.uid === object.metadata.uid
    const unknown = objects.filter((object) => statusUid(object) === undefined && !isKnown(object))
    await Promise.all(unknown.map((object) => this.#loadIdentity(object, options)))
  }

  async #checkTemplate({ namespace, spec }: Build): Promise<void> {
    const problem = await this.#findProblem?.(namespace, spec.template)
    if (problem) throw new FleetError('invalid', problem.message)
  }

  /** Runs in the background. If it fails, the next status write includes the identity. */
  #restoreIdentity(ref: Ref): void {
    void this.writeCounts(ref, this.#counts.get(keyOf(ref)) ?? {}).catch(() => false)
  }

  async #putRecordStatus(record: Build, basedOn: string, options?: CallOptions): Promise<string> {
    this.#throwIfForeign()
    const key = keyOf(record)
    const counts = this.#counts.get(key) ?? {}
    const { readiness } = counts
    const ready = readiness && this.#ready.conditionOf(key, readiness, record.spec, this.#clock.now())
    const status = buildStatus(record, counts, { basedOn, home: this.#home.home, ready })
    return this.putStatus(record, basedOn, status, options)
  }

  /** An engine that could not tell would end the other fleet's servers, as those of deleted builds. */
  #throwIfForeign(): void {
    const { obstacle } = this.#home
    if (obstacle !== undefined) throw new FleetError('unavailable', obstacle)
  }

  #setKnown(known: KnownBuild): void {
    const { record, owner } = known
    this.#known.set(keyOf(record), known)
    if (owner) this.#owners.set(keyOf({ namespace: record.namespace, name: record.uid }), owner)
  }

  /** Call after this host has written the record. A watch may already have reported this revision or a later one. */
  #written(known: KnownBuild, record: Build, revision: string): void {
    const latest = this.#known.get(keyOf(record))
    if (latest && isNewerRevision(latest.objectRevision, revision)) return
    this.#setKnown({ ...known, record, objectRevision: revision, recordRevision: revision })
  }

  /**
   * Servers refer to their build by its uid, which is in the status. Returns the identity of a build whose status does not contain it, because
   * the build is just being created or its status was cleared with kubectl; undefined if the one read from the object is correct. `known`
   * is the cached state of the same object.
   */
  #recoveredIdentity(
    record: Build,
    known: KnownBuild | undefined,
    owner: OwnerReference | undefined,
  ): Pick<Build, 'uid' | 'createdAt'> | undefined {
    if (known) return known.hasIdentity ? { uid: known.record.uid, createdAt: known.record.createdAt } : undefined
    const uid = this.#uidsFromServers.get(owner?.uid ?? '')
    return uid === undefined ? undefined : { uid, createdAt: record.createdAt }
  }

  /** Asks the servers of a build whose identity this host cannot determine in any other way. */
  async #loadIdentity({ metadata }: KubeObject, options: CallOptions | undefined): Promise<void> {
    const { name, namespace, uid } = metadata
    const { servers, buildLabel } = this.#resources
    if (uid === undefined) return
    const { items } = await this.#api.list({
      what: `list servers of build ${name}`,
      method: 'GET',
      path: pathOf(servers, { namespace }),
      query: { labelSelector: `${buildLabel}=${name}` },
      signal: options?.signal,
    })
    const own = items.find((server) => server.metadata.ownerReferences?.some((owner) => owner.uid === uid))
    const buildUid = own && stringAt(objectAt(own, 'spec'), 'buildUid')
    if (buildUid !== undefined) this.#uidsFromServers.set(uid, buildUid)
  }

  /** Returns the build if its record still has this revision. */
  async #knownAt(record: Build, revision: string, options: CallOptions | undefined): Promise<KnownBuild> {
    const known = this.#known.get(keyOf(record))
    if (known?.recordRevision === revision) return known
    const versioned = this.versioned(await this.objects.get(record, options))
    const read = this.#known.get(keyOf(record))
    if (versioned?.revision === revision && read) return read
    const { namespace, name } = record
    if (!versioned) throw new FleetError('not-found', `GameServerBuild ${namespace}/${name} is being deleted`)
    throw new FleetError('conflict', `GameServerBuild ${namespace}/${name} is no longer at revision ${revision}`)
  }
}

function current({ record, recordRevision }: KnownBuild): Versioned<Build> {
  return { record, revision: recordRevision }
}

/** Whether the records are equal apart from their specs. */
function isSameStatus({ spec: _a, ...before }: Build, { spec: _b, ...after }: Build): boolean {
  return before.crashes === after.crashes && isDeepStrictEqual(before, after)
}

/** The record's uid stored in the object's status. */
function statusUid(object: KubeObject): string | undefined {
  return stringAt(objectAt(object, 'status'), 'uid')
}

/** A build with the revisions of its record and of its object. */
interface KnownBuild {
  readonly record: Build
  readonly objectRevision: string
  /** Older than `objectRevision` if only counts have been written since. */
  readonly recordRevision: string
  readonly owner: OwnerReference | undefined
  /**
   * Whether the uid is final. Once read from the build's status or written to it, it stays the same even if the status is
   * cleared.
   */
  readonly hasIdentity: boolean
}
