/** What is known of pods, when answers and watches of an API server cross each other. */
import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { namesOf } from '../../../adapters/kubernetes/labels.js'
import { Pods } from '../../../adapters/kubernetes/pods.js'
import { systemClock } from '../../../src/clock.js'
import { silentLogger } from '../../../src/logger.js'
import { until } from '../../e2e/until.js'
import { type Answer, apiOf, configFor, fakeApiServer, say, statusOf } from './fake-api-server.js'

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

/** An API server whose lists and watches of pods the test plays. */
async function scene(first: readonly object[] = [], publicAddress?: string) {
  const revision = 90
  const watches: { readonly from: string | null; readonly response: ServerResponse }[] = []
  const nodes = { items: [] as readonly object[], revision: 90, watches: [] as ServerResponse[] }
  const told: string[] = []
  let listed = { items: first, revision }
  let hold: ((answer: () => void) => void) | undefined
  let show: Answer = (_, response) => say(response, 404, statusOf(404, 'NotFound'))
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
      return say(response, 200, { metadata, items: nodes.items })
    }
    const { items } = listed
    const body = { metadata: { resourceVersion: String(listed.revision) }, items }
    const answer = () => say(response, 200, body)
    if (hold) hold(answer)
    else answer()
  })
  const pods = new Pods({
    api: apiOf(configFor(server.url)),
    clock: systemClock,
    logger: silentLogger,
    names: namesOf(group),
    namespaces: [ref.namespace],
    publicAddress,
    onChange: ({ podUid, instance }) => told.push(`${podUid} ${instance.phase}`),
    onGone: ({ podUid }) => told.push(`${podUid} gone`),
  })
  onTestFinished(() => pods.stop())
  await pods.start()
  const opened = (count: number) => until(`watch ${count} is open`, () => watches.length >= count)
  await opened(1)
  return {
    ...{ pods, told, watches, opened, nodes },
    send: (type: string, object: object) => watches.at(-1)?.response.write(`${JSON.stringify({ type, object })}\n`),
    lists: (items: readonly object[], at: number) => (listed = { items, revision: at }),
    /** The next lists wait for the test; resolves with what lets the first one go. */
    held: () => new Promise<() => void>((resolve) => (hold = resolve)),
    shows: (answer: Answer) => (show = answer),
    known: () => pods.find(ref)?.podUid,
  }
}

describe('a pod that a watch has told of', () => {
  it('is not taken for gone since an older list lacks it', async () => {
    const { pods, told, watches, opened, send, lists, held, known } = await scene()
    lists([], 100)
    const asked = held()
    watches[0]?.response.destroy()
    const listing = await until('the watch is known to be down', () => {
      // With the watch in place nothing is asked for, and this resolves at once.
      const call = pods.list(undefined)
      return Promise.race([asked.then(() => ({ call })), call.then(() => undefined)])
    })
    const answer = await asked
    pods.learn(podAt(101, { phase: 'Pending' }))
    await opened(2)
    send('MODIFIED', podAt(105))
    await until('it is heard of', () => told.includes('first running'))
    answer()
    await listing.call
    expect([known(), told]).toEqual(['first', ['first pending', 'first running']])
  })

  it('stays as it is when an older answer comes late', async () => {
    const { pods, told, send, shows, known } = await scene([podAt(80, { phase: 'Pending' })])
    let response: ServerResponse | undefined
    shows((_, late) => void (response = late))
    const asked = pods.ask(ref, undefined)
    const waiting = await until('it is asked for', () => response)
    send('MODIFIED', podAt(105))
    await until('it is heard of', () => told.includes('first running'))
    say(waiting, 200, podAt(80, { phase: 'Pending' }))
    expect((await asked)?.instance.phase).toBe('running')
    expect([known(), told]).toEqual(['first', ['first pending', 'first running']])
  })

  it('stays gone when an older answer or list still has it', async () => {
    const { pods, told, send, shows, known } = await scene([podAt(80)])
    let response: ServerResponse | undefined
    shows((_, late) => void (response = late))
    const asked = pods.ask(ref, undefined)
    const waiting = await until('it is asked for', () => response)
    send('DELETED', podAt(105))
    await until('its end is heard of', () => told.includes('first gone'))
    say(waiting, 200, podAt(80))
    expect([await asked, known()]).toEqual([undefined, undefined])
    // Nor does the answer of its creation bring it back.
    expect([pods.learn(podAt(80)), known()]).toEqual([undefined, undefined])
    expect(told).toEqual(['first running', 'first gone'])
  })

  it('gives way to its successor, and not the successor to it', async () => {
    const { pods, told, send, known } = await scene([podAt(80)])
    pods.learn(podAt(110, { uid: 'second' }))
    send('MODIFIED', podAt(100))
    send('DELETED', podAt(105))
    send('MODIFIED', podAt(112, { uid: 'second', more: { annotations: { seen: 'yes' } } }))
    await until('all is heard', () => pods.find(ref)?.revision === 112)
    expect([known(), told]).toEqual(['second', ['first running', 'first gone', 'second running']])
  })
})

