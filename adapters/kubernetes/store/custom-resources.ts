/** The custom resources of `crds.yaml`, and what all their objects have in common. Pure. */
import { defaultApiGroup } from '../../../src/rules/model/wire.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { apiVersionOf, type KubeObject, type ResourceType, resourceType } from '../client/kube-objects.js'

export interface FleetResources {
  readonly builds: ResourceType
  readonly servers: ResourceType
  readonly details: ResourceType
  /** On servers, details and pods: name of the build that they are of. */
  readonly buildLabel: string
  /** Of builds that were created through the API: by it their maker knows its own, until their status says who they are. */
  readonly madeAsAnnotation: string
}

/** `group`: that of `crds.yaml`, or the one that a host has put in its place. */
export function fleetResources(group: string = defaultApiGroup): FleetResources {
  return Object.freeze({
    builds: resourceType(group, 'v1alpha1', 'gameserverbuilds', 'GameServerBuild'),
    servers: resourceType(group, 'v1alpha1', 'gameservers', 'GameServer'),
    details: resourceType(group, 'v1alpha1', 'gameserverdetails', 'GameServerDetail'),
    buildLabel: `${group}/build`,
    madeAsAnnotation: `${group}/made-as`,
  })
}

export function headOf(resource: ResourceType): { readonly apiVersion: string; readonly kind: string } {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind }
}

type Fields = Readonly<Record<string, unknown>>

export function fieldsAt(object: KubeObject, name: string): Fields {
  const value = object[name]
  return isObject(value) ? value : {}
}

export function textAt(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

export function textsAt(fields: Fields, name: string): readonly string[] {
  const value = fields[name]
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : []
}

export function numberAt(fields: Fields, name: string): number | undefined {
  const value = fields[name]
  return typeof value === 'number' ? value : undefined
}

/** Milliseconds of an RFC 3339 time. */
export function timeAt(fields: Fields, name: string): number | undefined {
  const ms = Date.parse(textAt(fields, name) ?? '')
  return Number.isNaN(ms) ? undefined : ms
}

export function rfc3339(ms: number): string {
  return new Date(ms).toISOString()
}
