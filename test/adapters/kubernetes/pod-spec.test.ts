import { expect, it } from 'vitest'
import { podOf } from '../../../adapters/kubernetes/pod-spec.js'
import { specOf } from './support.js'

it('gives a pod the labels and annotations of its template, and nothing else of its metadata', () => {
  const own = { labels: { tier: 'gold' }, annotations: { 'example.com/owner': 'arena' } }
  const metadata = {
    ...own,
    ...{ name: 'of-the-template', namespace: 'elsewhere', generateName: 'x-', uid: 'u', resourceVersion: '7' },
    finalizers: ['example.com/never-taken-off'],
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node-1', uid: 'u' }],
    creationTimestamp: null,
  }
  const spec = specOf('games', 'sleep 600', { metadata })
  const pod = podOf({ spec, ports: [], group: 'mps.gamekeeper.com', secret: 's', owner: undefined, packed: false })
  expect(Object.keys(Object(Reflect.get(pod, 'metadata'))).toSorted()).toEqual([
    'annotations',
    'labels',
    'name',
    'namespace',
  ])
  expect(pod).toMatchObject({ metadata: { ...spec.ref, ...own } })
})
