/**
 * Makes the pod of a server from its build's template: the template whole, with what the fleet adds to it. And the secret
 * that holds the configuration of its SDK, which can only be written once the pod has a node. Pure.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { PortPair } from '../../../src/rules/model/resources.js'
import { portName, sdkConfigFile, type SdkConfigInput, sdkEnvironment } from '../../../src/rules/game/sdk-config.js'
import { gameContainerOf, graceSecondsOf } from '../../../src/rules/validation/template.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import { apiVersionOf, type OwnerReference, pods as podType, secrets } from '../client/kube-objects.js'
import {
  annotationsOf,
  containerAnnotation,
  evictAnnotation,
  type Identity,
  labelsOf,
  type Names,
  namesOf,
} from '../pods/labels.js'

export interface PodSpecInput {
  readonly spec: InstanceSpec
  readonly ports: readonly PortPair[]
  readonly group: string
  /** Of the secret with the configuration. */
  readonly secret: string
  /** The custom resource of the server, so that the pod goes with it even when no host is there. */
  readonly owner: OwnerReference | undefined
  /** Servers keep together, so that nodes come to be empty. */
  readonly packed: boolean
}

const home = '/gamekeeper'
const configFolder = `${home}/config`
const configFile = 'gsdkConfig.json'
const folders: SdkConfigInput['folders'] = Object.freeze({
  logs: `${home}/GameLogs`,
  certificates: `${home}/GameCertificates`,
  sharedContent: `${home}/GameSharedContent`,
})
/** Keys of the secret besides the file: variables that only it may tell, or that only its writer knows. */
const kept = { SESSION_HOST_ID: 'sessionHostId', PUBLIC_IPV4_ADDRESS: 'publicAddress' } as const

const volumes = {
  config: 'gamekeeper-config',
  logs: 'gamekeeper-logs',
  certificates: 'gamekeeper-certificates',
  sharedContent: 'gamekeeper-content',
} as const

/** The name of the container that is the game server: as the template's annotation says, else the first. */
export function gameContainerName(template: InstanceSpec['template']): string {
  const named = objectAt(objectAt(template, 'metadata'), 'annotations')[containerAnnotation]
  const names = objectsAt(objectAt(template, 'spec'), 'containers').map(
    (container) => stringAt(container, 'name') ?? '',
  )
  return typeof named === 'string' && names.includes(named) ? named : (names[0] ?? '')
}

export function isOnHostNetwork(template: InstanceSpec['template']): boolean {
  return objectAt(template, 'spec')['hostNetwork'] === true
}

export function podOf(input: PodSpecInput): object {
  const { spec, ports, group, owner } = input
  const { template } = spec
  const names = namesOf(group)
  const identity: Identity = { ref: spec.ref, uid: spec.uid, container: gameContainerName(template), ports }
  const metadata = objectAt(template, 'metadata')
  const annotations = objectAt(metadata, 'annotations')
  const pod = objectAt(template, 'spec')
  return {
    apiVersion: apiVersionOf(podType),
    kind: podType.kind,
    metadata: {
      // Whatever else stands there is of an object that the template was taken from.
      ...{ name: spec.ref.name, namespace: spec.ref.namespace },
      labels: { ...objectAt(metadata, 'labels'), ...labelsOf(names, spec.build.name, identity) },
      annotations: { [evictAnnotation]: 'true', ...annotations, ...annotationsOf(names, identity) },
      // With `controller`, whoever drains a node knows that it is made anew.
      ...(owner && { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false }] }),
    },
    spec: {
      ...pod,
      // Whether there is to be another server is the fleet's to say.
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: graceSecondsOf(template),
      containers: objectsAt(pod, 'containers').map((one) => containerOf(one, input, identity, true)),
      ...(objectsAt(pod, 'initContainers').length > 0 && {
        initContainers: objectsAt(pod, 'initContainers').map((one) => containerOf(one, input, identity, false)),
      }),
      volumes: [...objectsAt(pod, 'volumes'), ...ownVolumes(input.secret)],
      ...(input.packed && { affinity: packedAffinity(objectAt(pod, 'affinity'), names) }),
    },
  }
}

