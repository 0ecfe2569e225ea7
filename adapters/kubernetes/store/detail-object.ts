/** A Detail record as a GameServerDetail object, and back. Pure. */
import type { Detail } from '../../../src/rules/model/resources.js'
import { fieldsAt, type FleetResources, headOf, textAt, textsAt } from './custom-resources.js'
import type { KubeObject, OwnerReference } from '../client/kube-objects.js'

/** Undefined when it is none that could be read. */
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
    ...headOf(resources.details),
    metadata: {
      name,
      namespace,
      labels: { [resources.buildLabel]: build },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: detailSpec(detail),
  }
}

export function detailSpec({ build, players }: Detail, upon?: string): object {
  return { build, connectedPlayersCount: players.length, connectedPlayers: players, writtenUpon: upon }
}
