/** The custom resources of `crds.yaml`, and references to their objects. Pure. */
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
  /** On servers, details and pods: name of their build. */
  readonly buildLabel: string
  /** On builds created by this store: the record's uid, until the object's status contains it. */
  readonly createdAsAnnotation: string
}

/** `group`: the API group of the installed definitions. Default: that of `crds.yaml`. */
export function fleetResources(group: string = defaultApiGroup): FleetResources {
  return Object.freeze({
    builds: resourceType(group, 'v1alpha1', 'gameserverbuilds', 'GameServerBuild'),
    servers: resourceType(group, 'v1alpha1', 'gameservers', 'GameServer'),
    details: resourceType(group, 'v1alpha1', 'gameserverdetails', 'GameServerDetail'),
    buildLabel: `${group}/build`,
    createdAsAnnotation: `${group}/made-as`,
  })
}

/** Makes this object the owner of another, which is then deleted with it. Undefined for an object not yet created. */
export function ownerReferenceTo(resource: ResourceType, { metadata }: KubeObject): OwnerReference | undefined {
  const { name, uid } = metadata
  if (uid === undefined) return undefined
  return Object.freeze({ apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true })
}
