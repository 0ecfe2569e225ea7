/**
 * The pod that pulls images to a node, and what its status says. Nothing in an image ever runs: each container refers to a ConfigMap that does
 * not exist, which the kubelet looks for only once it has the container's image. So images need no shell, and none of them starts. Pure.
 */
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import type { PodTemplateSpec, Ref } from '../../../src/rules/model/resources.js'
import { type OwnerReference, pods as podType, typeMetaOf } from '../client/kube-objects.js'
import { evictAnnotation, type Names } from '../pods/pod-objects.js'

/** The kubelet gives up a pull after this time, even if no host is running. */
export const pullDeadlineMs = 60 * 60_000

/** The containers of the template that the kubelet may have to pull an image for, one for each image. */
function pullableContainers(template: PodTemplateSpec): ReadonlyMap<string, Fields> {
  const pod = objectAt(template, 'spec')
  const byImage = new Map<string, Fields>()
  for (const container of [...objectsAt(pod, 'initContainers'), ...objectsAt(pod, 'containers')]) {
    const image = stringAt(container, 'image') ?? ''
    const isPulled = image !== '' && stringAt(container, 'imagePullPolicy') !== 'Never'
    if (isPulled && !byImage.has(image)) byImage.set(image, container)
  }
  return byImage
}

/** The images that servers of the template need, without those that the kubelet must not pull. */
export function imagesOf(template: PodTemplateSpec): readonly string[] {
  return [...pullableContainers(template).keys()]
}

interface ImagePullPodInput {
  readonly ref: Ref
  readonly names: Names
  /** The build's name. */
  readonly build: string
  readonly owner: OwnerReference | undefined
  readonly template: PodTemplateSpec
  readonly node: string
  readonly images: readonly string[]
}

/** A pod that is already assigned to its node, so it does not pass through the scheduler. */
export function imagePullPod({ ref, names, build, owner, template, node, images }: ImagePullPodInput): object {
  const pod = objectAt(template, 'spec')
  const containers = pullableContainers(template)
  return {
    ...typeMetaOf(podType),
    metadata: {
      ...ref,
      labels: { [names.imagePull]: build },
      annotations: { [evictAnnotation]: 'true' },
      ...(owner && { ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false }] }),
    },
    spec: {
      // What decides from where images are pulled, and whether the namespace admits the pod.
      ...pick(pod, ['imagePullSecrets', 'runtimeClassName', 'serviceAccountName', 'securityContext', 'os']),
      nodeName: node,
      tolerations: [{ operator: 'Exists' }],
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 1,
      activeDeadlineSeconds: pullDeadlineMs / 1_000,
      containers: images.map((image, i) => ({
        name: `image-${i}`,
        image,
        imagePullPolicy: 'IfNotPresent',
        env: [{ name: 'NEVER_STARTS', valueFrom: { configMapKeyRef: missingConfigMap } }],
        // A quota may demand that these are set. Zero also fits on a node that is full.
        resources: { requests: nothing, limits: nothing },
        ...pick(containers.get(image) ?? {}, ['securityContext']),
      })),
    },
  }
}

const missingConfigMap = { name: 'gamekeeper-image-pull', key: 'does-not-exist' }
const nothing = { cpu: '0', memory: '0' }

function pick(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]))
}

export interface PullFailure {
  readonly message: string
  /** The kubelet refused the pod, for example because the node is full. No server can start there now, either. */
  readonly isRefused: boolean
}

/** `pulled`: the node has the image. */
export type PullResult = 'pulled' | PullFailure

/** Returns a result for each image of the pod, or undefined while some are still being pulled. */
export function pullResultsOf(pod: Fields): ReadonlyMap<string, PullResult> | undefined {
  const status = objectAt(pod, 'status')
  const statuses = objectsAt(status, 'containerStatuses')
  const ended = endOf(status)
  const results = new Map<string, PullResult>()
  for (const container of objectsAt(objectAt(pod, 'spec'), 'containers')) {
    const state = objectAt(statuses.find(({ name }) => name === container['name']) ?? {}, 'state')
    const result = resultOf(state) ?? ended
    if (!result) return undefined
    results.set(stringAt(container, 'image') ?? '', result)
  }
  return results
}

function resultOf(state: Fields): PullResult | undefined {
  // A container only ends if somebody has created the ConfigMap, or if the kubelet gives up the pod, which says nothing about the image.
  if (isObject(state['running'])) return 'pulled'
  const ending = objectAt(state, 'terminated')
  if (Object.hasOwn(state, 'terminated')) return stringAt(ending, 'reason') === unknownEnd ? undefined : 'pulled'
  const waiting = objectAt(state, 'waiting')
  const reason = stringAt(waiting, 'reason') ?? ''
  if (waitingForPull.has(reason)) return undefined
  const message = stringAt(waiting, 'message') ?? reason
  // Kubelets have several reasons, such as ErrImagePull, InvalidImageName and RegistryUnavailable. Every other one is of a later step.
  return /Image|Registry|Signature/.test(reason) ? { message, isRefused: false } : 'pulled'
}

const unknownEnd = 'ContainerStatusUnknown'
const waitingForPull: ReadonlySet<string> = new Set(['', 'ContainerCreating', 'PodInitializing'])

/** What a pod that has ended says about images of which its containers say nothing. */
function endOf(status: Fields): PullFailure | undefined {
  if (stringAt(status, 'phase') !== 'Failed') return undefined
  const reason = stringAt(status, 'reason') ?? ''
  const message = stringAt(status, 'message') ?? reason
  return { message, isRefused: reason !== 'DeadlineExceeded' }
}
