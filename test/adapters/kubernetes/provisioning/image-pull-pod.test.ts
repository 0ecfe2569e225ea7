/** The pod that pulls images, and what its status says. */
import { describe, expect, it } from 'vitest'
import { namesOf } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { imagePullPod, imagesOf, pullResultsOf } from '../../../../adapters/kubernetes/provisioning/image-pull-pod.js'

const securityContext = { runAsNonRoot: true }
const template = {
  metadata: { labels: { app: 'arena' } },
  spec: {
    nodeSelector: { pool: 'games' },
    imagePullSecrets: [{ name: 'registry' }],
    securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
    volumes: [{ name: 'maps', emptyDir: {} }],
    initContainers: [{ name: 'maps', image: 'maps:1' }],
    containers: [
      { name: 'game', image: 'arena:1', securityContext, ports: [{ containerPort: 7777 }], resources: { limits: {} } },
      { name: 'again', image: 'arena:1' },
      { name: 'local', image: 'local:1', imagePullPolicy: 'Never' },
    ],
  },
}

it('images are those of all containers, once each, without those that must not be pulled', () => {
  expect(imagesOf(template)).toEqual(['maps:1', 'arena:1'])
  expect(imagesOf({})).toEqual([])
})

it('the pod has the images and what decides about their pull, but nothing else of the template', () => {
  const names = namesOf('mps.gamekeeper.com')
  const input = { names, build: 'arena', owner: undefined, template, node: 'node1', images: ['arena:1'] }
  const pod = imagePullPod({ ref: { namespace: 'games', name: 'arena-pull-1' }, ...input })
  expect(pod).toEqual({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace: 'games',
      name: 'arena-pull-1',
      labels: { 'mps.gamekeeper.com/image-pull': 'arena' },
      annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' },
    },
    spec: {
      imagePullSecrets: [{ name: 'registry' }],
      securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      nodeName: 'node1',
      tolerations: [{ operator: 'Exists' }],
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 1,
      activeDeadlineSeconds: 3_600,
      containers: [
        {
          name: 'image-0',
          image: 'arena:1',
          imagePullPolicy: 'IfNotPresent',
          env: [
            {
              name: 'NEVER_STARTS',
              valueFrom: { configMapKeyRef: { name: 'gamekeeper-image-pull', key: 'does-not-exist' } },
            },
          ],
          resources: { requests: { cpu: '0', memory: '0' }, limits: { cpu: '0', memory: '0' } },
          securityContext,
        },
      ],
    },
  })
})

describe('the result of a pull', () => {
  const resultOf = (state: object | undefined, status: object = {}) => {
    const containerStatuses = state ? [{ name: 'image-0', state }] : []
    const spec = { containers: [{ name: 'image-0', image: 'arena:1' }] }
    return pullResultsOf({ spec, status: { ...status, containerStatuses } })?.get('arena:1')
  }
  const waiting = (reason: string, message?: string) => ({ waiting: { reason, message } })
  const failed = (reason: string, message: string) => ({ phase: 'Failed', reason, message })

  it.each<[name: string, state: object | undefined, status: object, result: unknown]>([
    ['not known yet', undefined, {}, undefined],
    ['not known while it is pulled', waiting('ContainerCreating'), {}, undefined],
    ['a success if only the ConfigMap is missing', waiting('CreateContainerConfigError'), {}, 'pulled'],
    ['a success if the container could not be created', waiting('CreateContainerError'), {}, 'pulled'],
    ['a success if the container has run', { terminated: { reason: 'Completed' } }, {}, 'pulled'],
    [
      'a failure if the registry refuses',
      waiting('ErrImagePull', 'not found'),
      {},
      { message: 'not found', isRefused: false },
    ],
    [
      'a failure while the kubelet backs off',
      waiting('ImagePullBackOff', 'Back-off'),
      {},
      { message: 'Back-off', isRefused: false },
    ],
    [
      'a failure if the name is invalid',
      waiting('InvalidImageName'),
      {},
      { message: 'InvalidImageName', isRefused: false },
    ],
    [
      'a failure after the deadline',
      waiting('ContainerCreating'),
      failed('DeadlineExceeded', 'too long'),
      { message: 'too long', isRefused: false },
    ],
    [
      'a failure after the deadline, if the kubelet knows no more',
      { terminated: { reason: 'ContainerStatusUnknown' } },
      failed('DeadlineExceeded', 'too long'),
      { message: 'too long', isRefused: false },
    ],
    ['a refusal if the node is full', undefined, failed('OutOfpods', 'full'), { message: 'full', isRefused: true }],
  ])('is %s', (_, state, status, result) => expect(resultOf(state, status)).toEqual(result))

  it('is known once it is known for all images', () => {
    const spec = {
      containers: [
        { name: 'a', image: 'a:1' },
        { name: 'b', image: 'b:1' },
      ],
    }
    const done = { name: 'a', state: waiting('CreateContainerConfigError') }
    const status = (state: object) => ({ containerStatuses: [done, { name: 'b', state }] })
    expect(pullResultsOf({ spec, status: status(waiting('ContainerCreating')) })).toBeUndefined()
    const results = pullResultsOf({ spec, status: status(waiting('ErrImagePull', 'gone')) })
    expect([...(results ?? [])]).toEqual([
      ['a:1', 'pulled'],
      ['b:1', { message: 'gone', isRefused: false }],
    ])
  })
})
