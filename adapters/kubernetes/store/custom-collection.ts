/**
 * A collection of records as custom resources: a record's revision is its object's resourceVersion. Every write says upon which
 * revision it was made, so that none is without effect: the API server gives no new revision to a write that changes nothing.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { Collection, Versioned } from '../../../src/contracts/store.js'
import { creationFailure } from '../client/api-errors.js'
import type { ApiCall } from '../client/api-call.js'
import type { KubernetesApi } from '../client/api.js'
import { headOf } from './custom-resources.js'
import { type KubeObject, pathOf, type ResourceType, revisionOf } from '../client/kube-objects.js'

/** How records of one kind are kept as objects. */
export interface Mapping<T extends Ref> {
  readonly resource: ResourceType
  /** Undefined when it is none of ours. */
  read(object: KubeObject): T | undefined
  /** The object that a new record begins as. */
  create(record: T): object
  /** Of a new object: what creating it does not write. Undefined when that is all. */
  rest?(record: T, upon: string): object | undefined
}

export interface CollectionDependencies {
  readonly api: KubernetesApi
  /** Undefined: all that there are. */
  readonly namespaces: readonly string[] | undefined
  /** Throws `closed`. */
  readonly throwIfClosed: () => void
}

/** What a revision of ours looks like; others are never sent, since the API server takes some of them for any revision. */
const revisionShape = /^[1-9]\d*$/

export abstract class CustomCollection<T extends Ref> implements Collection<T> {
  readonly #parts: CollectionDependencies
  protected readonly mapping: Mapping<T>

