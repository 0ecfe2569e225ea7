/** The pod cache when responses, lists and watch events arrive out of order. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WriteFence } from '../../../../adapters/kubernetes/client/write-fence.js'
import { PodCache } from '../../../../adapters/kubernetes/pods/pod-cache.js'
import { containerAnnotation, namesOf } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { type Logger, silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { type Answer, apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ref = { namespace: 'games', name: 'arena-a1b2c' }

interface Sketch {
  readonly uid?: string
  readonly phase?: string
  readonly more?: object
}

/** A pod as the API server shows it at this revision. */
function podAt(revision: number, { uid = 'first', phase = 'Running', more = {} }: Sketch = {}) {
  const labels = { [`${group}/uid`]: `server-of-${uid}`, [`${group}/server`]: ref.name }
  const state = phase === 'Running' ? { running: {} } : { waiting: { reason: 'ContainerCreating' } }
  return {
    metadata: { ...ref, uid, resourceVersion: String(revision), labels, ...more },
    spec: { nodeName: 'node-1', containers: [{ name: 'game' }] },
    status: { phase, containerStatuses: [{ name: 'game', state }] },
  }
}

/** As set by a regular deletion. */
const ending = { deletionTimestamp: '2025-01-01T00:00:00Z' }

interface Setting {
  readonly publicAddress?: string
  readonly logger?: Logger
  readonly fence?: WriteFence
}

/** An API server whose lists and watches of pods the test controls. */
async function scene(first: readonly object[] = [], { publicAddress, logger = silentLogger, fence }: Setting = {}) {
  const revision = 90
  const watches: { readonly from: string | null; readonly response: ServerResponse }[] = []
  const nodes = { items: [] as readonly object[], revision: 90, watches: [] as ServerResponse[] }
  const reports: string[] = []
  let listed = { items: first, revision }
  let hold: ((answer: () => void) => void) | undefined
  let show: Answer = (_, response) => respond(response, 404, statusOf(404, 'NotFound'))
  const server = await fakeApiServer((request, response, url) => {
    const isWatch = url.searchParams.has('watch')
    if (url.pathname.endsWith(`/pods/${ref.name}`)) return show(request, response, url)
    if (isWatch) {
      response.writeHead(200).flushHeaders()
      if (url.pathname.endsWith('/pods')) watches.push({ from: url.searchParams.get('resourceVersion'), response })
      else nodes.watches.push(response)
      return
    }
    if (url.pathname.endsWith('/nodes')) {
      const metadata = { resourceVersion: String(nodes.revision) }
      return respond(response, 200, { metadata, items: nodes.items })
    }
    const { items } = listed
    const body = { metadata: { resourceVersion: String(listed.revision) }, items }
    const answer = () => respond(response, 200, body)
    if (hold) hold(answer)
    else answer()
  })
  const pods = new PodCache({
    api: apiOf(configFor(server.url), fence && { fence }),
    clock: systemClock,
    logger,
    names: namesOf(group),
    namespaces: [ref.namespace],
    publicAddress,
    onChange: ({ podUid, instance }) => reports.push(`${podUid} ${instance.phase}`),
    onGone: ({ podUid }) => reports.push(`${podUid} gone`),
  })
  onTestFinished(() => pods.stop())
  await pods.start()
  const opened = (count: number) => until(`watch ${count} is open`, () => watches.length >= count)
  await opened(1)
  return {
    ...{ pods, reports, watches, opened, nodes, requests: server.requests },
    send: (type: string, object: object) => watches.at(-1)?.response.write(`${JSON.stringify({ type, object })}\n`),
    lists: (items: readonly object[], at: number) => (listed = { items, revision: at }),
    /** Holds back the next lists. Resolves with a function that answers the first one. */
    held: () => new Promise<() => void>((resolve) => (hold = resolve)),
    shows: (answer: Answer) => (show = answer),
    cachedUid: () => pods.find(ref)?.podUid,
  }
}

