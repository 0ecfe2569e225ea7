/** Pods whose start an earlier leader did not complete: they are removed, and never count as crashes. */
import type { ServerResponse } from 'node:http'
import { alwaysLeader, createFleet, memoryStore } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import type { BackendListener, Instance } from '../../../../src/contracts/backend.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { templateHash } from '../../../../src/rules/planning/rollout.js'
import { minimalBuild, minimalServer } from '../../../../src/testing/records.js'
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

const waitingFor = (reason: string, resourceVersion: string) => ({
  ...pod,
  metadata: { ...pod.metadata, resourceVersion },
  status: { phase: 'Pending', containerStatuses: [{ name: 'game', state: { waiting: { reason } } }] },
})

async function scene() {
  const cluster = {
    pods: [pod] as readonly object[],
    deletes: 500,
    secret: 'absent',
    secretRead: () => Promise.resolve(),
  }
  const warnings: string[] = []
  const watches = new Set<ServerResponse>()
  const report = (type: 'ADDED' | 'MODIFIED' | 'DELETED', object: object) => {
    for (const watch of watches) watch.write(`${JSON.stringify({ type, object: { ...object, kind: 'Pod' } })}\n`)
  }
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) {
      if (pathname.endsWith('/pods')) watches.add(response)
      return response.writeHead(200).flushHeaders()
    }
    if (request.method === 'DELETE') {
      if (cluster.deletes === 200) {
        cluster.pods = []
        report('DELETED', waitingFor('ContainerCreating', '200'))
      }
      return respond(response, cluster.deletes, statusOf(cluster.deletes, 'InternalError'))
    }
    if (request.method === 'POST' && pathname.endsWith('/pods')) {
      const created = { ...pod, metadata: { ...pod.metadata, uid: 'next', resourceVersion: '300' } }
      cluster.pods = [created]
      return respond(response, 201, created)
    }
    if (pathname.endsWith('/secrets') && searchParams.get('dryRun') === 'All') {
      return void cluster.secretRead().then(() => {
        if (cluster.secret === 'absent') respond(response, 201, { metadata: { name: 's' } })
        else if (cluster.secret === 'present') respond(response, 409, statusOf(409, 'AlreadyExists', 's'))
        else respond(response, 500, statusOf(500, 'InternalError', 's'))
      })
    }
    // Hosts need not be allowed to read secrets.
    if (pathname.includes('/secrets')) return respond(response, 403, statusOf(403, 'Forbidden', 's'))
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
  const requests = (start: string) => server.requests.filter((line) => line.startsWith(start)).length
  const deletions = () => requests('DELETE')
  const warned = () => warnings.filter((line) => line.includes(ref.name))
  return { cluster, backend, requests, deletions, warned, report, watches }
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
  const seen: Instance[] = []
  backend.watch(listenerOf((instance) => seen.push(instance)))
  cluster.secret = 'unknown'
  for (let times = 0; times < 2; times++) expect(await backend.list()).toMatchObject([{ ref, phase: 'pending' }])
  expect([deletions(), warned().length]).toEqual([0, 1])
  seen.length = 0
  cluster.secret = 'absent'
  expect(await backend.list()).toEqual([])
  expect(deletions()).toBeGreaterThan(0)
  const reason = 'an earlier leader did not complete its start'
  expect(seen).toMatchObject([{ ref, phase: 'exited', interrupted: true, reason }])
})

it('a pod that an earlier leader creates after the list is removed, and is not reported before its secret is known to exist', async () => {
  const { cluster, backend, deletions, report, watches } = await scene()
  onTestFinished(() => backend.close())
  cluster.pods = []
  cluster.deletes = 200
  const seen: Instance[] = []
  backend.watch(listenerOf((instance) => seen.push(instance)))
  expect(await backend.list()).toEqual([])
  await until('it watches', () => watches.size > 0)
  report('ADDED', waitingFor('ContainerCreating', '101'))
  await until('it is removed', () => deletions() === 1)
  cluster.secret = 'present'
  const complete = waitingFor('ContainerCreating', '201')
  report('ADDED', { ...complete, metadata: { ...complete.metadata, uid: 'complete' } })
  await until('it is reported', () => seen.length > 0)
  expect(seen).toMatchObject([{ ref, phase: 'pending' }])
})

it('a start that an earlier leader left incomplete is repeated, and is no crash', async () => {
  const { cluster, backend, requests, report, watches } = await scene()
  cluster.deletes = 200
  const store = memoryStore()
  const { spec, ...plain } = minimalBuild({ namespace: ref.namespace, name: 'arena' })
  const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
  const build = { ...plain, spec: { ...spec, standingBy: 1, max: 1, template } }
  await store.builds.create(build)
  const owner = { build: 'arena', buildUid: build.uid, templateHash: templateHash(build.spec) }
  await store.servers.create({ ...minimalServer(ref), uid: 'u', state: 'Pending', ...owner })
  // The watch reports the pod while its secret is looked up for the first list.
  let isReported = false
  let isWatching = false
  const other = { ...pod, metadata: { ...pod.metadata, name: 'other', uid: 'o', resourceVersion: '103' } }
  cluster.secretRead = async () => {
    await until('the fleet watches', () => isWatching && watches.size > 0)
    report('MODIFIED', waitingFor('ImagePullBackOff', '102'))
    const labels = { [`${group}/uid`]: 'other', [`${group}/server`]: 'other' }
    report('ADDED', { ...other, metadata: { ...other.metadata, labels }, status: { phase: 'Running' } })
    await until('the fleet knows', () => isReported)
  }
  const watch = backend.watch.bind(backend)
  backend.watch = (listener) => {
    isWatching = true
    return watch({
      ...listener,
      changed: (instance) => {
        listener.changed(instance)
        if (instance.ref.name === 'other') isReported = true
      },
    })
  }
  let lists = 0
  const list = backend.list.bind(backend)
  backend.list = (options) => {
    lists++
    return list(options)
  }
  const agent = { external: '127.0.0.1:1' }
  const limits = { resyncIntervalMs: 50 }
  const fleet = await createFleet({ backend, store, elector: alwaysLeader, agent, limits })
  onTestFinished(() => fleet.close())
  await until('its pod is created again', () => requests('POST /api/v1/namespaces/games/pods') === 1)
  const before = lists
  await until('the fleet has listed it', () => lists > before + 1)
  const { status } = await fleet.builds.get(build)
  expect(status).toMatchObject({ crashesCount: 0, currentPending: 1 })
})

function listenerOf(changed: (instance: Instance) => void): BackendListener {
  return {
    changed,
    gone() {},
    resync() {},
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
  }
}
