/** A store collection backed by custom resources. The revision of a record is its object's resourceVersion. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Collection, Versioned } from '../../../src/contracts/store.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { ApiCall } from '../client/api-call.js'
import { type KubeObject, type ResourceType, revisionOf } from '../client/kube-objects.js'
import { CustomObjects, type CustomObjectsDependencies } from './custom-objects.js'

/** Converts records of one kind to and from objects. */
export interface Mapping<T extends Ref> {
  readonly resource: ResourceType
  /** Returns undefined if the object is not a valid record. */
  read(object: KubeObject): T | undefined
  /** Returns the object to create for a new record. */
  create(record: T): object
  /** Returns the status to write, separately, to a new object. Undefined if there is none. */
  initialStatus?(record: T, basedOn: string): object | undefined
}

/** Other revisions are never sent, because the API server accepts some of them, such as `0`, as "any revision". */
const revisionPattern = /^[1-9]\d*$/

export abstract class CustomCollection<T extends Ref> implements Collection<T> {
  protected readonly objects: CustomObjects
  readonly #mapping: Mapping<T>

  constructor(deps: CustomObjectsDependencies, mapping: Mapping<T>) {
    this.objects = new CustomObjects(deps, mapping.resource)
    this.#mapping = mapping
  }

  /** API paths of the collections to watch. */
  paths(): readonly string[] {
    return this.objects.paths()
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    if (!this.objects.includes(ref.namespace)) return undefined
    try {
      return this.versioned(await this.objects.get(ref, options))
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    const items = await this.objects.list(options)
    await this.beforeRead(items, options)
    return items.map((item) => this.versioned(item)).filter((versioned) => versioned !== undefined)
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    const object = await this.objects.create(record, this.#mapping.create(record), options)
    this.versioned(object)
    const revision = revisionOf(object)
    const status = this.#mapping.initialStatus?.(record, revision)
    return status === undefined ? revision : secondWrite(this.putStatus(record, revision, status, options))
  }

  abstract update(record: T, revision: string, options?: CallOptions): Promise<string>

  async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    await this.objects.delete(ref, this.checkedRevision(revision, ref), 'Background', options)
    this.forget(ref)
  }

  /**
   * Reads the record from an API object. Returns undefined if the object is invalid or is being deleted, which cannot be
   * undone.
   */
  versioned(object: KubeObject): Versioned<T> | undefined {
    this.observe(object)
    if (object.metadata.deletionTimestamp !== undefined) return undefined
    const record = this.#mapping.read(object)
    return record && { record, revision: revisionOf(object) }
  }

  /** Returns false if the store has already seen or written this revision or a newer one. */
  isUnseen(_object: KubeObject): boolean {
    return true
  }

  /** Call when the object is deleted. `last` is its last state, if known. */
  forget(_ref: Ref, _last?: KubeObject): void {}

  /** Call when the cluster's revisions have gone back: cached revisions cannot be compared with new ones. */
  forgetAll(): void {}

  /** Called with the listed objects before their records are read. */
  protected async beforeRead(_objects: readonly KubeObject[], _options: CallOptions | undefined): Promise<void> {}

  /** Called with each object that the API server returns. */
  protected observe(_object: KubeObject): void {}

  /** Throws `conflict` for a revision that the API server cannot have assigned. */
  protected checkedRevision(revision: string, { namespace, name }: Ref): string {
    if (revisionPattern.test(revision)) return revision
    const { kind } = this.#mapping.resource
    throw new FleetError('conflict', `${kind} ${namespace}/${name} never had the revision ${JSON.stringify(revision)}`)
  }

  /** Returns the new revision. */
  protected async putStatus(
    ref: Ref,
    revision: string,
    status: object,
    options?: CallOptions & Pick<ApiCall, 'priority' | 'unattended'>,
  ): Promise<string> {
    const object = await this.objects.putStatus(ref, revision, status, options)
    this.observe(object)
    return revisionOf(object)
  }

  /** Returns the new revision. */
  protected async patchSpec(ref: Ref, revision: string, spec: object, options?: CallOptions): Promise<string> {
    const object = await this.objects.patchSpec(ref, revision, spec, options)
    this.observe(object)
    return revisionOf(object)
  }
}

/** Wraps the second of two writes that together make one change: if it fails, the first write has still taken effect. */
export async function secondWrite<T>(write: Promise<T>): Promise<T> {
  try {
    return await write
  } catch (error) {
    if (!FleetError.is(error, 'conflict') && !FleetError.is(error, 'not-found')) throw error
    throw new FleetError('unavailable', `only the first of two writes succeeded: ${error.message}`, { cause: error })
  }
}