  constructor(parts: CollectionDependencies, mapping: Mapping<T>) {
    this.#parts = parts
    this.mapping = mapping
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    // Of other namespaces there is nothing here, and no right to look.
    if (this.#parts.namespaces?.includes(ref.namespace) === false) return undefined
    try {
      return this.versioned(await this.call('GET', ref, {}, options))
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    this.#check(options)
    const { api } = this.#parts
    const { plural } = this.mapping.resource
    const lists = await Promise.all(
      this.paths().map((path) => api.list({ what: `list ${plural}`, method: 'GET', path, ...signalOf(options) })),
    )
    await Promise.all(lists.map(({ items }) => this.prepare(items, options)))
    return lists.flatMap(({ items }) =>
      items.map((item) => this.versioned(item)).filter((found) => found !== undefined),
    )
  }

  /** Where all of it is listed and watched. */
  paths(): readonly string[] {
    const { namespaces } = this.#parts
    if (!namespaces) return [pathOf(this.mapping.resource)]
    return namespaces.map((namespace) => pathOf(this.mapping.resource, { namespace }))
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    this.#check(options)
    const { resource } = this.mapping
    const { namespaces } = this.#parts
    if (namespaces && !namespaces.includes(record.namespace)) {
      const own = namespaces.join(', ')
      throw new FleetError(
        'invalid',
        `metadata.namespace ${record.namespace} is none of this fleet's, which are ${own}`,
      )
    }
    const what = `create ${resource.kind} ${record.namespace}/${record.name}`
    const path = pathOf(resource, { namespace: record.namespace })
    let object: KubeObject
    try {
      const body = this.mapping.create(record)
      object = await this.#parts.api.object({ what, method: 'POST', path, body, ...signalOf(options) })
    } catch (error) {
      if (!FleetError.is(error, 'not-found')) throw creationFailure(error)
      throw new FleetError('invalid', `metadata.namespace ${record.namespace} is none of the cluster's`, {
        cause: error,
      })
    }
    this.versioned(object)
    const revision = revisionOf(object)
    const rest = this.mapping.rest?.(record, revision)
    return rest === undefined ? revision : wholeOrUnknown(this.putStatus(record, revision, rest, options))
  }

  abstract update(record: T, revision: string, options?: CallOptions): Promise<string>

  async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const body = { preconditions: { resourceVersion: this.revision(revision, ref) }, propagationPolicy: 'Background' }
    try {
      await this.call('DELETE', ref, { body }, options)
    } catch (error) {
      if (!FleetError.is(error, 'not-found')) throw error
    }
    this.forget(ref)
  }

  versioned(object: KubeObject): Versioned<T> | undefined {
    this.seen(object)
    // One that is on its way out has no way back: for the fleet it is gone.
    if (object.metadata.deletionTimestamp !== undefined) return undefined
    const record = this.mapping.read(object)
    return record && { record, revision: revisionOf(object) }
  }

  /** False when this store knows better already: the object is of before its own last write. */
  isNews(_object: KubeObject): boolean {
    return true
  }

  /** No such object any more. `last`: as it was when it went, where that is known. */
  forget(_ref: Ref, _last?: KubeObject): void {}

  /** What was known is no measure any more of what is newer. */
  forgetAll(): void {}

  /** Before what a list has shown is read: what has to be found out for that. */
  protected async prepare(_objects: readonly KubeObject[], _options: CallOptions | undefined): Promise<void> {}

  /** The API server has shown this. */
  protected seen(_object: KubeObject): void {}

  /** Throws `conflict` for one that the API server never gave out. */
  protected revision(revision: string, { namespace, name }: Ref): string {
    if (revisionShape.test(revision)) return revision
    const { kind } = this.mapping.resource
    throw new FleetError('conflict', `${kind} ${namespace}/${name} never was at revision ${revision || '""'}`)
  }

  protected async putStatus(
    ref: Ref,
    revision: string,
    status: object,
    { ahead = false, ...options }: CallOptions & Pick<ApiCall, 'ahead'> = {},
  ): Promise<string> {
    const { namespace, name } = ref
    const metadata = { namespace, name, resourceVersion: revision }
    const body = { ...headOf(this.mapping.resource), metadata, status }
    const object = await this.call('PUT', ref, { body, subresource: 'status', ahead }, options)
    this.seen(object)
    return revisionOf(object)
  }

  /** Replaces the spec and nothing else: labels, annotations and status are whoever's they are. */
  protected async patchSpec(ref: Ref, revision: string, spec: object, options?: CallOptions): Promise<string> {
    const body = [
      { op: 'replace', path: '/metadata/resourceVersion', value: revision },
      { op: 'replace', path: '/spec', value: spec },
    ]
    const object = await this.call('PATCH', ref, { body, contentType: 'application/json-patch+json' }, options)
    this.seen(object)
    return revisionOf(object)
  }

  protected call(
    method: ApiCall['method'],
    ref: Ref,
    more: Pick<ApiCall, 'body' | 'contentType' | 'ahead'> & { readonly subresource?: string },
    options: CallOptions | undefined,
  ): Promise<KubeObject> {
    this.#check(options)
    const { namespace, name } = ref
    const { resource } = this.mapping
    const { subresource, ...rest } = more
    const path = pathOf(resource, { namespace, name, ...(subresource !== undefined && { subresource }) })
    const what = `${words[method]} ${resource.kind} ${namespace}/${name}`
    const call = { what, method, path, ...rest, ...signalOf(options) }
    // A deletion is answered with a Status.
    return method === 'DELETE'
      ? this.#parts.api.request(call).then(() => ({ metadata: ref }))
      : this.#parts.api.object(call)
  }

  #check(options: CallOptions | undefined): void {
    this.#parts.throwIfClosed()
    throwIfAborted(options?.signal)
  }
}

/**
 * The second of two writes that make one change: when it does not happen, the first has, and nobody may say that nothing has.
 */
export async function wholeOrUnknown<T>(second: Promise<T>): Promise<T> {
  try {
    return await second
  } catch (error) {
    if (!FleetError.is(error, 'conflict') && !FleetError.is(error, 'not-found')) throw error
    throw new FleetError('unavailable', `half of it is written: ${error.message}`, { cause: error })
  }
}

const words = { GET: 'read', POST: 'create', PUT: 'write', PATCH: 'change', DELETE: 'delete' } as const

function signalOf(options: CallOptions | undefined): Pick<ApiCall, 'signal'> {
  return options?.signal === undefined ? {} : { signal: options.signal }
}
