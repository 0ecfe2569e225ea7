/** Builds the pod for a server from its build's complete template, plus what the fleet adds. Pure. */
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import { graceSecondsOf } from '../../../src/rules/validation/template.js'
import { type OwnerReference, pods as podType, typeMetaOf } from '../client/kube-objects.js'
import {
  annotationsOf,
  evictAnnotation,
  type Identity,
  labelsOf,
  type Names,
  namesOf,
  protectionOf,
} from '../pods/labels.js'
import { avoidingNodes, packedAffinity } from './affinity.js'
import { completeContainer, type ContainerSpecInput } from './container-spec.js'
import { sdkVolumes } from './sdk-files.js'
import { gameContainerName } from './template.js'

/** `packed`: prefer nodes that already run servers, so that empty nodes can be removed. `distributed`: no preference. */
export const schedulings = ['packed', 'distributed'] as const
export type Scheduling = (typeof schedulings)[number]

export interface PodSpecInput extends ContainerSpecInput {
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
