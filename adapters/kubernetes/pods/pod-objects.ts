/** The pods of the fleet: the fields that this adapter reads, and the labels and annotations that identify a pod as a server. Pure. */
import { isDeepStrictEqual } from 'node:util'
import type { Instance, RecordedInstance } from '../../../src/contracts/backend.js'
import { readInstanceNumber } from '../../../src/rules/game/sdk-config.js'
import { keyOf, type PortPair, type Ref } from '../../../src/rules/model/resources.js'
import { formatPortPairs, parsePortPairs } from '../../shared/public-ports.js'
import {
  type Condition,
  conditionsOfTypes,
  hasObjectShape,
  type KubeObject,
  type ObjectMeta,
  type Optional,
  type OwnerReference,
} from '../client/kube-objects.js'

/** A pod of the fleet as last reported by the API server. */
export interface PodSnapshot {
  readonly identity: Identity
  readonly pod: Pod
  readonly instance: Instance
  /** The pod's uid, not the server's. */
  readonly podUid: string
  /** The pod's resourceVersion, as a number. */
  readonly revision: number
}

export interface Identity {
  readonly ref: Ref
  /** The server's uid, not the pod's. */
  readonly uid: string
  /** Name of the container whose exit ends the server. */
  readonly container: string
  /** In the same order as `portsToExpose`. */
  readonly ports: readonly PortPair[]
  /** The server's number on its node. Missing until the pod is scheduled. */
  readonly instanceNumber?: number
}

export function publicPortsOf({ ports }: Identity): readonly number[] {
  return ports.map((port) => port.public)
}

export type Names = ReturnType<typeof namesOf>

/** Label keys are prefixed with the API group, so that fleets with different groups do not see each other's pods. */
export function namesOf(group: string) {
  return {
    build: `${group}/build`,
    server: `${group}/server`,
    uid: `${group}/uid`,
    ports: `${group}/ports`,
    instanceNumber: `${group}/instance-number`,
    /** Label set to `true` when players may be connected, or always for `eviction: 'never'`; PodDisruptionBudgets select it. */
    active: `${group}/active`,
    /** Annotation with what the template says about evictions, if it does. */
    evict: `${group}/safe-to-evict`,
    /** Label set to `true` on the leader's own pod; Services select it. */
    leader: `${group}/leader`,
    /** Label on pods that pull images and are no servers: the name of the build whose images they pull. */
    imagePull: `${group}/image-pull`,
  } as const
}

/** Selects the container whose log kubectl shows by default. In a template, it names the game server's container. */
export const containerAnnotation = 'kubectl.kubernetes.io/default-container'

/** Tells the cluster autoscaler whether it may evict the pod. */
export const evictAnnotation = 'cluster-autoscaler.kubernetes.io/safe-to-evict'

/** What `protectionOf` sets, without the protection. The pod remembers what its template says about evictions. */
export function unprotectedOf(names: Names, annotations: Readonly<Record<string, string>>) {
  const evict = annotations[names.evict] ?? 'true'
  return { labels: { [names.active]: null }, annotations: { [evictAnnotation]: evict } } as const
}

/** The labels and annotations that protect a pod from eviction. */
export function protectionOf(names: Names) {
  return { labels: { [names.active]: 'true' }, annotations: { [evictAnnotation]: 'false' } } as const
}

export function labelsOf(names: Names, build: string, { ref, uid }: Identity): Readonly<Record<string, string>> {
  return { [names.build]: build, [names.server]: ref.name, [names.uid]: uid }
}

/** Identifies the pod's build: the group of the API calls that change the pod. */
export function buildKeyOf(names: Names, { identity, pod }: PodSnapshot): string {
  return keyOf({ namespace: identity.ref.namespace, name: pod.metadata?.labels?.[names.build] ?? '' })
}

export function annotationsOf(names: Names, identity: Identity): Readonly<Record<string, string>> {
  const { ports, container, instanceNumber } = identity
  return {
    [names.ports]: formatPortPairs(ports),
    [containerAnnotation]: container,
    ...(instanceNumber !== undefined && instanceNumberAnnotation(names, instanceNumber)),
  }
}

export function instanceNumberAnnotation(names: Names, number: number): Readonly<Record<string, string>> {
  return { [names.instanceNumber]: String(number) }
}

/** Adds the pod's number to its identity, unless the identity already contains one: a pod keeps its number. */
export function withInstanceNumber(names: Names, identity: Identity, { metadata }: Pod): Identity {
  if (identity.instanceNumber !== undefined) return identity
  const instanceNumber = readInstanceNumber(metadata?.annotations?.[names.instanceNumber])
  return instanceNumber === undefined ? identity : { ...identity, instanceNumber }
}

/** Returns undefined if the pod does not belong to this fleet. */
export function identityOf(names: Names, { metadata = {}, spec }: Pod): Identity | undefined {
  const { name, namespace, labels = {}, annotations = {} } = metadata
  const uid = labels[names.uid]
  const ports = parsePortPairs(annotations[names.ports] ?? '')
  if (name === undefined || namespace === undefined || uid === undefined || !ports) return undefined
  const identity = { ref: { namespace, name }, uid, container: containerOf(annotations, spec), ports }
  return withInstanceNumber(names, identity, { metadata })
}

/**
 * Recovers the identity of a pod that has a known server's name, even if its labels were changed. Returns undefined if the
 * pod belongs to another server.
 */
