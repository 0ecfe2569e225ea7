/** Fields common to all Kubernetes objects, and the objects' API paths. Pure. */
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'

export interface ResourceType {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
  readonly blockOwnerDeletion?: boolean
}

export interface KubeMeta {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly ownerReferences?: readonly OwnerReference[]
}

/** An object of any kind, with typed metadata. */
export interface KubeObject {
  readonly metadata: KubeMeta
  readonly [field: string]: unknown
}

export const pods = resourceType('', 'v1', 'pods', 'Pod')
export const nodes = resourceType('', 'v1', 'nodes', 'Node')
export const secrets = resourceType('', 'v1', 'secrets', 'Secret')
export const kubeEvents = resourceType('', 'v1', 'events', 'Event')
export const leases = resourceType('coordination.k8s.io', 'v1', 'leases', 'Lease')

export function resourceType(group: string, version: string, plural: string, kind: string): ResourceType {
  return Object.freeze({ group, version, plural, kind })
}

export function apiVersionOf({ group, version }: ResourceType): string {
  return group === '' ? version : `${group}/${version}`
}

/** The `apiVersion` and `kind` fields of an object of this type. */
export function typeMetaOf(type: ResourceType): { readonly apiVersion: string; readonly kind: string } {
  return { apiVersion: apiVersionOf(type), kind: type.kind }
}

/** API path of a collection, of an object in it, or of a subresource of that object. */
export function pathOf(
  resource: ResourceType,
  at: { readonly namespace?: string | undefined; readonly name?: string; readonly subresource?: string } = {},
): string {
  const { group, version, plural } = resource
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const space = at.namespace === undefined ? '' : `/namespaces/${encodeURIComponent(at.namespace)}`
  const name = at.name === undefined ? '' : `/${encodeURIComponent(at.name)}`
  return `${root}${space}/${plural}${name}${at.subresource === undefined ? '' : `/${at.subresource}`}`
}

export function isKubeObject(value: unknown): value is KubeObject {
  return isObject(value) && isObject(value['metadata']) && typeof value['metadata']['name'] === 'string'
}

export function refOf({ metadata }: KubeObject): Ref {
  return { namespace: metadata.namespace ?? '', name: metadata.name }
}

/** Key for the object in maps; equal to `keyOf` of its record. */
export function keyFor(object: KubeObject): string {
  return keyOf(refOf(object))
}

/** The object's resourceVersion. Empty only for objects that did not come from the API server. */
export function revisionOf({ metadata }: { readonly metadata: KubeMeta }): string {
  return metadata.resourceVersion ?? ''
}
