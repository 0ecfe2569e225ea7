/**
 * Builds the pod for a server from its build's complete template plus what the fleet adds, and the Secret with the game's SDK configuration.
 * Pure.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import {
  type GameFolders,
  type Platform,
  portName,
  sdkConfigFile,
  type SdkConfigInput,
  sdkEnvironment,
} from '../../../src/rules/game/sdk-config.js'
import type { PodTemplateSpec, PortPair } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import {
  type Fields,
  gameContainerOf,
  graceSecondsOf,
  objectAt,
  objectsAt,
  stringAt,
} from '../../../src/rules/validation/pod-template.js'
import { platformOn, type PlatformOptions } from '../../shared/option-reader.js'
import { apiVersionOf, type OwnerReference, pods as podType, secrets, typeMetaOf } from '../client/kube-objects.js'
import {
  annotationsOf,
  containerAnnotation,
  evictAnnotation,
  type Identity,
  labelsOf,
  type Names,
  namesOf,
  protectionOf,
} from '../pods/pod-objects.js'

/** `packed`: prefer nodes that already run servers, so that empty nodes can be removed. `distributed`: no preference. */
export const schedulings = ['packed', 'distributed'] as const
export type Scheduling = (typeof schedulings)[number]

interface PodSpecInput extends ContainerSpecInput {
  readonly group: string
  /**
   * Reference to the GameServer object. With it, the garbage collector deletes the pod when that object is deleted, even if
   * no host is running.
   */
  readonly owner: OwnerReference | undefined
  readonly scheduling: Scheduling
  /** Names of the nodes on which another program holds one of the public ports. */
  readonly refusingNodes: readonly string[]
}

export function podOf(input: PodSpecInput): object {
  const { spec, ports, group, owner } = input
  const { template } = spec
  const names = namesOf(group)
  const identity: Identity = { ref: spec.ref, uid: spec.uid, container: gameContainerName(template), ports }
  const metadata = objectAt(template, 'metadata')
  // A number belongs to one pod, so a template cannot set it.
  const { [names.instanceNumber]: _, ...annotations } = objectAt(metadata, 'annotations')
  const evict = stringAt(annotations, evictAnnotation)
  const pod = objectAt(template, 'spec')
  const initContainers = objectsAt(pod, 'initContainers')
  const mark = spec.isProtected ? protectionOf(names) : undefined
  const roleOf = (container: Fields) => (stringAt(container, 'name') === identity.container ? 'game' : 'main')
  return {
    ...typeMetaOf(podType),
    metadata: {
      // Only labels and annotations are copied from the template's metadata; other fields, such as its name, do not apply to
      // the pod.
      name: spec.ref.name,
      namespace: spec.ref.namespace,
      labels: {
        ...objectAt(metadata, 'labels'),
        ...labelsOf(names, spec.build.name, identity),
        ...mark?.labels,
      },
      annotations: {
        [evictAnnotation]: 'true',
        ...annotations,
        ...annotationsOf(names, identity),
        ...(evict !== undefined && { [names.evict]: evict }),
        ...mark?.annotations,
      },
      // `controller` tells `kubectl drain` that the pod is managed and may be evicted.
      ...(owner && { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false }] }),
    },
    spec: {
      ...(!asksForAccount(pod) && { automountServiceAccountToken: false }),
      ...pod,
      // The fleet itself replaces servers that exit.
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: graceSecondsOf(template),
      containers: objectsAt(pod, 'containers').map((one) => completeContainer(one, input, roleOf(one))),
      ...(initContainers.length > 0 && {
        initContainers: initContainers.map((one) => completeContainer(one, input, 'init')),
      }),
      volumes: [...objectsAt(pod, 'volumes'), ...sdkVolumes(input.secret)],
      ...affinityOf(objectAt(pod, 'affinity'), names, input),
    },
  }
}

/** A game gets a token for the API server only if its template names an account, or asks for the token. */
function asksForAccount(pod: Fields): boolean {
  return ['serviceAccountName', 'serviceAccount', 'automountServiceAccountToken'].some((field) =>
    Object.hasOwn(pod, field),
  )
}

function affinityOf(affinity: Fields, names: Names, { scheduling, refusingNodes }: PodSpecInput): object {
  const packed = scheduling === 'packed' ? packedAffinity(affinity, names) : affinity
  const complete = refusingNodes.length > 0 ? avoidingNodes(packed, refusingNodes) : packed
  return Object.keys(complete).length > 0 ? { affinity: complete } : {}
}

/** Adds a preference for nodes that already run servers of the fleet. */
function packedAffinity(affinity: Fields, names: Names): Fields {
  const podAffinity = objectAt(affinity, 'podAffinity')
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution'
  const nearServers = {
    weight: 100,
    podAffinityTerm: {
      topologyKey: 'kubernetes.io/hostname',
      labelSelector: { matchExpressions: [{ key: names.server, operator: 'Exists' }] },
    },
  }
  return {
    ...affinity,
    podAffinity: { ...podAffinity, [preferred]: [...objectsAt(podAffinity, preferred), nearServers] },
  }
}

/**
 * Keeps the pod away from these nodes. The terms of a required node affinity are alternatives, so each of them gets the
 * requirement.
 */