export function recoverIdentity(
  names: Names,
  { ref, uid, ports }: RecordedInstance,
  owner: OwnerReference | undefined,
  object: KubeObject,
): Identity | undefined {
  const { labels = {}, annotations = {}, ownerReferences = [] } = object.metadata
  const labelled = labels[names.uid]
  const isOwned = owner !== undefined && ownerReferences.some((reference) => reference.uid === owner.uid)
  const isUnclaimed = labelled === undefined && ownerReferences.length === 0
  if (labelled !== uid && !isOwned && !isUnclaimed) return undefined
  const container = containerOf(annotations, podIn(object)?.spec)
  return { ref, uid, container, ports: parsePortPairs(annotations[names.ports]) ?? ports }
}

/**
 * The labels and annotations to restore so that the pod can be identified again, and the keys of those that were changed or removed. Undefined
 * if all are intact.
 */
export function missingLabelsOf(names: Names, identity: Identity, pod: Pod) {
  const { labels = {}, annotations = {} } = pod.metadata ?? {}
  const { ref, uid } = identity
  if (labels[names.server] === ref.name && isDeepStrictEqual(identityOf(names, pod), identity)) return undefined
  const wanted = {
    labels: { [names.server]: ref.name, [names.uid]: uid },
    annotations: annotationsOf(names, identity),
  }
  const keys = [
    ...Object.entries(wanted.labels).filter(([key, value]) => labels[key] !== value),
    ...Object.entries(wanted.annotations).filter(([key, value]) => annotations[key] !== value),
  ].map(([key]) => key)
  return { keys, ...wanted }
}

function containerOf(annotations: Readonly<Record<string, string>>, spec: Pod['spec']): string {
  return annotations[containerAnnotation] ?? spec?.containers?.[0]?.name ?? ''
}

export type ContainerState = Optional<{
  waiting: Optional<{ reason: string; message: string }>
  running: object
  terminated: Optional<{ exitCode: number; reason: string; message: string; finishedAt: string }>
}>

export type ContainerStatus = Optional<{ name: string; state: ContainerState }>

type ContainerPort = Optional<{ hostPort: number }>

export type Pod = Optional<{
  metadata: ObjectMeta
  spec: Optional<{
    nodeName: string
    hostNetwork: boolean
    containers: readonly Optional<{
      name: string
      resources: Optional<{ limits: Readonly<Record<string, string>> }>
      ports: readonly ContainerPort[]
    }>[]
    initContainers: readonly Optional<{ restartPolicy: string; ports: readonly ContainerPort[] }>[]
    volumes: readonly Optional<{ name: string; secret: Optional<{ secretName: string }> }>[]
  }>
  status: Optional<{
    phase: string
    hostIP: string
    reason: string
    message: string
    conditions: readonly Condition[]
    initContainerStatuses: readonly ContainerStatus[]
    containerStatuses: readonly ContainerStatus[]
  }>
}>

/** Keeps the fields that this adapter reads. */
export function podIn(value: unknown): Pod | undefined {
  if (!isPod(value)) return undefined
  const { metadata = {}, spec = {}, status = {} } = value
  const { name, namespace, uid, labels, annotations, deletionTimestamp, deletionGracePeriodSeconds } = metadata
  const { nodeName, hostNetwork, containers, initContainers, volumes } = spec
  const { phase, hostIP, reason, message, conditions, initContainerStatuses, containerStatuses } = status
  return {
    metadata: { name, namespace, uid, labels, annotations, deletionTimestamp, deletionGracePeriodSeconds },
    spec: {
      nodeName,
      hostNetwork,
      containers: containers?.map((container) => ({
        name: container.name,
        resources: container.resources?.limits && { limits: container.resources.limits },
        ports: hostPortsIn(container.ports),
      })),
      initContainers: initContainers?.map(({ restartPolicy, ports }) => ({ restartPolicy, ports: hostPortsIn(ports) })),
      volumes: volumes
        ?.filter(({ secret }) => secret)
        .map((volume) => ({ name: volume.name, secret: { secretName: volume.secret?.secretName } })),
    },
    status: {
      phase,
      hostIP,
      reason,
      message,
      conditions: conditionsOfTypes(conditions, ['DisruptionTarget', 'PodScheduled', 'Ready']),
      initContainerStatuses: initContainerStatuses?.map(containerStatusIn),
      containerStatuses: containerStatuses?.map(containerStatusIn),
    },
  }
}

function isPod(value: unknown): value is Pod {
  return hasObjectShape(value)
}

function containerStatusIn({ name, state: { waiting, running, terminated } = {} }: ContainerStatus): ContainerStatus {
  if (waiting) return { name, state: { waiting: { reason: waiting.reason, message: waiting.message } } }
  if (!terminated) return { name, state: { running: running && {} } }
  const { exitCode, reason, message, finishedAt } = terminated
  return { name, state: { terminated: { exitCode, reason, message, finishedAt } } }
}

function hostPortsIn(ports: readonly ContainerPort[] | undefined): readonly ContainerPort[] | undefined {
  const withHostPort = ports?.filter(({ hostPort }) => hostPort !== undefined)
  return withHostPort?.length ? withHostPort.map(({ hostPort }) => ({ hostPort })) : undefined
}

/** The status of the game server's container. */
export function gameStatusOf({ status }: Pod, { container }: Identity): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === container)
}

export function failedInitContainerOf({ status }: Pod): ContainerStatus | undefined {
  if (status?.phase !== 'Failed') return undefined
  return status.initContainerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0)
}

/** Whether no container in the pod has run yet. None can run before the pod's SDK secret exists. */
export function isUnstarted({ status }: Pod): boolean {
  if (status?.phase !== undefined && status.phase !== 'Pending') return false
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  return all.every(({ state }) => !state?.running && !state?.terminated)
}
