/** The custom resources defined in `crds.yaml`, and owner references to their objects. Pure. */
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import {
  apiVersionOf,
  type KubeObject,
  type OwnerReference,
  type ResourceType,
  resourceType,
} from '../../client/kube-objects.js'

export interface FleetResources {
  readonly builds: ResourceType
  readonly servers: ResourceType
  readonly details: ResourceType
  readonly allocations: ResourceType
  readonly journals: ResourceType
  /** Label on servers, details and pods with the name of their build. */
  readonly buildLabel: string
  /** Annotation on builds created by this store with the record's uid, used until the object's status contains the uid. */
  readonly createdAsAnnotation: string
  /** Annotation on builds by which an operator gives them to the fleet with this system namespace. */
  readonly homeAnnotation: string
}

/** `group` is the API group of the installed definitions. Default: the group in `crds.yaml`. */
export function fleetResources(group: string = defaultApiGroup): FleetResources {
  return Object.freeze({
    builds: resourceType(group, 'v1alpha1', 'gameserverbuilds', 'GameServerBuild'),
    servers: resourceType(group, 'v1alpha1', 'gameservers', 'GameServer'),
    details: resourceType(group, 'v1alpha1', 'gameserverdetails', 'GameServerDetail'),
    allocations: resourceType(group, 'v1alpha1', 'gameserverallocations', 'GameServerAllocation'),
    journals: resourceType(group, 'v1alpha1', 'gameserverjournals', 'GameServerJournal'),
    buildLabel: `${group}/build`,
    createdAsAnnotation: `${group}/made-as`,
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
