/** Builds the secret with a game's SDK configuration, which can be completed only after the pod is scheduled. Pure. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { type Platform, portName, sdkConfigFile, type SdkConfigInput } from '../../../src/rules/game/sdk-config.js'
import type { PortPair } from '../../../src/rules/model/resources.js'
import { objectAt, objectsAt } from '../../../src/rules/validation/template-shape.js'
import { gameContainerOf } from '../../../src/rules/validation/template.js'
import { apiVersionOf, pods as podType, secrets, typeMetaOf } from '../client/kube-objects.js'
import { configFile, folders, type SecretValues } from './sdk-files.js'
import { gameContainerName, isOnHostNetwork } from './template.js'

export interface ScheduledPod {
  readonly uid: string
  readonly node: string
  /** The address that players connect to. */
  readonly address: string
  readonly instanceNumber: number
  readonly platform: Platform
}

/** The pod owns the secret, so that both are deleted together. */
export function secretOf(name: string, spec: InstanceSpec, ports: readonly PortPair[], pod: ScheduledPod): object {
  const { template, ref } = spec
  const hostNetwork = isOnHostNetwork(template)
  const sdk: SdkConfigInput = {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: ref,
    node: pod.node,
    instanceNumber: pod.instanceNumber,
    platform: pod.platform,
    publicAddress: pod.address,
    ports: ports.map((port) => ({
      name: portName(withPortsOfAllContainers(template), port.container),
      listening: hostNetwork ? port.public : port.container,
      public: port.public,
    })),
    folders,
  }
  const values: SecretValues = {
    sessionHostId: spec.sdk.sessionHostId,
    publicAddress: pod.address,
    instanceNumber: String(pod.instanceNumber),
    region: pod.platform.region,
    fullyQualifiedDomainName: pod.platform.fullyQualifiedDomainName,
  }
  return {
    ...typeMetaOf(secrets),
    // The kubelet keeps a watch open for each mutable secret that a pod mounts; immutable secrets avoid that load.
    immutable: true,
    metadata: {
      name,
      namespace: ref.namespace,
      ownerReferences: [{ apiVersion: apiVersionOf(podType), kind: podType.kind, name: ref.name, uid: pod.uid }],
    },
    stringData: { [configFile]: JSON.stringify(sdkConfigFile(sdk), undefined, 2), ...values },
  }
}

/**
 * Returns the game's container with the ports of all containers added, to find the ports' names: another container may
 * declare a port for the game.
 */
function withPortsOfAllContainers(template: InstanceSpec['template']): ReturnType<typeof gameContainerOf> {
  const containers = objectsAt(objectAt(template, 'spec'), 'containers')
  const game = containers.find(({ name }) => name === gameContainerName(template)) ?? {}
  const others = containers.filter((container) => container !== game)
  const ports = [game, ...others].flatMap((container) => objectsAt(container, 'ports'))
  return gameContainerOf({ spec: { containers: [{ ...game, ports }] } })
}
