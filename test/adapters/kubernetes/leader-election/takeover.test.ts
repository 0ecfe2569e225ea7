/** A new leader does not end matches whose pods are running, even if its own view of the pods is stale. */
import { text } from 'node:stream/consumers'
import { alwaysLeader, createFleet, type FleetLimits, memoryStore } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { describe, expect, it, onTestFinished } from 'vitest'
import { templateHash } from '../../../../src/rules/planning/rollout.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ref = { namespace: 'games', name: 'arena-a1b2c' }
const template = { spec: { containers: [{ name: 'game', image: 'x' }] } }
const spec = { buildID: 'b', standingBy: 0, max: 1, portsToExpose: [7777], template }
const labels = { [`${group}/uid`]: 'u', [`${group}/server`]: ref.name, [`${group}/build`]: 'arena' }

/** The pod of a match as the API server returns it at this revision. */
function podAt(revision: number, more: object = {}) {
  const annotations = { [`${group}/ports`]: '7777:10003' }
  return {
    metadata: { ...ref, uid: 'p', resourceVersion: String(revision), labels, annotations, ...more },
    spec: { nodeName: 'node-1', containers: [{ name: 'game' }] },
    status: { phase: 'Running', containerStatuses: [{ name: 'game', state: { running: {} } }] },
  }
}

const node = {
  metadata: { name: 'node-1', resourceVersion: '5' },
  status: {
    addresses: [{ type: 'InternalIP', address: '10.0.0.4' }],
    conditions: [{ type: 'Ready', status: 'True' }],
  },
}

const releasedLease = {
  metadata: { name: group, resourceVersion: '6' },
  spec: { holderIdentity: '', leaseDurationSeconds: 1 },
}

