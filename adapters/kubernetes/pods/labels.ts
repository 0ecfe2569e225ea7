/** What a pod's labels and annotations say of it: which server it is, and of which build. Pure. */
import { isDeepStrictEqual } from 'node:util'
import type { RecordedInstance } from '../../../src/contracts/backend.js'
import { isPort } from '../../../src/rules/model/ports.js'
import type { PortPair, Ref } from '../../../src/rules/model/resources.js'
import type { KubeObject, OwnerReference } from '../client/kube-objects.js'
import { type Pod, podIn } from './pod-objects.js'

export interface Identity {
  readonly ref: Ref
  /** The server's, not the pod's. */
  readonly uid: string
  /** Name of the container whose end is the server's. */
  readonly container: string
  /** In the order of `portsToExpose`. */
  readonly ports: readonly PortPair[]
}

/** All begin with the API group of the fleet's resources, so that fleets of two groups do not see each other. */
export interface Names {
  readonly build: string
  readonly server: string
  readonly uid: string
  readonly ports: string
  /** `true` from the moment on at which players may be on it: what a PodDisruptionBudget selects. */
  readonly active: string
  /** `true` on the pod of the host that leads: what Services select. */
  readonly leader: string
}

export function namesOf(group: string): Names {
  return {
    build: `${group}/build`,
    server: `${group}/server`,
    uid: `${group}/uid`,
    ports: `${group}/ports`,
    active: `${group}/active`,
    leader: `${group}/leader`,
  }
}

/** Known to kubectl: whose log it shows. In a template it names the container that is the game server. */
export const containerAnnotation = 'kubectl.kubernetes.io/default-container'

/** Known to the cluster autoscaler. */
export const evictAnnotation = 'cluster-autoscaler.kubernetes.io/safe-to-evict'

export function labelsOf(names: Names, build: string, { ref, uid }: Identity): Readonly<Record<string, string>> {
  return { [names.build]: build, [names.server]: ref.name, [names.uid]: uid }
}

export function annotationsOf(names: Names, { ports, container }: Identity): Readonly<Record<string, string>> {
  const written = ports.map((port) => `${port.container}:${port.public}`).join(',')
  return { [names.ports]: written, [containerAnnotation]: container }
}

/** Undefined when it is no pod of this fleet. */
export function identityOf(names: Names, { metadata = {}, spec }: Pod): Identity | undefined {
  const { name, namespace, labels = {}, annotations = {} } = metadata
  const uid = labels[names.uid]
  const ports = readPorts(annotations[names.ports] ?? '')
  if (name === undefined || namespace === undefined || uid === undefined || !ports) return undefined
  return { ref: { namespace, name }, uid, container: containerOf(annotations, spec), ports }
}

/** Of a pod that has the name of this server: what it was, whatever became of its marks. Undefined when it is another's. */
export function identityBy(
  names: Names,
  { ref, uid, ports }: RecordedInstance,
  owner: OwnerReference | undefined,
  object: KubeObject,
): Identity | undefined {
  const { labels = {}, annotations = {}, ownerReferences = [] } = object.metadata
  const said = labels[names.uid]
  const isOwned = owner !== undefined && ownerReferences.some((reference) => reference.uid === owner.uid)
  const saysNothing = said === undefined && ownerReferences.length === 0
  if (said !== uid && !isOwned && !saysNothing) return undefined
  const written = annotations[names.ports]
  const container = containerOf(annotations, podIn(object)?.spec)
  return { ref, uid, container, ports: (written === undefined ? undefined : readPorts(written)) ?? ports }
}

export interface MissingLabels {
  /** Of the labels and annotations that are not as they were. */
  readonly keys: readonly string[]
  /** As they were. */
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** By what the pod would be known again as what it was. Undefined when it still is. */
export function missingLabelsOf(names: Names, identity: Identity, pod: Pod): MissingLabels | undefined {
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

function readPorts(text: string): readonly PortPair[] | undefined {
  const pairs = text === '' ? [] : text.split(',').map((pair) => pair.split(':').map(Number))
  const ports = pairs.map(([container, number]) => ({ container: container ?? 0, public: number ?? 0 }))
  return ports.every((port) => isPort(port.container) && isPort(port.public)) ? ports : undefined
}
