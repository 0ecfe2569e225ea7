import { text } from 'node:stream/consumers'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { evictAnnotation } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { fixedHostPorts, podOf } from '../../../../adapters/kubernetes/provisioning/pod-spec.js'
import { checkForKubernetes } from '../../../../adapters/kubernetes/provisioning/template-check.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'
import { specOf } from '../support/support.js'

it('a pod gets the labels and annotations of its template, but no other metadata', () => {
  const own = { labels: { tier: 'gold' }, annotations: { 'example.com/owner': 'arena' } }
  const metadata = {
    ...own,
    ...{ name: 'of-the-template', namespace: 'elsewhere', generateName: 'x-', uid: 'u', resourceVersion: '7' },
    finalizers: ['example.com/never-taken-off'],
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node-1', uid: 'u' }],
    creationTimestamp: null,
  }
  const spec = specOf('games', 'sleep 600', { metadata })
  const pod = podOf({
    spec,
    ports: [],
    group: 'mps.gamekeeper.com',
    secret: 's',
    owner: undefined,
    scheduling: 'distributed',
    platform: {},
    refusingNodes: [],
  })
  expect(Object.keys(Object(Reflect.get(pod, 'metadata'))).toSorted()).toEqual([
    'annotations',
    'labels',
    'name',
    'namespace',
  ])
  expect(pod).toMatchObject({ metadata: { ...spec.ref, ...own } })
})

it('a pod that is protected from its creation has the marks, whatever its template says; another has those of its template', () => {
  const metadata = { labels: { tier: 'gold' }, annotations: { [evictAnnotation]: 'true' } }
  const spec = specOf('games', 'sleep 600', { metadata })
  const base = { group: 'mps.gamekeeper.com', secret: 's', owner: undefined, scheduling: 'distributed' } as const
  const marksOf = (isProtected: boolean) => {
    const pod = podOf({ ...base, spec: { ...spec, isProtected }, ports: [], platform: {}, refusingNodes: [] })
    const { labels, annotations } = Object(Reflect.get(pod, 'metadata'))
    return [labels.tier, labels['mps.gamekeeper.com/active'], annotations[evictAnnotation]]
  }
  expect(marksOf(true)).toEqual(['gold', 'true', 'false'])
  expect(marksOf(false)).toEqual(['gold', undefined, 'true'])
})

it('a pod stays away from the nodes that refuse its ports, in addition to the affinity of its template', () => {
  const zone = { key: 'zone', operator: 'In', values: ['a'] }
  const required = (terms: readonly object[]) => ({
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
  })
  const affinityOf = (affinity: object | undefined, refusingNodes: readonly string[]) => {
    const spec = specOf('games', 'sleep 600', { pod: { ...(affinity && { affinity }) } })
    const base = { group: 'mps.gamekeeper.com', secret: 's', owner: undefined, scheduling: 'distributed' } as const
    return Reflect.get(
      Object(Reflect.get(podOf({ ...base, spec, ports: [], platform: {}, refusingNodes }), 'spec')),
      'affinity',
    )
  }
  const not = (node: string) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] })
  const own = required([{ matchExpressions: [zone] }, { matchFields: [not('c')] }])
  expect(affinityOf(undefined, [])).toBeUndefined()
  expect(affinityOf(own, [])).toEqual(own)
  expect(affinityOf(undefined, ['a'])).toEqual(required([{ matchFields: [not('a')] }]))
  expect(affinityOf(own, ['a', 'b'])).toEqual(
    required([
      { matchExpressions: [zone], matchFields: [not('a'), not('b')] },
      { matchFields: [not('c'), not('a'), not('b')] },
    ]),
  )
})

it('a template’s fixed host ports are those it requests, except those that the fleet replaces', () => {
  const container = {
    ports: [{ containerPort: 7777, hostPort: 1 }, { containerPort: 2, hostPort: 3 }, { containerPort: 4 }],
  }
  const sidecar = (ports: readonly object[]) => ({ name: 'sidecar', image: 'x', ports })
  const initContainers = [sidecar([{ containerPort: 5, hostPort: 6 }])]
  const spec = specOf('games', '', { ports: [7777], container })
  const pod = { ...Object(spec.template['spec']), initContainers }
  expect(fixedHostPorts({ ...spec, template: { spec: pod } })).toEqual([3, 6])
  expect(fixedHostPorts({ ...spec, template: { spec: { ...pod, hostNetwork: true } } })).toEqual([3, 4, 6])
})

it('a pod gets no public port that its template requests as a host port', async () => {
  const bodies: string[] = []
  const server = await fakeApiServer((request, response, { searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method !== 'POST') return respond(response, 200, { metadata: { resourceVersion: '1' }, items: [] })
    void text(request).then((body) => {
      bodies.push(body)
      respond(response, 422, statusOf(422, 'Invalid'))
    })
  })
  const portRange = { first: 10_000, last: 10_001 }
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'], portRange })
  onTestFinished(() => backend.close())
  const ports = [{ containerPort: 9_100, hostPort: 10_000 }]
  await backend.create(specOf('games', '', { ports: [7777], container: { ports } }))
  expect(bodies).toEqual([expect.stringContaining('"hostPort":10001')])
})

it('a template with a container without an image is refused when its build is, not when its pod is created', () => {
  const containers = [{ name: 'game', image: 'arena:1' }, { name: 'proxy' }]
  expect(() => checkForKubernetes({ spec: { containers } })).toThrow(
    'spec.template.spec.containers[1].image is required: it names the image that the container runs',
  )
  expect(() => checkForKubernetes({ spec: { containers: containers.slice(0, 1) } })).not.toThrow()
})

it.each([
  ['a template that says nothing', {}, false],
  ['one that names an account', { serviceAccountName: 'matches' }, undefined],
  ['one that names it by the old field', { serviceAccount: 'matches' }, undefined],
  ['one that asks for the token of the default account', { automountServiceAccountToken: true }, true],
] as const)('a pod of %s gets a token for the API server only if it asks for one', (_, more, automount) => {
  const base = { group: 'mps.gamekeeper.com', secret: 's', owner: undefined, scheduling: 'distributed' } as const
  const pod = podOf({ ...base, spec: specOf('games', '', { pod: more }), ports: [], platform: {}, refusingNodes: [] })
  expect(Object(Reflect.get(pod, 'spec')).automountServiceAccountToken).toBe(automount)
})
