/** Who owns what: what a build has goes with the build, also while no host is there to end it. Pure. */
import { apiVersionOf, type KubeObject, type OwnerReference, type ResourceType } from '../client/kube-objects.js'

/** Names this object as the owner of others. Undefined for one that the API server never saw. */
export function ownerOf(resource: ResourceType, { metadata }: KubeObject): OwnerReference | undefined {
  const { name, uid } = metadata
  if (uid === undefined) return undefined
  return Object.freeze({ apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true })
}