describe('a pod reported by a watch', () => {
  it('stays cached when an older list omits it', async () => {
    const { pods, reports, watches, opened, send, lists, held, cachedUid } = await scene()
    lists([], 100)
    const heldList = held()
    watches[0]?.response.destroy()
    const listing = await until('the client knows that the watch is down', () => {
      // While the watch is open, `list` makes no request and resolves at once.
      const call = pods.list(undefined)
      return Promise.race([heldList.then(() => ({ call })), call.then(() => undefined)])
    })
    const answer = await heldList
    pods.add(podAt(101, { phase: 'Pending' }))
    await opened(2)
    send('MODIFIED', podAt(105))
    await until('it is reported', () => reports.includes('first running'))
    answer()
    await listing.call
    expect([cachedUid(), reports]).toEqual(['first', ['first pending', 'first running']])
  })

  it('ignores an older response that arrives late', async () => {
    const { pods, reports, send, shows, cachedUid } = await scene([podAt(80, { phase: 'Pending' })])
    let response: ServerResponse | undefined
    shows((_, late) => void (response = late))
    const fetched = pods.fetch(ref, undefined)
    const waiting = await until('it is requested', () => response)
    send('MODIFIED', podAt(105))
    await until('it is reported', () => reports.includes('first running'))
    respond(waiting, 200, podAt(80, { phase: 'Pending' }))
    expect((await fetched)?.instance.phase).toBe('running')
    expect([cachedUid(), reports]).toEqual(['first', ['first pending', 'first running']])
  })

  it('stays removed when an older response still contains it', async () => {
    const { pods, reports, send, shows, cachedUid } = await scene([podAt(80)])
    let response: ServerResponse | undefined
    shows((_, late) => void (response = late))
    const fetched = pods.fetch(ref, undefined)
    const waiting = await until('it is requested', () => response)
    send('DELETED', podAt(105, { more: ending }))
    await until('its end is reported', () => reports.includes('first gone'))
    respond(waiting, 200, podAt(80))
    expect([await fetched, cachedUid()]).toEqual([undefined, undefined])
    // Nor does the response to its creation bring it back.
    expect([pods.add(podAt(80)), cachedUid()]).toEqual([undefined, undefined])
    expect(reports).toEqual(['first running', 'first gone'])
  })

  it('is replaced by its successor, which a late event for the old pod does not overwrite', async () => {
    const { pods, reports, send, cachedUid } = await scene([podAt(80)])
    pods.add(podAt(110, { uid: 'second' }))
    send('MODIFIED', podAt(100))
    send('DELETED', podAt(105))
    send('MODIFIED', podAt(112, { uid: 'second', more: { annotations: { seen: 'yes' } } }))
    await until('all events are processed', () => pods.find(ref)?.revision === 112)
    expect([cachedUid(), reports]).toEqual(['second', ['first running', 'first gone', 'second running']])
  })
})

describe('a pod known only from the response to its creation', () => {
  it('stays cached when an older list omits it, and is removed when a newer list omits it', async () => {
    const { pods, reports, watches, opened, lists, send, cachedUid } = await scene()
    pods.add(podAt(101, { phase: 'Pending' }))
    const listAt = async (at: number) => {
      lists([], at)
      const before = watches.length
      send('ERROR', { kind: 'Status', code: 410, reason: 'Gone', message: 'too old' })
      await opened(before + 1)
    }
    await listAt(100)
    expect([watches.at(-1)?.from, cachedUid()]).toEqual(['100', 'first'])
    await listAt(102)
    await until('it is gone', () => cachedUid() === undefined)
    expect(reports).toEqual(['first pending', 'first gone'])
  })
})

describe('a cluster restored from a backup', () => {
  it('replaces the cache even though its revisions are lower', async () => {
    const { reports, watches, opened, lists, send, cachedUid, pods } = await scene([podAt(80)])
    send('MODIFIED', podAt(500, { more: { annotations: { seen: 'yes' } } }))
    await until('it is reported', () => pods.find(ref)?.revision === 500)
    lists([podAt(60, { phase: 'Pending' })], 200)
    send('ERROR', { kind: 'Status', code: 410, reason: 'Gone', message: 'too old' })
    await opened(2)
    await until('the restored state is cached', () => pods.find(ref)?.instance.phase === 'pending')
    send('DELETED', podAt(201))
    await until('it is gone', () => cachedUid() === undefined)
    expect([watches.at(-1)?.from, reports]).toEqual(['200', ['first running', 'first pending', 'first gone']])
  })
})

