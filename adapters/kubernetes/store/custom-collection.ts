/** A store collection backed by custom resources, and the API calls for them. The revision of a record is its object's resourceVersion. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { Collection, Versioned } from '../../../src/contracts/store.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { defaultApiGroup } from '../../../src/rules/model/wire.js'
import { creationError, foundOrUndefined, isNamespaceTerminating } from '../client/api-errors.js'
import type { ApiCall, ObjectApi } from '../client/api.js'
import {
  apiVersionOf,
  type KubeObject,
  type OwnerReference,
  pathOf,
  type ResourceType,
  resourceType,
  revisionOf,
  typeMetaOf,
} from '../client/kube-objects.js'

/** Other revisions are never sent, because the API server accepts some of them, such as `0`, as "any revision". */
const revisionPattern = /^[1-9]\d*$/

export abstract class CustomCollection<T extends Ref> implements Collection<T> {
  protected readonly objects: CustomObjects
  readonly #kind: string

  constructor(deps: CustomObjectsDependencies, resource: ResourceType) {
    this.objects = new CustomObjects(deps, resource)
    this.#kind = resource.kind
  }

  /** Returns undefined if the object is not a valid record. */
  protected abstract read(object: KubeObject): T | undefined

  /** Returns the object to create for a new record. */
  protected abstract newObject(record: T): object

  /** Returns the status to write, separately, to a new object. Undefined if there is none. */
  protected initialStatus(_record: T, _basedOn: string): object | undefined {
    return undefined
  }

