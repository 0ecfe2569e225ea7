/** A game's region and domain name come from its node, unless options set them. */
import { text } from 'node:stream/consumers'
import { type KubernetesBackendOptions, kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond } from '../support/fake-api-server.js'
import { specOf } from '../support/support.js'

const node = {
  metadata: { name: 'node-1', resourceVersion: '5', labels: { 'topology.kubernetes.io/region': 'eu-1' } },
  status: {
    addresses: [
      { type: 'InternalIP', address: '10.0.0.4' },
      { type: 'ExternalDNS', address: 'ec2-203-0-113-9.example' },
    ],
  },
}

/** The SDK secret of a server on that node. */
async function secretWith(options: KubernetesBackendOptions) {
  const secrets: { readonly stringData: Readonly<Record<string, string>> }[] = []
  let pod: Record<string, object> = {}
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method === 'GET') {
      const items = pathname.endsWith('/nodes') ? [node] : []
      return respond(response, 200, { metadata: { resourceVersion: '10' }, items })
    }
    void text(request).then((body) => {
      const sent = JSON.parse(body)
      if (pathname.endsWith('/secrets')) secrets.push(sent)
      else if (request.method === 'POST') {
        pod = {
          metadata: { ...sent.metadata, uid: 'p', resourceVersion: '11' },
          spec: { ...sent.spec, nodeName: 'node-1' },
          status: { phase: 'Pending' },
        }
      }
      respond(response, 201, pod)
    })
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'], ...options })
  onTestFinished(() => backend.close())
  await backend.create(specOf('games', ''))
  return until('its secret is created', () => secrets[0]?.stringData)
}

it('without options, a game gets the region label and the ExternalDNS address of its node', async () => {
  const secret = await secretWith({})
  expect(secret).toMatchObject({ region: 'eu-1', fullyQualifiedDomainName: 'ec2-203-0-113-9.example' })
  expect(JSON.parse(secret['gsdkConfig.json'] ?? '')).toMatchObject({
    ...{ vmId: 'node-1', serverInstanceNumber: 0, fullyQualifiedDomainName: 'ec2-203-0-113-9.example' },
  })
})

it('options replace what the node reports', async () => {
  const secret = await secretWith({ region: 'west', fullyQualifiedDomainName: '{node}.example.com' })
  expect(secret).toMatchObject({ region: 'west', fullyQualifiedDomainName: 'node-1.example.com' })
})