describe('a pod that is known from its creation alone', () => {
  it('stays when a list is older, and is gone when a later one lacks it', async () => {
    const { pods, told, watches, opened, lists, send, known } = await scene()
    pods.learn(podAt(101, { phase: 'Pending' }))
    const listAt = async (at: number) => {
      lists([], at)
      const before = watches.length
      send('ERROR', { kind: 'Status', code: 410, reason: 'Gone', message: 'too old' })
      await opened(before + 1)
    }
    await listAt(100)
    expect([watches.at(-1)?.from, known()]).toEqual(['100', 'first'])
    await listAt(102)
    await until('it is gone', () => known() === undefined)
    expect(told).toEqual(['first pending', 'first gone'])
  })
})

describe('a cluster that was put back to an earlier state', () => {
  it('is taken as it is, though its revisions are old ones', async () => {
    const { told, watches, opened, lists, send, known, pods } = await scene([podAt(80)])
    send('MODIFIED', podAt(500, { more: { annotations: { seen: 'yes' } } }))
    await until('it is heard', () => pods.find(ref)?.revision === 500)
    lists([podAt(60, { phase: 'Pending' })], 200)
    send('ERROR', { kind: 'Status', code: 410, reason: 'Gone', message: 'too old' })
    await opened(2)
    await until('it is as it was', () => pods.find(ref)?.instance.phase === 'pending')
    send('DELETED', podAt(201))
    await until('it is gone', () => known() === undefined)
    expect([watches.at(-1)?.from, told]).toEqual(['200', ['first running', 'first pending', 'first gone']])
  })
})

describe('the address of a pod', () => {
  const nodeAt = (address: string) => ({
    metadata: { name: 'node-1', resourceVersion: '90' },
    status: { addresses: [{ type: 'ExternalIP', address }], conditions: [{ type: 'Ready', status: 'True' }] },
  })

  it('is that which its node has, also when the nodes are listed anew', async () => {
    const { pods, told, nodes } = await scene([podAt(80)])
    const address = () => pods.find(ref)?.instance.address
    expect(address()).toBeUndefined()
    await until('nodes are followed', () => nodes.watches.length === 1)
    nodes.items = [nodeAt('198.51.100.4')]
    nodes.watches[0]?.write(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410 } })}\n`)
    await until('it is told', () => told.length === 2)
    expect(address()).toBe('198.51.100.4')
  })

  it('is what the host was told, whatever its node has', async () => {
    const { pods } = await scene([podAt(80)], '203.0.113.7')
    expect(pods.find(ref)?.instance.address).toBe('203.0.113.7')
  })
})

describe('what is kept of a pod', () => {
  it('is what is read of it, and a tenth of what the API server says', async () => {
    const padding = Array.from({ length: 40 }, (_, i) => ({ name: `f:field-${i}`, value: 'x'.repeat(100) }))
    const pod = podAt(80, { more: { managedFields: padding, annotations: { [`${group}/ports`]: '7777:10003' } } })
    const told = { ...pod, spec: { ...pod.spec, containers: [{ name: 'game', image: 'arena', env: padding }] } }
    const { pods } = await scene([told])
    const seen = pods.find(ref)
    expect(seen?.instance).toMatchObject({ phase: 'running', ports: [{ container: 7777, public: 10_003 }] })
    expect(JSON.stringify(seen).length).toBeLessThan(JSON.stringify(told).length / 10)
  })

  it('is compared with what comes, so that only what changes something is told', async () => {
    const { pods, told, send } = await scene([podAt(80)])
    for (const revision of [101, 102, 103])
      send('MODIFIED', podAt(revision, { more: { annotations: { seen: 'yes' } } }))
    await until('all is heard', () => pods.find(ref)?.revision === 103)
    expect(told).toEqual(['first running'])
  })
})