  /** API paths of the collections to watch. */
  paths(): readonly string[] {
    return this.objects.paths()
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    if (!this.objects.includes(ref.namespace)) return undefined
    const object = await foundOrUndefined(this.objects.get(ref, options))
    return object && this.versioned(object)
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    const items = await this.objects.list(options)
    await this.beforeRead(items, options)
    return items.map((item) => this.versioned(item)).filter((versioned) => versioned !== undefined)
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    const object = await this.objects.create(record, this.newObject(record), options)
    this.versioned(object)
    const revision = revisionOf(object)
    const status = this.initialStatus(record, revision)
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
    const record = this.read(object)
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
    throw new FleetError(
      'conflict',
      `${this.#kind} ${namespace}/${name} never had the revision ${JSON.stringify(revision)}`,
    )
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

export interface CustomObjectsDependencies {
  readonly api: ObjectApi
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  /** Throws `closed` if the store is closed. */
  readonly throwIfClosed: () => void
}

type CallDetails = Pick<ApiCall, 'body' | 'contentType' | 'priority' | 'unattended'> & { readonly subresource?: string }

/**
 * API calls for the objects of one custom resource. Every write includes the revision that it replaces, both as a
 * precondition and in the object itself: the API server assigns no new revision to a write that changes nothing.
 */
export class CustomObjects {
  readonly #deps: CustomObjectsDependencies
  readonly #resource: ResourceType

  constructor(deps: CustomObjectsDependencies, resource: ResourceType) {
    this.#deps = deps
    this.#resource = resource
  }

  /** API paths of the collections to list and watch. */
  paths(): readonly string[] {
    const { namespaces } = this.#deps
    if (!namespaces) return [pathOf(this.#resource)]
    return namespaces.map((namespace) => pathOf(this.#resource, { namespace }))
  }

  /** Outside these namespaces the fleet has no objects and, usually, no permissions. */
  includes(namespace: string): boolean {
    return this.#deps.namespaces?.includes(namespace) ?? true
  }

  async list(options: CallOptions | undefined): Promise<readonly KubeObject[]> {
    this.#check(options)
    const what = `list ${this.#resource.plural}`
    const lists = await Promise.all(
      this.paths().map((path) => this.#deps.api.list({ what, method: 'GET', path, ...signalOf(options) })),
    )
    return lists.flatMap(({ items }) => items)
  }

  async get(
    ref: Ref,
    { priority = false, ...options }: CallOptions & Pick<ApiCall, 'priority'> = {},
  ): Promise<KubeObject> {
    return this.#deps.api.object(this.#call('GET', ref, { priority }, options))
  }

  /** Rejects with `invalid` if the namespace does not belong to the fleet, does not exist, or is being deleted. */
  async create(ref: Ref, body: object, options: CallOptions | undefined): Promise<KubeObject> {
    this.#check(options)
    const { namespace, name } = ref
    if (!this.includes(namespace)) {
      const own = this.#deps.namespaces?.join(', ')
      throw new FleetError('invalid', `metadata.namespace ${namespace} is not one of this fleet's namespaces: ${own}`)
    }
    const what = `create ${this.#resource.kind} ${namespace}/${name}`
    const path = pathOf(this.#resource, { namespace })
    try {
      return await this.#deps.api.object({ what, method: 'POST', path, body, ...signalOf(options) })
    } catch (error) {
      const isGoing = isNamespaceTerminating(error)
      if (!isGoing && !FleetError.is(error, 'not-found')) throw creationError(error)
      const why = isGoing ? 'is being deleted from the cluster' : 'does not exist in the cluster'
      throw new FleetError('invalid', `metadata.namespace ${namespace} ${why}`, { cause: error })
    }
  }

  async putStatus(
    ref: Ref,
    revision: string,
    status: object,
    { priority = false, unattended = false, ...options }: CallOptions & Pick<ApiCall, 'priority' | 'unattended'> = {},
  ): Promise<KubeObject> {
    const { namespace, name } = ref
    const metadata = { namespace, name, resourceVersion: revision }
    const body = { ...typeMetaOf(this.#resource), metadata, status }
    const details = { body, subresource: 'status', priority, unattended }
    return this.#deps.api.object(this.#call('PUT', ref, details, options))
  }

  /** Replaces only the spec: other clients may own the labels, annotations and status. */
  async patchSpec(ref: Ref, revision: string, spec: object, options: CallOptions | undefined): Promise<KubeObject> {
    const body = [
      { op: 'replace', path: '/metadata/resourceVersion', value: revision },
      { op: 'replace', path: '/spec', value: spec },
    ]
    const details = { body, contentType: 'application/json-patch+json' }
    return this.#deps.api.object(this.#call('PATCH', ref, details, options))
  }

  /**
   * Succeeds if the object does not exist. `Background`: the cluster then deletes the objects that it owns. `Orphan`: it releases
   * them first, and the object exists for a moment longer.
   */
  async delete(
    ref: Ref,
    revision: string,
    propagationPolicy: 'Background' | 'Orphan',
    options: CallOptions | undefined,
  ): Promise<void> {
    const body = { preconditions: { resourceVersion: revision }, propagationPolicy }
    try {
      await this.#deps.api.request(this.#call('DELETE', ref, { body }, options))
    } catch (error) {
      if (!FleetError.is(error, 'not-found')) throw error
    }
  }

  #call(method: ApiCall['method'], ref: Ref, details: CallDetails, options: CallOptions | undefined): ApiCall {
    this.#check(options)
    const { namespace, name } = ref
    const { subresource, ...rest } = details
    const path = pathOf(this.#resource, { namespace, name, ...(subresource !== undefined && { subresource }) })
    const what = `${verbs[method]} ${this.#resource.kind} ${namespace}/${name}`
    return { what, method, path, ...rest, ...signalOf(options) }
  }

  #check(options: CallOptions | undefined): void {
    this.#deps.throwIfClosed()
    throwIfAborted(options?.signal)
  }
}

const verbs = { GET: 'get', POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' } as const

function signalOf(options: CallOptions | undefined): Pick<ApiCall, 'signal'> {
  return options?.signal === undefined ? {} : { signal: options.signal }
}

export type FleetResources = ReturnType<typeof fleetResources>

/** The custom resources of `crds.yaml`. `group` is the API group of the installed definitions. Default: the group in that file. */
export function fleetResources(group: string = defaultApiGroup) {
  return Object.freeze({
    builds: resourceType(group, 'v1alpha1', 'gameserverbuilds', 'GameServerBuild'),
    servers: resourceType(group, 'v1alpha1', 'gameservers', 'GameServer'),
    details: resourceType(group, 'v1alpha1', 'gameserverdetails', 'GameServerDetail'),
    demand: resourceType(group, 'v1alpha1', 'gameserverdemands', 'GameServerDemand'),
    allocations: resourceType(group, 'v1alpha1', 'gameserverallocations', 'GameServerAllocation'),
    journals: resourceType(group, 'v1alpha1', 'gameserverjournals', 'GameServerJournal'),
    /** Label on servers, details, demand and pods with the name of their build. */
    buildLabel: `${group}/build`,
    /** Annotation on builds created by this store with the record's uid, used until the object's status contains the uid. */
    createdAsAnnotation: `${group}/made-as`,
    /** Annotation on builds by which an operator gives them to the fleet with this system namespace. */
    homeAnnotation: `${group}/home`,
  })
}

/**
 * An owner reference to this object. Kubernetes deletes the objects that have it together with their owner. Undefined if the
 * owner has not been created yet.
 */
export function ownerReferenceTo(resource: ResourceType, { metadata }: KubeObject): OwnerReference | undefined {
  const { name, uid } = metadata
  if (uid === undefined) return undefined
  return Object.freeze({ apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true })
}