/** An API server with one pod, which can be read and patched whether or not the watch selects it. */
async function sceneOfOne(setting: Setting = {}) {
  const warned: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message?: string) => void warned.push(message ?? '') }
  const marks = { annotations: { [`${group}/ports`]: '7777:10003', [containerAnnotation]: 'game' } }
  const whole = podAt(80, { more: marks })
  const at = await scene([whole], { logger, ...setting })
  const patches: unknown[] = []
  let pod: ReturnType<typeof podAt> | undefined = whole
  let isAway = false
  at.shows((request, response) => {
    if (isAway) return respond(response, 503, statusOf(503, 'ServiceUnavailable', ref.name))
    if (!pod) return respond(response, 404, statusOf(404, 'NotFound', ref.name))
    if (request.method !== 'PATCH') return respond(response, 200, pod)
    void readJson(request).then((patch) => {
      patches.push(patch)
      pod = podAt(120, { more: marks })
      respond(response, 200, pod)
      at.send('ADDED', pod)
    })
  })
  const labels = (changed: object) => ({ ...marks, labels: { ...whole.metadata.labels, ...changed } })
  const put = (next: typeof pod) => (pod = next)
  const away = (is: boolean) => (isAway = is)
  return { ...at, warned, patches, labels, put, away, marks, requests: at.requests }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return JSON.parse(text)
}

describe('a pod whose labels are edited', () => {
  const asItWas = {
    metadata: {
      uid: 'first',
      labels: { [`${group}/server`]: ref.name, [`${group}/uid`]: 'server-of-first' },
      annotations: { [`${group}/ports`]: '7777:10003', [containerAnnotation]: 'game' },
    },
  }
  const exited = { phase: 'Failed', containerStatuses: [{ name: 'game', state: { terminated: { exitCode: 3 } } }] }

  it('stays cached when the watch no longer selects it, and gets its labels back', async () => {
    const { pods, reports, warned, patches, labels, put, send, marks } = await sceneOfOne()
    put(podAt(105, { more: labels({ [`${group}/server`]: undefined }) }))
    // Its last labelled state, at the new revision.
    send('DELETED', podAt(105, { more: marks }))
    await until('it is reported again', () => pods.find(ref)?.revision === 120)
    expect([reports, patches]).toEqual([['first running'], [asItWas]])
    expect(warned).toEqual(['pod labels or annotations were changed; restoring them'])
  })

  it('keeps its identity, regardless of its labels', async () => {
    const { pods, reports, patches, labels, put, send } = await sceneOfOne()
    const changed = podAt(105, { more: labels({ [`${group}/uid`]: 'another' }) })
    put(changed)
    send('MODIFIED', changed)
    await until('its labels are restored', () => pods.find(ref)?.revision === 120)
    expect(pods.find(ref)?.identity).toMatchObject({ uid: 'server-of-first', ports: [{ public: 10_003 }] })
    expect([reports, patches]).toEqual([['first running'], [asItWas]])
  })

  it.each([
    ['without its uid', { labels: { [`${group}/server`]: ref.name } }],
    ['with malformed ports', { annotations: { [`${group}/ports`]: 'none' } }],
  ])('is watched until it exits, even %s', async (_, change) => {
    const { reports, pods, labels, put, send } = await sceneOfOne()
    const more = { ...labels({}), ...change }
    put(podAt(105, { more }))
    send('MODIFIED', { ...podAt(105, { more }), status: exited })
    await until('its exit is reported', () => reports.includes('first exited'))
    put(undefined)
    send('DELETED', { ...podAt(130, { more }), status: exited })
    await until('it is gone', () => pods.find(ref) === undefined)
    expect(reports.filter((line) => !line.endsWith('running'))).toEqual(['first exited', 'first gone'])
  })

  it('stays cached when a relist omits it, until its labels are restored', async () => {
    const { pods, reports, labels, lists, opened, put, send, away } = await sceneOfOne()
    away(true)
    put(podAt(105, { more: labels({ [`${group}/server`]: undefined }) }))
    lists([], 106)
    send('ERROR', { kind: 'Status', code: 410, reason: 'Gone', message: 'too old' })
    await opened(2)
    expect([pods.find(ref)?.podUid, reports]).toEqual(['first', ['first running']])
    away(false)
    await until('it is reported again', () => pods.find(ref)?.revision === 120)
    expect(reports).toEqual(['first running'])
  })

  it('gets its labels back only from a host that is leading', async () => {
    const fence = new WriteFence(systemClock)
    fence.close()
    const { pods, reports, patches, requests, labels, put, send } = await sceneOfOne({ fence })
    put(podAt(105, { more: labels({ [`${group}/server`]: undefined }) }))
    send('DELETED', podAt(105))
    const reads = () => requests.filter((line) => line.endsWith(`/pods/${ref.name}`)).length
    await until('it was requested twice', () => reads() >= 2)
    expect([pods.find(ref)?.podUid, reports, patches]).toEqual(['first', ['first running'], []])
    fence.open(fence.timePoint(), 60_000, () => {})
    await until('it is reported again', () => pods.find(ref)?.revision === 120)
    expect([reports, patches]).toEqual([['first running'], [asItWas]])
  })
})