/** Belongs to the pod, and goes with it. */
export function secretOf(
  name: string,
  spec: InstanceSpec,
  ports: readonly PortPair[],
  pod: { readonly uid: string; readonly node: string; readonly address: string },
): object {
  const { template, ref } = spec
  const hostNetwork = isOnHostNetwork(template)
  const sdk: SdkConfigInput = {
    ...spec.sdk,
    buildID: spec.build.buildID,
    server: ref,
    node: pod.node,
    publicAddress: pod.address,
    ports: ports.map((port) => ({
      name: portName(namingContainer(template), port.container),
      listening: hostNetwork ? port.public : port.container,
      public: port.public,
    })),
    folders,
  }
  return {
    apiVersion: apiVersionOf(secrets),
    kind: secrets.kind,
    // It is written once. Of one that may change, the kubelet keeps a watch open for as long as the pod is there.
    immutable: true,
    metadata: {
      ...{ name, namespace: ref.namespace },
      ownerReferences: [{ apiVersion: apiVersionOf(podType), kind: podType.kind, name: ref.name, uid: pod.uid }],
    },
    stringData: {
      [configFile]: JSON.stringify(sdkConfigFile(sdk), undefined, 2),
      [kept.SESSION_HOST_ID]: spec.sdk.sessionHostId,
      [kept.PUBLIC_IPV4_ADDRESS]: pod.address,
    },
  }
}

/** As if all ports of the template were the game server's: a port may be opened by another container for it. */
function namingContainer(template: InstanceSpec['template']): ReturnType<typeof gameContainerOf> {
  const containers = objectsAt(objectAt(template, 'spec'), 'containers')
  const game = containers.find(({ name }) => name === gameContainerName(template)) ?? {}
  const others = containers.filter((container) => container !== game)
  const ports = [game, ...others].flatMap((container) => objectsAt(container, 'ports'))
  return gameContainerOf({ spec: { containers: [{ ...game, ports }] } })
}

function containerOf(container: Fields, input: PodSpecInput, { container: game }: Identity, isMain: boolean): object {
  const isGame = isMain && stringAt(container, 'name') === game
  return {
    ...container,
    env: environmentOf(container, input),
    ...(isMain && { ports: portsOf(container, input, isGame) }),
    volumeMounts: [...objectsAt(container, 'volumeMounts'), ...ownMounts],
  }
}

/** Ours first, so that the template's values may name them; what the SDK would set to nothing is left to the template. */
function environmentOf(container: Fields, { spec, ports, secret }: PodSpecInput): readonly object[] {
  const hostNetwork = isOnHostNetwork(spec.template)
  const told = sdkEnvironment({
    ...spec.sdk,
    ...{ buildID: spec.build.buildID, server: spec.ref, ports: [], folders },
    ...{ node: '', publicAddress: '' },
  })
  const template = objectsAt(container, 'env')
  const isLeft = (name: string) => told[name] === '' && !(name in kept) && name !== 'PF_VM_ID'
  const own = Object.entries(told)
    .filter(([name]) => !isLeft(name) || !template.some((entry) => entry['name'] === name))
    .map(([name, value]) => ({ name, ...sourceOf(name, value, secret) }))
  const more = [
    { name: 'GSDK_CONFIG_FILE', value: `${configFolder}/${configFile}` },
    ...ports.map((port) => ({
      name: `PORT_${port.container}`,
      value: String(hostNetwork ? port.public : port.container),
    })),
  ]
  const all = [...own, ...more]
  return [...all, ...template.filter((entry) => !all.some(({ name }) => name === entry['name']))]
}

