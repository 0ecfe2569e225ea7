/** Kubernetes objects as far as this adapter needs to know them all, and where the API server keeps them. Pure. */
import { isObject } from '../../../src/rules/validation/problem.js'
import { keyOf } from '../../../src/rules/model/resources.js'

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

/** Whatever the kind: metadata, and the rest as it came. */
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

/** The path of a collection, of an object in it, or of a subresource of that. */
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

/** By it a map has the object, and the record that it is of. */
export function keyFor({ metadata }: KubeObject): string {
  return keyOf({ namespace: metadata.namespace ?? '', name: metadata.name })
}

/** Of what the API server has answered; empty only in objects that it never saw. */
export function revisionOf({ metadata }: { readonly metadata: KubeMeta }): string {
  return metadata.resourceVersion ?? ''
}