function avoidingNodes(affinity: Fields, nodes: readonly string[]): Fields {
  const nodeAffinity = objectAt(affinity, 'nodeAffinity')
  const required = 'requiredDuringSchedulingIgnoredDuringExecution'
  const terms = objectsAt(objectAt(nodeAffinity, required), 'nodeSelectorTerms')
  const others = nodes.map((node) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] }))
  const nodeSelectorTerms = (terms.length > 0 ? terms : [{}]).map((term) => ({
    ...term,
    matchFields: [...objectsAt(term, 'matchFields'), ...others],
  }))
  return { ...affinity, nodeAffinity: { ...nodeAffinity, [required]: { nodeSelectorTerms } } }
}

interface ContainerSpecInput {
  readonly spec: InstanceSpec
  readonly ports: readonly PortPair[]
  /** Name of the SDK secret. */
  readonly secret: string
  readonly platform: PlatformOptions
}

/**
 * `game`: the game server's container. `main`: any other container that is not an init container; its ports are exposed too.
 */
type ContainerRole = 'game' | 'main' | 'init'

/** Adds the SDK's environment variables, ports and mounts to a container from the template. Pure. */
function completeContainer(container: Fields, input: ContainerSpecInput, role: ContainerRole): object {
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

interface ScheduledPod {
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

/** Where containers find the SDK's configuration and folders. */
const root = '/gamekeeper'
const configFolder = `${root}/config`

const configFile = 'gsdkConfig.json'
const configPath = `${configFolder}/${configFile}`

const folders: GameFolders = Object.freeze({
  logs: `${root}/GameLogs`,
  dumps: `${root}/GameLogs/Dumps`,
  certificates: `${root}/GameCertificates`,
  sharedContent: `${root}/GameSharedContent`,
})

/**
 * Environment variables read from the secret, with their keys in it. They are confidential, or known only after the pod is
 * scheduled.
 */
const secretKeys: Readonly<Record<string, keyof SecretValues>> = {
  SESSION_HOST_ID: 'sessionHostId',
  PUBLIC_IPV4_ADDRESS: 'publicAddress',
  PF_PUBLIC_IPV4_ADDRESS: 'publicAddress',
  PF_SERVER_INSTANCE_NUMBER: 'instanceNumber',
  PF_REGION: 'region',
  PF_FQDN: 'fullyQualifiedDomainName',
}

/** What the secret contains besides the configuration file. */
interface SecretValues {
  readonly sessionHostId: string
  readonly publicAddress: string
  readonly instanceNumber: string
  readonly region: string
  readonly fullyQualifiedDomainName: string
}

const volumeNames = {
  config: 'gamekeeper-config',
  logs: 'gamekeeper-logs',
  /** Mounted inside the log folder. */
  dumps: 'gamekeeper-dumps',
  certificates: 'gamekeeper-certificates',
  sharedContent: 'gamekeeper-content',
} as const

const mount = (name: string, mountPath: string) => ({ name, mountPath })

const sdkMounts = [
  { ...mount(volumeNames.config, configFolder), readOnly: true },
  mount(volumeNames.logs, folders.logs),
  mount(volumeNames.dumps, folders.dumps),
  mount(volumeNames.certificates, folders.certificates),
  mount(volumeNames.sharedContent, folders.sharedContent),
] as const

export function sdkVolumes(secretName: string): readonly object[] {
  const empty = [volumeNames.logs, volumeNames.dumps, volumeNames.certificates, volumeNames.sharedContent]
  return [{ name: volumeNames.config, secret: { secretName } }, ...empty.map((name) => ({ name, emptyDir: {} }))]
}

/** Name of the SDK secret that the pod mounts. */
export function secretNameOf(pod: unknown): string | undefined {
  const volume = objectsAt(objectAt(isObject(pod) ? pod : {}, 'spec'), 'volumes').find(
    ({ name }) => name === volumeNames.config,
  )
  return volume && stringAt(objectAt(volume, 'secret'), 'secretName')
}

/** Name of the game server's container: the one named by the template's annotation, or the first container. */
function gameContainerName(template: PodTemplateSpec): string {
  const named = objectAt(objectAt(template, 'metadata'), 'annotations')[containerAnnotation]
  const names = objectsAt(objectAt(template, 'spec'), 'containers').map(
    (container) => stringAt(container, 'name') ?? '',
  )
  return typeof named === 'string' && names.includes(named) ? named : (names[0] ?? '')
}

export function isOnHostNetwork(template: PodTemplateSpec): boolean {
  return objectAt(template, 'spec')['hostNetwork'] === true
}

/** Host ports that the template itself requests, except those that the fleet replaces with its own. */
export function fixedHostPorts({ template, portsToExpose }: InstanceSpec): readonly number[] {
  const pod = objectAt(template, 'spec')
  const containers = [...objectsAt(pod, 'containers'), ...objectsAt(pod, 'initContainers')]
  return containers
    .flatMap((container) => objectsAt(container, 'ports'))
    .filter(({ containerPort }) => !portsToExpose.some((port) => port === containerPort))
    .flatMap(({ containerPort, hostPort = isOnHostNetwork(template) ? containerPort : undefined }) =>
      typeof hostPort === 'number' ? [hostPort] : [],
    )
}
