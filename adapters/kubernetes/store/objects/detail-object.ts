/** Converts between Detail records and GameServerDetail objects. Pure. */
import type { Detail } from '../../../../src/rules/model/resources.js'
import { fieldsAt, textAt, textsAt } from '../../client/fields.js'
import { type KubeObject, type OwnerReference, typeMetaOf } from '../../client/kube-objects.js'
import type { FleetResources } from './custom-resources.js'

/** Returns undefined if the object is not a valid detail. */
export function readDetail(object: KubeObject): Detail | undefined {
  const { name, namespace } = object.metadata
  const spec = fieldsAt(object, 'spec')
  const build = textAt(spec, 'build')
  if (namespace === undefined || build === undefined) return undefined
  return { namespace, name, build, players: textsAt(spec, 'connectedPlayers') }
}

export function newDetailObject(detail: Detail, resources: FleetResources, owner: OwnerReference | undefined): object {
  const { name, namespace, build } = detail
  return {
    ...typeMetaOf(resources.details),
    metadata: {
      name,
      namespace,
      labels: { [resources.buildLabel]: build },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: detailSpec(detail),
  }
}

/**
 * `basedOn` is the revision that the write replaces. Including it changes the object, so that every write gets a new
 * revision.
 */
export function detailSpec({ build, players }: Detail, basedOn?: string): object {
  return { build, connectedPlayersCount: players.length, connectedPlayers: players, writtenUpon: basedOn }
}
