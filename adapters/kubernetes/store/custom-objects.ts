/**
 * API calls for the objects of one custom resource. Every write includes the revision that it replaces, both as a
 * precondition and in the object itself: the API server assigns no new revision to a write that changes nothing.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { ApiCall } from '../client/api-call.js'
import { creationError, isNamespaceTerminating } from '../client/api-errors.js'
import type { ObjectApi } from '../client/api.js'
import { type KubeObject, pathOf, type ResourceType, typeMetaOf } from '../client/kube-objects.js'

export interface CustomObjectsDependencies {
  readonly api: ObjectApi
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  /** Throws `closed` if the store is closed. */
  readonly throwIfClosed: () => void
}

type CallDetails = Pick<ApiCall, 'body' | 'contentType' | 'priority' | 'unattended'> & { readonly subresource?: string }

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

  get(
    ref: Ref,
    options: CallOptions | undefined,
    { priority = false }: Pick<ApiCall, 'priority'> = {},
  ): Promise<KubeObject> {
    return this.#object('GET', ref, { priority }, options)
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

  putStatus(
    ref: Ref,
    revision: string,
    status: object,
    { priority = false, unattended = false, ...options }: CallOptions & Pick<ApiCall, 'priority' | 'unattended'> = {},
  ): Promise<KubeObject> {
    const { namespace, name } = ref
    const metadata = { namespace, name, resourceVersion: revision }
    const body = { ...typeMetaOf(this.#resource), metadata, status }
    return this.#object('PUT', ref, { body, subresource: 'status', priority, unattended }, options)
  }

  /** Replaces only the spec: other clients may own the labels, annotations and status. */
  patchSpec(ref: Ref, revision: string, spec: object, options: CallOptions | undefined): Promise<KubeObject> {
    const body = [
      { op: 'replace', path: '/metadata/resourceVersion', value: revision },
      { op: 'replace', path: '/spec', value: spec },
    ]
    return this.#object('PATCH', ref, { body, contentType: 'application/json-patch+json' }, options)
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

  async #object(
    method: ApiCall['method'],
    ref: Ref,
    details: CallDetails,
    options: CallOptions | undefined,
  ): Promise<KubeObject> {
    return this.#deps.api.object(this.#call(method, ref, details, options))
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
