/** The fields of a Pod object that this adapter reads. Pure. */
import {
  type Condition,
  conditionsOfTypes,
  hasObjectShape,
  type ObjectMeta,
  type Optional,
} from '../client/api-shapes.js'

export type ContainerState = Optional<{
  waiting: Optional<{ reason: string; message: string }>
  running: object
  terminated: Optional<{ exitCode: number; reason: string; message: string; finishedAt: string }>
}>

export type ContainerStatus = Optional<{ name: string; state: ContainerState }>

export type ContainerPort = Optional<{ hostPort: number }>

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