/** A recorded match, and an API server whose watches are silent. */
async function scene() {
  const cluster = { listed: [] as readonly object[], shown: undefined as object | undefined, fails: false }
  const deleted: string[] = []
  const patches: string[] = []
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method === 'DELETE') {
      deleted.push(pathname)
      return respond(response, 200, {})
    }
    const metadata = { resourceVersion: '100' }
    if (pathname.endsWith('/pods')) return respond(response, 200, { metadata, items: cluster.listed })
    if (pathname.endsWith('/leases') && request.method === 'GET') return respond(response, 200, { metadata, items: [] })
    if (pathname.includes('/leases')) {
      if (request.method === 'GET') return respond(response, 200, releasedLease)
      return void text(request).then((body) => {
        const lease = JSON.parse(body)
        respond(response, 200, { ...lease, metadata: { ...lease.metadata, ...metadata } })
      })
    }
    if (pathname.endsWith('/nodes')) return respond(response, 200, { metadata, items: [node] })
    if (!pathname.endsWith(`/pods/${ref.name}`)) return respond(response, 200, { metadata: { name: 's', ...metadata } })
    if (cluster.fails) return respond(response, 500, statusOf(500, 'InternalError'))
    if (!cluster.shown) return respond(response, 404, statusOf(404, 'NotFound', ref.name))
    if (request.method === 'PATCH') void text(request).then((body) => patches.push(body))
    respond(response, 200, cluster.shown)
  })
  const store = memoryStore()
  await store.builds.create({
    ...{ namespace: 'games', name: 'arena', uid: 'bu', createdAt: Date.now(), spec },
    ...{ crashes: 0, countedCrashes: [], conditions: [] },
  })
  await store.servers.create({
    ...ref,
    ...{
      uid: 'u',
      token: 't',
      build: 'arena',
      buildUid: 'bu',
      templateHash: templateHash(spec),
      createdAt: Date.now(),
    },
    ...{ state: 'Active', health: 'Healthy', address: '10.0.0.4', node: 'node-1' },
    ports: [{ container: 7777, public: 10_003 }],
    sessions: [{ id: '7f1b3b9c-0000-4000-8000-000000000001', initialPlayers: [], number: 1, startedAt: 0 }],
    startedSessions: 1,
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'] })
  const lists = () => server.requests.filter((line) => /^GET \S+\/pods\?(?!.*watch=)/.test(line)).length
  return {
    ...{ cluster, deleted, patches, backend, store, requests: server.requests, lists },
    async lead(limits: Partial<FleetLimits> = {}, elector = alwaysLeader) {
      const agent = { external: '127.0.0.1:1' }
      const fleet = await createFleet({ backend, store, elector, agent, limits })
      onTestFinished(() => fleet.close())
      return fleet
    },
  }
}

describe('a new leader', () => {
  it('lists the pods once, since its watch may be dead', async () => {
    const { cluster, backend, deleted, lists, lead } = await scene()
    const listsAreQuiet = async () => {
      const before = lists()
      await backend.list()
      return lists() === before
    }
    // Checks health as /healthz does on a host that is not the leader.
    await backend.probe?.({})
    await until('pods are followed', listsAreQuiet)
    // Pods that the leader has created in the meantime are not reported.
    cluster.listed = [podAt(150)]
    const fleet = await lead()
    expect((await fleet.servers.get(ref)).status).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(deleted).toEqual([])
    expect(await listsAreQuiet()).toBe(true)
  })

  it('lists the pods once it is elected, while it reads the records', async () => {
    const { cluster, backend, deleted, lists, requests, store, lead } = await scene()
    await backend.probe?.({})
    await until('pods are followed', () => requests.some((line) => /\/pods\?.*watch=/.test(line)))
    const before = lists()
    // The watch is dead.
    cluster.listed = [podAt(150)]
    const list = store.servers.list.bind(store.servers)
    const servers = {
      list: async () => {
        await until('the pods are requested', () => lists() > before)
        return list()
      },
    }
    Object.assign(store.servers, servers)
    const fleet = await lead({}, backend.defaultElector)
    expect((await fleet.servers.get(ref)).status).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect([deleted, lists()]).toEqual([[], before + 1])
  })

  it.each([
    ['lost the label that the list selects', { labels: { [`${group}/uid`]: 'u' } }],
    ['lost the label with the name of its server', { labels: { [`${group}/server`]: ref.name } }],
    ['lost all its labels and annotations', { labels: {}, annotations: {} }],
  ])('recognizes a pod that %s while no host led, and restores its labels', async (_, more) => {
    const { cluster, deleted, patches, lead } = await scene()
    cluster.shown = podAt(90, more)
    const fleet = await lead()
    const { status } = await fleet.servers.get(ref)
    expect(status).toMatchObject({ state: 'Active', health: 'Healthy', ports: '7777:10003' })
    const marked = await until('its labels are restored', () =>
      patches.find((patch) => patch.includes(`${group}/server`)),
    )
    const annotations = { [`${group}/ports`]: '7777:10003', 'kubectl.kubernetes.io/default-container': 'game' }
    expect(JSON.parse(marked)).toEqual({
      metadata: { uid: 'p', labels: { [`${group}/uid`]: 'u', [`${group}/server`]: ref.name }, annotations },
    })
    expect(deleted).toEqual([])
  })

  it.each([
    ['no pod has its name', undefined],
    ['the pod with its name belongs to another server', podAt(90, { labels: { ...labels, [`${group}/uid`]: 'v' } })],
    [
      'the pod with its name has no labels and another owner',
      podAt(90, { labels: {}, ownerReferences: [{ uid: 'x' }] }),
    ],
    ['its pod was already gone from the list', podAt(90)],
  ])('treats a server as gone when %s', async (_, shown) => {
    const { cluster, deleted, store, lead } = await scene()
    cluster.shown = shown
    await lead()
    await until('its record is removed', async () => !(await store.servers.get(ref)))
    expect(deleted).toEqual([])
  })

  it('treats no server as gone until the API server confirms it', async () => {
    const { cluster, requests, store, lead } = await scene()
    cluster.fails = true
    await lead({ resyncIntervalMs: 100 })
    const tries = () => requests.filter((line) => line.endsWith(`/pods/${ref.name}`)).length
    await until('it was requested twice', () => tries() >= 2)
    expect((await store.servers.get(ref))?.record.state).toBe('Active')
    cluster.fails = false
    await until('its record is removed', async () => !(await store.servers.get(ref)))
  })
})
