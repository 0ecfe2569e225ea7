/** Readiness of a host that may access only its own namespaces, including while the API server is down. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openKubernetesStore } from '../../../adapters/kubernetes/store/store.js'
import type { Backend } from '../../../src/contracts/backend.js'
import { systemClock } from '../../../src/contracts/clock.js'
import { silentLogger } from '../../../src/contracts/logger.js'
import type { Store } from '../../../src/contracts/store.js'
import { HealthCheck } from '../../../src/fleet/fleet-health.js'
import { memoryStore } from '../../../src/stores/memory.js'
import { until } from '../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, respondWithKey, statusOf } from './support/fake-api-server.js'

const base = { clock: systemClock, logger: silentLogger }

/** An API server with one namespace that this host may access, which contains only the fleet's key. */
async function ownNamespaceOnly() {
  const watches: ServerResponse[] = []
  let isAway = false
  const server = await fakeApiServer((_request: IncomingMessage, response, url) => {
    if (isAway) return response.destroy()
    const { pathname, searchParams } = url
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      return watches.push(response)
    }
    if (pathname.endsWith('/secrets/gamekeeper-key')) return respondWithKey(response)
    const isOwn = pathname.includes('/namespaces/games/') || pathname.endsWith('/nodes')
    if (!isOwn) return respond(response, 403, statusOf(403, 'Forbidden', 'x'))
    if (/\/(pods|nodes|gameserver[a-z]*)$/.test(pathname)) {
      return respond(response, 200, { metadata: { resourceVersion: '10' }, items: [] })
    }
    respond(response, 404, statusOf(404, 'NotFound', pathname.split('/').at(-1)))
  })
  const leave = () => {
    isAway = true
    server.cutAll()
  }
  return { server, watches, leave, comeBack: () => (isAway = false) }
}

function healthOf(parts: { readonly store?: Store; readonly backend?: Backend }) {
  const { store = memoryStore(), backend = memoryBackend() } = parts
  const check = new HealthCheck({
    ...base,
    store,
    backend,
    notReadyReason: () => undefined,
    leads: () => true,
    cannotLeadReason: () => undefined,
  })
  return () => check.run()
}

async function openStore(url: string) {
  const api = apiOf(configFor(url))
  const place = { group: 'mps.gamekeeper.com', systemNamespace: 'games', namespaces: ['games'] }
  const store = await openKubernetesStore({ api, ...base, ...place })
  onTestFinished(() => store.close())
  return store
}

const ignored = { listed() {}, changed() {}, gone() {} }

describe('a host with access to one namespace', () => {
  it('is ready, and requests neither other namespaces nor resources it already watches', async () => {
    const { server, watches } = await ownNamespaceOnly()
    const store = await openStore(server.url)
    const health = healthOf({ store })
    expect(await health()).toMatchObject({ ready: true, store: true, problems: [] })
    expect(await store.builds.get({ namespace: 'default', name: 'x' })).toBeUndefined()
    expect(server.requests.filter((call) => call.includes('/namespaces/default/'))).toEqual([])
    store.watch?.({ builds: ignored, servers: ignored })
    await until('the watches are open', () => watches.length === 2)
    await until('the store knows that it is watching, and health makes no request', async () => {
      const before = server.requests.length
      expect(await healthOf({ store })()).toMatchObject({ ready: true, store: true })
      return server.requests.length === before
    })
  })

  it('is not ready while the API server is down, and ready again afterwards', async () => {
    const { server, watches, leave, comeBack } = await ownNamespaceOnly()
    const store = await openStore(server.url)
    store.watch?.({ builds: ignored, servers: ignored })
    await until('the watches are open', () => watches.length === 2)
    leave()
    await until('the outage is noticed', async () => !(await healthOf({ store })()).store)
    comeBack()
    await until('it is ready', async () => (await healthOf({ store })()).ready)
  })

  it('does not list all pods for each health check while the pod watch is down', async () => {
    const { server, watches, leave, comeBack } = await ownNamespaceOnly()
    const backend = kubernetesBackend({ ...base, kubeConfig: configFor(server.url), namespaces: ['games'] })
    onTestFinished(() => backend.close())
    await backend.list()
    // The watches of pods and nodes.
    await until('the watches are open', () => watches.length === 2)
    expect(await healthOf({ backend })()).toMatchObject({ ready: true, backend: true })
    leave()
    await until('the outage is noticed', async () => !(await healthOf({ backend })()).backend)
    const before = server.requests.length
    await healthOf({ backend })()
    const requests = server.requests.slice(before).filter((call) => !call.includes('watch='))
    expect(requests.filter((call) => !call.includes('limit=1'))).toEqual([])
    comeBack()
    await until('it is ready', async () => (await healthOf({ backend })()).ready)
  })
})
