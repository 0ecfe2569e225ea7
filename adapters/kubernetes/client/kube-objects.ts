/**
 * What all objects of the Kubernetes API have in common: metadata, API paths, revisions, and how this adapter reads their fields. Every field
 * may be missing, and one with the wrong type counts as missing. Pure.
 */
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Fields, stringAt } from '../../../src/rules/validation/pod-template.js'

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

/** Compares two revisions, which are increasing numbers. */
export function isNewerRevision(a: string, b: string): boolean {
  return Number(a) > Number(b)
}

export function numberAt(fields: Fields, name: string): number | undefined {
  const value = fields[name]
  return typeof value === 'number' ? value : undefined
}

/** Parses an RFC 3339 time into Unix milliseconds. */
export function timeAt(fields: Fields, name: string): number | undefined {
  const ms = Date.parse(stringAt(fields, name) ?? '')
  return Number.isNaN(ms) ? undefined : ms
}

export function rfc3339(ms: number): string {
  return new Date(ms).toISOString()
}

/** The fields of an object that this adapter reads; it drops the others, because thousands of objects are cached. */
export type Optional<T> = { readonly [field in keyof T]?: T[field] | undefined }

export type ObjectMeta = Optional<{
  name: string
  namespace: string
  uid: string
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  /** RFC 3339: the time at which deletion was requested plus the grace period. */
  deletionTimestamp: string
  deletionGracePeriodSeconds: number
}>

export type Condition = Optional<{ type: string; status: string; reason: string; message: string }>

/** Checks only that the value looks like an object of the kind; the API server guarantees that it matches the schema. */
export function hasObjectShape(value: unknown): boolean {
  return isObject(value) && isObject(value['metadata']) && (value['spec'] === undefined || isObject(value['spec']))
}

export function conditionsOfTypes(
  conditions: readonly Condition[] | undefined,
  types: readonly string[],
): readonly Condition[] | undefined {
  return conditions
    ?.filter(({ type = '' }) => types.includes(type))
    .map(({ type, status, reason, message }) => ({ type, status, reason, message }))
}