describe('a pod that was force-deleted', () => {
  it('is removed once the API server confirms the deletion', async () => {
    const { pods, reports, put, away, requests, send } = await sceneOfOne()
    away(true)
    put(undefined)
    send('DELETED', podAt(105))
    await until('it was requested', () => requests.some((line) => line.endsWith(`/pods/${ref.name}`)))
    expect([pods.find(ref)?.podUid, reports]).toEqual(['first', ['first running']])
    away(false)
    await until('it is gone', () => pods.find(ref) === undefined)
    expect(reports).toEqual(['first running', 'first gone'])
  })
})

describe('the address of a pod', () => {
  const nodeAt = (address: string) => ({
    metadata: { name: 'node-1', resourceVersion: '90' },
    status: { addresses: [{ type: 'ExternalIP', address }], conditions: [{ type: 'Ready', status: 'True' }] },
  })

  it('is that of its node, even after the nodes are listed again', async () => {
    const { pods, reports, nodes } = await scene([podAt(80)])
    const address = () => pods.find(ref)?.instance.address
    expect(address()).toBeUndefined()
    await until('nodes are followed', () => nodes.watches.length === 1)
    nodes.items = [nodeAt('198.51.100.4')]
    nodes.watches[0]?.write(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410 } })}\n`)
    await until('it is reported', () => reports.length === 2)
    expect(address()).toBe('198.51.100.4')
  })

  it('is the configured publicAddress, regardless of the node', async () => {
    const { pods } = await scene([podAt(80)], { publicAddress: '203.0.113.7' })
    expect(pods.find(ref)?.instance.address).toBe('203.0.113.7')
  })
})

describe('a cached pod', () => {
  it('keeps only the fields in use, which are less than a tenth of the object', async () => {
    const padding = Array.from({ length: 40 }, (_, i) => ({ name: `f:field-${i}`, value: 'x'.repeat(100) }))
    const pod = podAt(80, { more: { managedFields: padding, annotations: { [`${group}/ports`]: '7777:10003' } } })
    const reported = { ...pod, spec: { ...pod.spec, containers: [{ name: 'game', image: 'arena', env: padding }] } }
    const { pods } = await scene([reported])
    const snapshot = pods.find(ref)
    expect(snapshot?.instance).toMatchObject({ phase: 'running', ports: [{ container: 7777, public: 10_003 }] })
    expect(JSON.stringify(snapshot).length).toBeLessThan(JSON.stringify(reported).length / 10)
  })

  it('is reported only when its instance changes', async () => {
    const { pods, reports, send } = await scene([podAt(80)])
    for (const revision of [101, 102, 103])
      send('MODIFIED', podAt(revision, { more: { annotations: { seen: 'yes' } } }))
    await until('all events are processed', () => pods.find(ref)?.revision === 103)
    expect(reports).toEqual(['first running'])
  })
})
