/**
 * Pods and nodes as the API server shows them: only what is read of them here. Everything may be missing. There may be many of
 * them, and most of what the API server says of each is never asked for: it is not kept.
 */
import { isObject } from '../../../src/rules/validation/problem.js'

/** Everything may be missing. */
type Sketch<T> = { readonly [field in keyof T]?: T[field] | undefined }

export type ObjectMeta = Sketch<{
  name: string
  namespace: string
  uid: string
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  /** RFC 3339: when it was asked for, and its grace period. */
  deletionTimestamp: string
  deletionGracePeriodSeconds: number
}>

export type ContainerState = Sketch<{
  waiting: Sketch<{ reason: string; message: string }>
  running: object
  terminated: Sketch<{ exitCode: number; reason: string; message: string; finishedAt: string }>
}>

export type ContainerStatus = Sketch<{ name: string; state: ContainerState }>

export type ContainerPort = Sketch<{ hostPort: number }>

export type PodCondition = Sketch<{ type: string; status: string; reason: string; message: string }>

export type Pod = Sketch<{
  metadata: ObjectMeta
  spec: Sketch<{
    nodeName: string
    hostNetwork: boolean
    containers: readonly Sketch<{
      name: string
      resources: Sketch<{ limits: Readonly<Record<string, string>> }>
      ports: readonly ContainerPort[]
    }>[]
    initContainers: readonly Sketch<{ restartPolicy: string; ports: readonly ContainerPort[] }>[]
    volumes: readonly Sketch<{ name: string; secret: Sketch<{ secretName: string }> }>[]
  }>
  status: Sketch<{
    phase: string
    hostIP: string
    reason: string
    message: string
    conditions: readonly PodCondition[]
    initContainerStatuses: readonly ContainerStatus[]
    containerStatuses: readonly ContainerStatus[]
  }>
}>

export type Taint = Sketch<{ key: string; value: string; effect: string }>

export type Node = Sketch<{
  metadata: ObjectMeta
  spec: Sketch<{ unschedulable: boolean; taints: readonly Taint[] }>
  status: Sketch<{
    addresses: readonly Sketch<{ type: string; address: string }>[]
    conditions: readonly PodCondition[]
  }>
}>

/** The API server keeps to its own schema: that it is an object of this kind is all that has to be found out. */
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
        ports: portsIn(container.ports),
      })),
      initContainers: initContainers?.map(({ restartPolicy, ports }) => ({ restartPolicy, ports: portsIn(ports) })),
      volumes: volumes
        ?.filter(({ secret }) => secret)
        .map((volume) => ({ name: volume.name, secret: { secretName: volume.secret?.secretName } })),
    },
    status: {
      ...{ phase, hostIP, reason, message },
      conditions: only(conditions, ['DisruptionTarget', 'PodScheduled', 'Ready']),
      initContainerStatuses: initContainerStatuses?.map(containerIn),
      containerStatuses: containerStatuses?.map(containerIn),
    },
  }
}

export function nodeIn(value: unknown): Node | undefined {
  if (!isNode(value)) return undefined
  const { metadata = {}, spec = {}, status = {} } = value
  return {
    metadata: { name: metadata.name, labels: metadata.labels },
    spec: { unschedulable: spec.unschedulable, taints: spec.taints },
    status: { addresses: status.addresses, conditions: only(status.conditions, ['Ready']) },
  }
}

function isPod(value: unknown): value is Pod {
  return isDescribed(value)
}

function isNode(value: unknown): value is Node {
  return isDescribed(value)
}

function isDescribed(value: unknown): boolean {
  return isObject(value) && isObject(value['metadata']) && (value['spec'] === undefined || isObject(value['spec']))
}

function containerIn({ name, state: { waiting, running, terminated } = {} }: ContainerStatus): ContainerStatus {
  if (waiting) return { name, state: { waiting: { reason: waiting.reason, message: waiting.message } } }
  if (!terminated) return { name, state: { running: running && {} } }
  const { exitCode, reason, message, finishedAt } = terminated
  return { name, state: { terminated: { exitCode, reason, message, finishedAt } } }
}

/** Those of the node. */
function portsIn(ports: readonly ContainerPort[] | undefined): readonly ContainerPort[] | undefined {
  const ofNode = ports?.filter(({ hostPort }) => hostPort !== undefined)
  return ofNode?.length ? ofNode.map(({ hostPort }) => ({ hostPort })) : undefined
}

function only(
  conditions: readonly PodCondition[] | undefined,
  types: readonly string[],
): readonly PodCondition[] | undefined {
  return conditions
    ?.filter(({ type = '' }) => types.includes(type))
    .map(({ type, status, reason, message }) => ({ type, status, reason, message }))
}
