/** Adds the SDK's environment variables, ports and mounts to a container from the template. Pure. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { sdkEnvironment } from '../../../src/rules/game/sdk-config.js'
import type { PortPair } from '../../../src/rules/model/resources.js'
import { type Fields, objectAt, objectsAt } from '../../../src/rules/validation/template-shape.js'
import { platformOn, type PlatformOptions } from '../../shared/platform-options.js'
import { configPath, folders, sdkMounts, secretKeys } from './sdk-files.js'
import { isOnHostNetwork } from './template.js'

export interface ContainerSpecInput {
  readonly spec: InstanceSpec
  readonly ports: readonly PortPair[]
  /** Name of the SDK secret. */
  readonly secret: string
  readonly platform: PlatformOptions
}

/**
 * `game`: the game server's container. `main`: any other container that is not an init container; its ports are exposed too.
 */
export type ContainerRole = 'game' | 'main' | 'init'

export function completeContainer(container: Fields, input: ContainerSpecInput, role: ContainerRole): object {
  return {
    ...container,
    env: environmentOf(container, input),
    ...(role !== 'init' && { ports: portsOf(container, input, role === 'game') }),
    volumeMounts: [...objectsAt(container, 'volumeMounts'), ...sdkMounts],
  }
}

/**
 * The SDK's variables come first, so that values in the template can refer to them. They override variables of the same name
 * in the template, except where the SDK's value is empty.
 */
function environmentOf(container: Fields, input: ContainerSpecInput): readonly object[] {
  const { spec, ports, secret, platform } = input
  const hostNetwork = isOnHostNetwork(spec.template)
  const sdk = sdkEnvironment({
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: spec.ref,
    ports: [],
    folders,
    node: unscheduled,
    publicAddress: unscheduled,
    instanceNumber: 0,
    platform: platformOn(unscheduled, platform),
  })
  const template = objectsAt(container, 'env')
  const isEmpty = (name: string) => sdk[name] === ''
  const variables = Object.entries(sdk)
    .filter(([name]) => !isEmpty(name) || !template.some((entry) => entry['name'] === name))
    .map(([name, value]) => ({ name, ...sourceOf(name, value, secret) }))
  const portVariables = ports.map((port) => ({
    name: `PORT_${port.container}`,
    value: String(hostNetwork ? port.public : port.container),
  }))
  const own = [...variables, { name: 'GSDK_CONFIG_FILE', value: configPath }, ...portVariables]
  return [...own, ...template.filter((entry) => !own.some(({ name }) => name === entry['name']))]
}

/** Placeholder for a node that is not known yet. Never appears in a pod: these variables come from the secret or the pod. */
const unscheduled = 'unscheduled'

function sourceOf(name: string, value: string, secret: string): object {
  const key = secretKeys[name]
  if (key !== undefined) return { valueFrom: { secretKeyRef: { name: secret, key } } }
  if (name === 'PF_VM_ID') return { valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }
  return { value }
}

/** Every exposed port is opened for both protocols, because a build's ports do not specify one. */
const protocols = ['TCP', 'UDP'] as const

/** An exposed port belongs to the container that declares it, or to the game's container if none does. */
function portsOf(container: Fields, { spec, ports }: ContainerSpecInput, isGame: boolean): readonly object[] {
  const hostNetwork = isOnHostNetwork(spec.template)
  const containers = objectsAt(objectAt(spec.template, 'spec'), 'containers')
  const declares = (one: Fields, number: number) =>
    objectsAt(one, 'ports').some(({ containerPort }) => containerPort === number)
  const declared = objectsAt(container, 'ports')
  const exposed = ports.filter(
    (port) =>
      declares(container, port.container) || (isGame && !containers.some((one) => declares(one, port.container))),
  )
  const others = declared.filter((entry) => !exposed.some((port) => port.container === entry['containerPort']))
  const opened = exposed.flatMap((port) => {
    // On the host network ports are not mapped: the game listens on the public port itself.
    const numbers = { containerPort: hostNetwork ? port.public : port.container, hostPort: port.public }
    const entries = declared.filter(({ containerPort }) => containerPort === port.container)
    const missing = protocols.filter((protocol) => !entries.some((entry) => (entry['protocol'] ?? 'TCP') === protocol))
    return [
      ...entries.map((entry) => ({ ...entry, ...numbers })),
      ...missing.map((protocol) => ({ ...numbers, protocol })),
    ]
  })
  return [...others, ...opened]
}
