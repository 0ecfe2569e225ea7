/** What a host finds that takes the lead: a match whose pod runs is not ended for what this host has not heard. */
import { text } from 'node:stream/consumers'
import { alwaysLeader, createFleet, type FleetLimits, memoryStore } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { describe, expect, it, onTestFinished } from 'vitest'
import { templateHash } from '../../../src/rules/template-hash.js'
import { until } from '../../e2e/until.js'
import { configFor, fakeApiServer, say, statusOf } from './fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ref = { namespace: 'games', name: 'arena-a1b2c' }
const template = { spec: { containers: [{ name: 'game', image: 'x' }] } }
const spec = { buildID: 'b', standingBy: 0, max: 1, portsToExpose: [7777], template }
const labels = { [`${group}/uid`]: 'u', [`${group}/server`]: ref.name, [`${group}/build`]: 'arena' }

/** A pod that a match runs on, as the API server shows it at this revision. */
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

/** A match on record, and an API server whose watches say nothing. */
async function scene() {
  const cluster = { listed: [] as readonly object[], shown: undefined as object | undefined, fails: false }
  const deleted: string[] = []
  const patches: unknown[] = []
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method === 'DELETE') {
      deleted.push(pathname)
      return say(response, 200, {})
    }
    const metadata = { resourceVersion: '100' }
    if (pathname.endsWith('/pods')) return say(response, 200, { metadata, items: cluster.listed })
    if (pathname.endsWith('/nodes')) return say(response, 200, { metadata, items: [node] })
    if (!pathname.endsWith(`/pods/${ref.name}`)) return say(response, 200, { metadata: { name: 's', ...metadata } })
    if (cluster.fails) return say(response, 500, statusOf(500, 'InternalError'))
    if (!cluster.shown) return say(response, 404, statusOf(404, 'NotFound', ref.name))
    if (request.method === 'PATCH') void text(request).then((body) => patches.push(JSON.parse(body)))
    say(response, 200, cluster.shown)
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
    session: { id: '7f1b3b9c-0000-4000-8000-000000000001', initialPlayers: [] },
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'] })
  const lists = () => server.asked.filter((line) => /^GET \S+\/pods\?(?!.*watch=)/.test(line)).length
  return {
    ...{ cluster, deleted, patches, backend, store, asked: server.asked, lists },
    async lead(limits: Partial<FleetLimits> = {}) {
      const agent = { mounted: '127.0.0.1:1' }
      const fleet = await createFleet({ backend, store, elector: alwaysLeader, agent, limits })
      onTestFinished(() => fleet.close())
      return fleet
    },
  }
}

describe('a host that takes the lead', () => {
  it('asks for the pods, once, though its watch of them seems to stand: it may be dead', async () => {
    const { cluster, backend, deleted, lists, lead } = await scene()
    const listsAreQuiet = async () => {
      const before = lists()
      await backend.list()
      return lists() === before
    }
    // As /healthz of a host that does not lead does.
    await backend.probe?.({})
    await until('pods are followed', listsAreQuiet)
    // What the host that leads has made meanwhile is not heard of.
    cluster.listed = [podAt(150)]
    const fleet = await lead()
    expect((await fleet.servers.get(ref)).status).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(deleted).toEqual([])
    expect(await listsAreQuiet()).toBe(true)
  })
})