function sourceOf(name: string, value: string, secret: string): object {
  if (name === 'SESSION_HOST_ID' || name === 'PUBLIC_IPV4_ADDRESS') {
    return { valueFrom: { secretKeyRef: { name: secret, key: kept[name] } } }
  }
  if (name === 'PF_VM_ID') return { valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }
  return { value }
}

/** A number is one for both, whatever the template says: the build's ports name no protocol. */
const protocols = ['TCP', 'UDP'] as const

function portsOf(container: Fields, { spec, ports }: PodSpecInput, isGame: boolean): readonly object[] {
  const hostNetwork = isOnHostNetwork(spec.template)
  const containers = objectsAt(objectAt(spec.template, 'spec'), 'containers')
  const isOpenedBy = (one: Fields, number: number) =>
    objectsAt(one, 'ports').some(({ containerPort }) => containerPort === number)
  const written = objectsAt(container, 'ports')
  const exposed = ports.filter(
    (port) =>
      isOpenedBy(container, port.container) || (isGame && !containers.some((one) => isOpenedBy(one, port.container))),
  )
  const others = written.filter((entry) => !exposed.some((port) => port.container === entry['containerPort']))
  const opened = exposed.flatMap((port) => {
    // On the node's own network there is nothing in between: the game listens on the number itself.
    const number = { containerPort: hostNetwork ? port.public : port.container, hostPort: port.public }
    const entries = written.filter(({ containerPort }) => containerPort === port.container)
    const missing = protocols.filter((protocol) => !entries.some((entry) => (entry['protocol'] ?? 'TCP') === protocol))
    return [
      ...entries.map((entry) => ({ ...entry, ...number })),
      ...missing.map((protocol) => ({ ...number, protocol })),
    ]
  })
  return [...others, ...opened]
}

/** Numbers of its node that the template asks for itself, but for those that the fleet replaces. */
export function templatePorts({ template, portsToExpose }: InstanceSpec): readonly number[] {
  const pod = objectAt(template, 'spec')
  const containers = [...objectsAt(pod, 'containers'), ...objectsAt(pod, 'initContainers')]
  return containers
    .flatMap((container) => objectsAt(container, 'ports'))
    .filter(({ containerPort }) => !portsToExpose.some((port) => port === containerPort))
    .flatMap(({ containerPort, hostPort = isOnHostNetwork(template) ? containerPort : undefined }) =>
      typeof hostPort === 'number' ? [hostPort] : [],
    )
}

const mount = (name: string, mountPath: string) => ({ name, mountPath })
const ownMounts = [
  { ...mount(volumes.config, configFolder), readOnly: true },
  mount(volumes.logs, folders.logs),
  mount(volumes.certificates, folders.certificates),
  mount(volumes.sharedContent, folders.sharedContent),
] as const

function ownVolumes(secretName: string): readonly object[] {
  const emptied = [volumes.logs, volumes.certificates, volumes.sharedContent]
  return [{ name: volumes.config, secret: { secretName } }, ...emptied.map((name) => ({ name, emptyDir: {} }))]
}

/** The name of the secret that a pod waits for. */
export function secretNameOf(pod: unknown): string | undefined {
  const found = objectsAt(objectAt(isObject(pod) ? pod : {}, 'spec'), 'volumes').find(
    ({ name }) => name === volumes.config,
  )
  return found && stringAt(objectAt(found, 'secret'), 'secretName')
}

/** Prefers nodes that have servers already, so that others come to be empty and can go. */
function packedAffinity(affinity: Fields, names: Names): object {
  const podAffinity = objectAt(affinity, 'podAffinity')
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution'
  const ours = {
    weight: 100,
    podAffinityTerm: {
      topologyKey: 'kubernetes.io/hostname',
      labelSelector: { matchExpressions: [{ key: names.server, operator: 'Exists' }] },
    },
  }
  return { ...affinity, podAffinity: { ...podAffinity, [preferred]: [...objectsAt(podAffinity, preferred), ours] } }
}
