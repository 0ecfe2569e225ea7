/** A build keeps its uid when its status is cleared: its servers refer to it by that uid. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, respondWithKey, statusOf } from '../support/fake-api-server.js'

const ref = { namespace: 'games', name: 'arena' }
const status = { uid: 'uid-of-record', createdAt: '2025-01-01T00:00:00.123Z' }

function buildAt(revision: number, more: object = { status }, uid = 'uid-of-object') {
  return {
    apiVersion: `${defaultApiGroup}/v1alpha1`,
    kind: 'GameServerBuild',
    metadata: { ...ref, uid, resourceVersion: String(revision), creationTimestamp: '2025-01-01T00:00:00Z' },
    spec: { buildID: 'arena-1', standingBy: 3, max: 5, portsToExpose: [7777], template: { spec: {} } },
    ...more,
  }
}

const server = {
  metadata: {
    namespace: ref.namespace,
    name: 'arena-a1b2c',
    resourceVersion: '9',
    ownerReferences: [{ kind: 'GameServerBuild', name: ref.name, uid: 'uid-of-object' }],
  },
  spec: { uid: 'u', token: 't', build: ref.name, buildUid: status.uid, templateHash: 'h', createdAt: status.createdAt },
}

/** A store that watches one build, and an API server that accepts its writes. */
async function scene(first: object, servers: readonly object[] = []) {
  const watches: ServerResponse[] = []
  const written: unknown[] = []
  let build = first
  const fake = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (pathname.includes('/secrets/')) return respondWithKey(response)
    const isBuilds = pathname.endsWith('/gameserverbuilds')
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      if (isBuilds) watches.push(response)
      return
    }
    if (request.method === 'PUT') {
      void readStatus(request).then((now) => {
        written.push(now)
        build = buildAt(50, { status: now })
        respond(response, 200, build)
      })
      return
    }
    if (pathname.endsWith(`/gameserverbuilds/${ref.name}`)) return respond(response, 200, build)
    if (/\/gameserver[a-z]*\/./.test(pathname)) return respond(response, 404, statusOf(404, 'NotFound', 'x'))
    const items = isBuilds ? [build] : pathname.endsWith('/gameservers') ? servers : []
    respond(response, 200, { metadata: { resourceVersion: '10' }, items })
  })
  const place = { group: defaultApiGroup, systemNamespace: 'games', namespaces: ['games'] }
  const api = apiOf(configFor(fake.url))
  const store = await openKubernetesStore({ api, clock: systemClock, logger: silentLogger, ...place })
  onTestFinished(() => store.close())
  const listed = await store.builds.list()
  const uids: string[] = []
  store.watch?.({
    builds: { listed() {}, changed: ({ record }) => uids.push(record.uid), gone() {} },
    servers: { listed() {}, changed() {}, gone() {} },
  })
  await until('the build is watched', () => watches.length > 0)
  return {
    ...{ store, listed, uids, written },
    becomes(object: object) {
      build = object
      watches.at(-1)?.write(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
    },
  }
}

async function readStatus(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  const { status: sent }: { status?: unknown } = JSON.parse(text)
  return sent
}

describe('a build whose status is cleared', () => {
  it.each([
    ['no status', {}],
    ['no uid', { status: { createdAt: status.createdAt } }],
    ['another uid', { status: { uid: 'another', createdAt: '2026-01-01T00:00:00Z' } }],
  ])('keeps its uid, which is written back, when it now has %s', async (_, cleared) => {
    const { store, listed, uids, written, becomes } = await scene(buildAt(9))
    expect(listed[0]?.record).toMatchObject({ uid: status.uid })
    becomes(buildAt(20, cleared))
    await until('it is reported', () => uids.length > 0)
    expect(uids).toEqual([status.uid])
    await until('its status is written', () => written.length > 0)
    expect(written).toMatchObject([status])
    expect((await store.builds.get(ref))?.record).toMatchObject({
      uid: status.uid,
      createdAt: Date.parse(status.createdAt),
    })
  })

  it('while no host is running gets its uid back from its servers', async () => {
    const { listed, written } = await scene(buildAt(9, {}), [server])
    expect(listed[0]?.record.uid).toBe(status.uid)
    await until('its status is written', () => written.length > 0)
    expect(written).toMatchObject([{ uid: status.uid }])
  })
})

describe('a build that was deleted and created again', () => {
  it('is a new build, even if servers of the old one exist', async () => {
    const { uids, becomes } = await scene(buildAt(9), [server])
    becomes(buildAt(20, {}, 'uid-of-another'))
    await until('it is reported', () => uids.length > 0)
    expect(uids).toEqual(['uid-of-another'])
    expect((await scene(buildAt(20, {}, 'uid-of-another'), [server])).listed[0]?.record.uid).toBe('uid-of-another')
  })
})
