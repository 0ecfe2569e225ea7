/** A pod deleted from outside, by a drain, kubectl or a taint, keeps the grace period of that deletion. */
import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { alwaysLeader, createFleet, memoryStore } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { templateHash } from '../../../../src/rules/planning/rollout.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond } from '../support/fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ref = { namespace: 'games', name: 'arena-a1b2c' }
const graceSeconds = 3_600
const template = { spec: { terminationGracePeriodSeconds: graceSeconds, containers: [{ name: 'game', image: 'x' }] } }
const spec = { buildID: 'b', standingBy: 0, max: 1, portsToExpose: [], template }

function podOf(revision: number, ending: object = {}) {
  return {
    metadata: {
      ...{ ...ref, uid: 'p', resourceVersion: String(revision) },
      labels: { [`${group}/uid`]: 'u', [`${group}/server`]: ref.name, [`${group}/build`]: 'arena' },
      ...ending,
    },
    spec: {
      nodeName: 'node-1',
      containers: [{ name: 'game' }],
      volumes: [{ name: 'gamekeeper-config', secret: { secretName: 's' } }],
    },
    status: { phase: 'Running', containerStatuses: [{ name: 'game', state: { running: {} } }] },
  }
}

/** A fleet with a match on its only server, whose game sends heartbeats. */
async function scene({ shortenedTo }: { readonly shortenedTo?: number } = {}) {
  const watches: ServerResponse[] = []
  const deletions: unknown[] = []
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      if (pathname.endsWith('/pods')) watches.push(response)
    } else if (request.method === 'DELETE') {
      void text(request).then((body) => {
        if (pathname.includes('/pods/')) deletions.push(JSON.parse(body))
        respond(response, 200, {})
      })
    } else {
      const items = pathname.endsWith('/pods') ? [podOf(90)] : []
      respond(response, 200, { metadata: { name: 's', resourceVersion: '100' }, items })
    }
  })
  const store = memoryStore()
  const at = { createdAt: Date.now(), conditions: [] }
  await store.builds.create({
    ...at,
    namespace: 'games',
    name: 'arena',
    uid: 'bu',
    spec,
    crashes: 0,
    countedCrashes: [],
  })
  await store.servers.create({
    ...{ ...ref, uid: 'u', token: 't', build: 'arena', buildUid: 'bu', templateHash: templateHash(spec) },
    ...{ createdAt: Date.now(), state: 'Active', health: 'Healthy', address: '10.0.0.4', node: 'node-1', ports: [] },
    sessions: [{ id: '7f1b3b9c-0000-4000-8000-000000000001', initialPlayers: [], number: 1, startedAt: 0 }],
    startedSessions: 1,
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'] })
  const destroy = backend.destroy.bind(backend)
  const destroys: { readonly graceMs: number; readonly done: Promise<void> }[] = []
  Object.assign(backend, {
    destroy(...call: Parameters<typeof destroy>) {
      const done = destroy(...call)
      destroys.push({ graceMs: call[2].graceMs, done })
      if (shortenedTo !== undefined) void destroy(ref, 'u', { graceMs: shortenedTo })
      return done
    },
  })
  const fleet = await createFleet({ backend, store, elector: alwaysLeader, agent: { external: '127.0.0.1:1' } })
  onTestFinished(() => fleet.close())
  await until('pods are followed', () => watches.length > 0)
  fleet.heartbeat(`${ref.name}.t`, { state: 'Active', health: 'Healthy', players: [] })
  const watched = (type: string, pod: object) => watches.at(-1)?.write(`${JSON.stringify({ type, object: pod })}\n`)
  return { backend, destroys, deletions, watched }
}

it('an externally deleted pod gets a shorter grace period that is requested right after the fleet begins to end it', async () => {
  const { destroys, deletions, watched } = await scene({ shortenedTo: 60_000 })
  const endsAt = new Date(Date.now() + graceSeconds * 1_000).toISOString()
  const ending = { deletionTimestamp: endsAt, deletionGracePeriodSeconds: graceSeconds }
  watched('MODIFIED', podOf(110, ending))
  await until('it is deleted', () => deletions.length > 0)
  watched('DELETED', podOf(120, ending))
  await Promise.all(destroys.map(({ done }) => done))
  expect(deletions).toEqual([{ gracePeriodSeconds: 60, preconditions: { uid: 'p' } }])
})

it('an externally deleted pod keeps its grace period unless a shorter one is requested', async () => {
  const { backend, destroys, deletions, watched } = await scene()
  const endsAt = new Date(Date.now() + graceSeconds * 1_000).toISOString()
  const ending = { deletionTimestamp: endsAt, deletionGracePeriodSeconds: graceSeconds }
  watched('MODIFIED', podOf(110, ending))
  const first = await until('the fleet ends it', () => destroys[0])
  expect(first.graceMs).toBeGreaterThan(0.9 * graceSeconds * 1_000)
  void backend.destroy(ref, 'u', { graceMs: 60_000 })
  await until('it is deleted', () => deletions.length > 0)
  watched('DELETED', podOf(120, ending))
  await Promise.all(destroys.map(({ done }) => done))
  expect(deletions).toEqual([{ gracePeriodSeconds: 60, preconditions: { uid: 'p' } }])
})
