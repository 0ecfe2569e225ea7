/** Pods that a host left incomplete and that the API server fails to delete: the fleet continues without them. */
import { alwaysLeader, createFleet, memoryStore } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ref = { namespace: 'games', name: 'arena-a1b2c' }
/** Waits for its secret. */
const pod = {
  metadata: {
    ...ref,
    ...{ uid: 'p', resourceVersion: '7', labels: { [`${group}/uid`]: 'u', [`${group}/server`]: ref.name } },
  },
  spec: {
    nodeName: 'node-1',
    containers: [{ name: 'game' }],
    volumes: [{ name: 'gamekeeper-config', secret: { secretName: 's' } }],
  },
  status: {
    phase: 'Pending',
    containerStatuses: [{ name: 'game', state: { waiting: { reason: 'ContainerCreating' } } }],
  },
}

async function scene() {
  const cluster = { pods: [pod] as readonly object[], deletes: 500, secret: 404 }
  const warnings: string[] = []
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method === 'DELETE') {
      if (cluster.deletes === 200) cluster.pods = []
      return respond(response, cluster.deletes, statusOf(cluster.deletes, 'InternalError'))
    }
    if (pathname.includes('/secrets'))
      return respond(response, cluster.secret, statusOf(cluster.secret, 'NotFound', 's'))
    if (pathname.endsWith(`/pods/${ref.name}`)) return respond(response, 404, statusOf(404, 'NotFound', ref.name))
    respond(response, 200, {
      metadata: { resourceVersion: '100' },
      items: pathname.endsWith('/pods') ? cluster.pods : [],
    })
  })
  const logger = {
    ...silentLogger,
    warn: (fields: object, message: string) => void warnings.push(`${message} ${JSON.stringify(fields)}`),
  }
  const backend = kubernetesBackend({
    kubeConfig: configFor(server.url),
    namespaces: ['games'],
    logger,
    callTimeoutMs: 500,
  })
  const deletions = () => server.requests.filter((line) => line.startsWith('DELETE')).length
  const warned = () => warnings.filter((line) => line.includes(ref.name))
  return { cluster, backend, deletions, warned }
}

it('an incomplete pod that cannot be deleted does not block leadership, is logged once, and its deletion is retried with each list', async () => {
  const { cluster, backend, deletions, warned } = await scene()
  const elector = alwaysLeader
  const fleet = await createFleet({ backend, store: memoryStore(), elector, agent: { external: '127.0.0.1:1' } })
  onTestFinished(() => fleet.close())
  expect(fleet.stats().leads).toBe(true)
  const before = deletions()
  expect(await backend.list()).toEqual([])
  expect(deletions()).toBeGreaterThan(before)
  expect(warned()).toHaveLength(1)
  cluster.deletes = 200
  await until('it is removed', async () => (await backend.list()).length === 0 && cluster.pods.length === 0)
})

it('a pod whose secret cannot be read is listed and kept until the secret is known to be missing', async () => {
  const { cluster, backend, deletions, warned } = await scene()
  onTestFinished(() => backend.close())
  cluster.secret = 500
  for (let times = 0; times < 2; times++) expect(await backend.list()).toMatchObject([{ ref, phase: 'pending' }])
  expect([deletions(), warned().length]).toEqual([0, 1])
  cluster.secret = 404
  expect(await backend.list()).toEqual([])
  expect(deletions()).toBeGreaterThan(0)
})
