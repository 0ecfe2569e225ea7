/** How the servers of a node are numbered, and what a node's labels say about its location. */
import { expect, it } from 'vitest'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import type { KubeObject } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { nodePlatform } from '../../../../adapters/kubernetes/nodes/node-cache.js'
import {
  namesOf,
  podIn,
  type PodSnapshot,
  withInstanceNumber,
} from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { InstanceNumbers } from '../../../../adapters/kubernetes/provisioning/sdk-secrets.js'
import { isObject } from '../../../../src/rules/validation/problem.js'

const names = namesOf('mps.gamekeeper.com')

interface Sketch {
  readonly number?: number
  readonly node?: string
}

function podOf(name: string, { number, node = 'node-1' }: Sketch = {}): PodSnapshot {
  const ref = { namespace: 'games', name }
  const identity = { ref, uid: `uid-of-${name}`, container: 'game', ports: [] }
  const pod = podIn({ metadata: { name }, spec: { nodeName: node }, status: { phase: 'Pending' } }) ?? {}
  return {
    identity: { ...identity, ...(number !== undefined && { instanceNumber: number }) },
    ...{ pod, podUid: `pod-uid-of-${name}`, revision: 1 },
    instance: { ref, uid: identity.uid, phase: 'pending', ports: [] },
  }
}

/** `patch` answers each request to annotate a pod. */
function scene(pods: readonly PodSnapshot[], patch: () => Promise<void> = async () => {}) {
  const all = new Map(pods.map((pod) => [pod.identity.ref.name, pod]))
  const sent: unknown[] = []
  const api: Pick<KubernetesApi, 'object'> = {
    async object({ path, body }) {
      await patch()
      sent.push(body)
      return { ...(isObject(body) ? body : {}), metadata: { name: path.split('/').at(-1) ?? '', ...metadataOf(body) } }
    },
  }
  const numbers = new InstanceNumbers({
    api,
    names,
    pods: {
      snapshots: () => all.values(),
      add(object: KubeObject) {
        const before = all.get(object.metadata.name)
        if (!before) return undefined
        const after = { ...before, identity: withInstanceNumber(names, before.identity, podIn(object) ?? {}) }
        all.set(object.metadata.name, after)
        return after
      },
    },
  })
  const assign = (name: string) => {
    const pod = all.get(name)
    if (!pod) throw new Error(`no pod ${name}`)
    return numbers.assign(pod, pod.pod.spec?.nodeName ?? '')
  }
  return { assign, sent }
}

function metadataOf(body: unknown): object {
  const metadata: unknown = isObject(body) ? body['metadata'] : undefined
  return isObject(metadata) ? metadata : {}
}

it('pods of one node that are numbered at the same time get different numbers; other nodes do not count', async () => {
  const { assign } = scene([podOf('a'), podOf('b'), podOf('c', { node: 'node-2' }), podOf('d', { number: 1 })])
  expect(await Promise.all([assign('a'), assign('b'), assign('c')])).toEqual([0, 2, 0])
})

it('a pod keeps the number of its annotation, and is not annotated again', async () => {
  const { assign, sent } = scene([podOf('a', { number: 4 }), podOf('b')])
  expect([await assign('a'), await assign('b'), await assign('b')]).toEqual([4, 0, 0])
  expect(sent).toHaveLength(1)
})

it('a pod gets the same number when annotating it is repeated after an error, even if a lower one has become free', async () => {
  let failures = 1
  const pods = [podOf('a'), podOf('b')]
  const { assign } = scene(pods, async () => {
    if (failures-- > 0) throw new Error('no response')
  })
  await expect(assign('a')).rejects.toThrow('no response')
  expect([await assign('b'), await assign('a')]).toEqual([1, 0])
})

it.each([
  ['nothing', {}, [], {}],
  ['its region', { 'topology.kubernetes.io/region': 'eu-1' }, [], { region: 'eu-1' }],
  ['its region by the older label', { 'failure-domain.beta.kubernetes.io/region': 'eu-2' }, [], { region: 'eu-2' }],
  [
    'its public name',
    {},
    [
      { type: 'InternalDNS', address: 'ip-10-0-0-1.ec2.internal' },
      { type: 'ExternalDNS', address: 'ec2-203-0-113-9.example' },
    ],
    { fullyQualifiedDomainName: 'ec2-203-0-113-9.example' },
  ],
])('a node can report %s', (_what, labels, addresses, expected) => {
  expect(nodePlatform({ metadata: { labels }, status: { addresses } })).toEqual(expected)
})
