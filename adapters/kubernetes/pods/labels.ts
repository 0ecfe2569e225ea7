/** The labels and annotations that identify a pod as a server of the fleet. Pure. */
import { isDeepStrictEqual } from 'node:util'
import type { RecordedInstance } from '../../../src/contracts/backend.js'
import { readInstanceNumber } from '../../../src/rules/game/instance-number.js'
import { keyOf, type PortPair, type Ref } from '../../../src/rules/model/resources.js'
import { formatPortPairs, parsePortPairs } from '../../shared/port-pairs.js'
import type { KubeObject, OwnerReference } from '../client/kube-objects.js'
import { type Pod, podIn } from './pod-objects.js'
import type { PodSnapshot } from './pod-snapshot.js'

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

/** Label keys are prefixed with the API group, so that fleets with different groups do not see each other's pods. */
export interface Names {
  readonly build: string
  readonly server: string
  readonly uid: string
  readonly ports: string
  readonly instanceNumber: string
  /** Label set to `true` when players may be connected, or always for `eviction: 'never'`; PodDisruptionBudgets select it. */
  readonly active: string
  /** Annotation with what the template says about evictions, if it does. */
  readonly evict: string
  /** Label set to `true` on the leader's own pod; Services select it. */
  readonly leader: string
}

export function namesOf(group: string): Names {
  return {
    build: `${group}/build`,
    server: `${group}/server`,
    uid: `${group}/uid`,
    ports: `${group}/ports`,
    instanceNumber: `${group}/instance-number`,
    active: `${group}/active`,
    evict: `${group}/safe-to-evict`,
    leader: `${group}/leader`,
  }
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

export interface MissingLabels {
  /** Keys of the labels and annotations that were changed or removed. */
  readonly keys: readonly string[]
  /** The correct values of these labels and annotations. */
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** The labels and annotations to restore so that the pod can be identified again. Undefined if all are intact. */
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
