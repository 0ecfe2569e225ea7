/** When pods that cannot start are reported as blocked, and for how long. */
import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Instance } from '../../../../src/contracts/backend.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'
import { specOf } from '../support/support.js'

const group = 'mps.gamekeeper.com'
const ofPorts = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."

const heartbeat = () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }) as const

/** A backend whose cluster has one node and the given pods. Pods that it creates are scheduled at once. */
async function scene(pods: readonly object[] = []) {
  const clock = virtualClock()
  const watches: ServerResponse[] = []
  const warnings: string[] = []
  const created: { pod?: ReturnType<typeof podOf> } = {}
  /** Requests to create a secret so far. */
  let secretRequests = 0
  let secrets = (response: ServerResponse, _nth: number) => respond(response, 201, { metadata: { name: 'its-secret' } })
  const node = { metadata: { name: 'node-1', resourceVersion: '5' }, status: { addresses: [address] } }
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    const isPods = pathname.endsWith('/pods')
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      if (isPods) watches.push(response)
      return
    }
    // The pod is given its number.
    if (request.method === 'PATCH') return respond(response, 200, created.pod)
    if (request.method !== 'POST') {
      const items = isPods ? pods : pathname.endsWith('/nodes') ? [node] : []
      return respond(response, 200, { metadata: { resourceVersion: '10' }, items })
    }
    if (!isPods) return secrets(response, ++secretRequests)
    void text(request).then((body) => {
      created.pod = podOf(body)
      respond(response, 201, created.pod)
    })
  })
  const warn = (_: object, message: string) => warnings.push(message)
  const logger = { ...silentLogger, warn }
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'], clock, logger })
  const reports: Instance[] = []
  backend.watch({ changed: (instance) => reports.push(instance), gone() {}, resync() {}, heartbeat })
  onTestFinished(async () => {
    const closed = backend.close()
    // `close` waits this long for operations in progress.
    await clock.advance(2_000)
    await closed
  })
  await until('pods are watched', () => watches.length > 0)
  return {
    ...{ backend, clock, reports, warnings, created },
    secretRequests: () => secretRequests,
    answerSecrets: (answer: typeof secrets) => (secrets = answer),
    /** Advances the clock until the condition holds. */
    advanceUntil: (what: string, holds: () => boolean) =>
      until(what, async () => {
        await clock.advance(100)
        return holds()
      }),
    /** Also sends these watch events, repeatedly, since the watch may be reconnecting. */
    sendUntil: (what: string, events: readonly (readonly [string, object])[], holds: () => boolean) =>
      until(what, async () => {
        for (const [type, object] of events) watches.at(-1)?.write(`${JSON.stringify({ type, object })}\n`)
        await clock.advance(100)
        return holds()
      }),
  }
}

/** The object that the API server returns for this request. */
function podOf(body: string) {
  const sent: { readonly metadata: object; readonly spec: object } = JSON.parse(body)
  return {
    metadata: { ...sent.metadata, uid: 'p', resourceVersion: '11' },
    spec: { ...sent.spec, nodeName: 'node-1' },
    status: { phase: 'Pending', containerStatuses: [{ name: 'game', state: creating }] },
  }
}

const creating = { waiting: { reason: 'ContainerCreating' } }
const address = { type: 'InternalIP', address: '10.0.0.4' }

describe('a pod whose ports are taken', () => {
  /** The fleet has allocated 10003; `more` are host ports of its template. */
  const podWith = (...more: readonly number[]) => ({
    metadata: {
      ...{ name: 'arena-a1b2c', namespace: 'games', uid: 'p', resourceVersion: '7' },
      labels: { [`${group}/uid`]: 'u', [`${group}/server`]: 'arena-a1b2c' },
      annotations: { [`${group}/ports`]: '7777:10003' },
    },
    spec: { containers: [{ name: 'game', ports: [10_003, ...more].map((hostPort) => ({ hostPort })) }] },
    status: {
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: ofPorts }],
    },
  })

  it('is replaced when it requests only public ports, which pods outside the fleet are using', async () => {
    const { backend } = await scene([podWith()])
    expect(await backend.list()).toMatchObject([{ phase: 'exited', interrupted: true }])
  })

  it('waits when its template requests a host port, since other public ports would not help', async () => {
    const { backend } = await scene([podWith(9100)])
    const [instance] = await backend.list()
    expect(instance).toMatchObject({ phase: 'pending', blocked: true })
    expect(instance?.reason).toContain(ofPorts)
    expect(instance?.reason).toContain('9100')
  })
})

describe('a pod whose SDK secret the API server rejects', () => {
  const reject = (response: ServerResponse) =>
    respond(response, 403, { ...statusOf(403, 'Forbidden', 's'), message: quota })
  const quota = 'exceeded quota: objects, requested: count/secrets=1, used: 10, limited: 10'
  const running = { phase: 'Running', containerStatuses: [{ name: 'game', state: { running: {} } }] }

  it('is blocked from the third rejection until its secret is created, and logged once', async () => {
    const { backend, reports, warnings, secretRequests, answerSecrets, advanceUntil } = await scene()
    answerSecrets(reject)
    const begun = await backend.create(specOf('games', 'true'))
    expect(begun).toMatchObject({ phase: 'pending', reason: 'starting on node-1' })
    await advanceUntil('it is reported', () => reports.length > 0)
    expect(secretRequests()).toBeGreaterThanOrEqual(3)
    await advanceUntil('it is rejected repeatedly', () => secretRequests() > 4)
    const reason = `cannot create its SDK secret: ${quota}`
    expect(reports).toMatchObject([{ phase: 'pending', blocked: true, reason }])
    expect(await backend.list()).toMatchObject([{ blocked: true, reason }])
    expect(warnings.filter((warning) => warning.includes('SDK secret'))).toHaveLength(1)
    answerSecrets((response) => respond(response, 201, { metadata: { name: 'its-secret' } }))
    await advanceUntil('it is over', () => reports.length > 1)
    expect(reports.slice(1)).toEqual([begun])
  })

  it('is not blocked when the third attempt succeeds', async () => {
    const { backend, reports, secretRequests, answerSecrets, created, advanceUntil, sendUntil } = await scene()
    answerSecrets((response, nth) =>
      nth < 3 ? reject(response) : respond(response, 201, { metadata: { name: 'its-secret' } }),
    )
    await backend.create(specOf('games', 'true'))
    await advanceUntil('the secret is created', () => secretRequests() === 3)
    const runs = { ...created.pod, metadata: { ...created.pod?.metadata, resourceVersion: '12' }, status: running }
    await sendUntil('it runs', [['MODIFIED', runs]], () => reports.at(-1)?.phase === 'running')
    expect(reports).toHaveLength(1)
  })

  it('is not blocked when calls get no response', async () => {
    const { backend, reports, secretRequests, answerSecrets, advanceUntil } = await scene()
    answerSecrets((response) => response.destroy())
    await backend.create(specOf('games', 'true'))
    await advanceUntil('it is retried', () => secretRequests() > 4)
    expect(reports).toEqual([])
  })

  it('does not pass on its reason to its successor', async () => {
    const { backend, reports, answerSecrets, created, advanceUntil, sendUntil } = await scene()
    answerSecrets(reject)
    const spec = specOf('games', 'true')
    await backend.create(spec)
    await advanceUntil('it is reported', () => reports.length > 0)
    const ended = { ...created.pod, metadata: { ...created.pod?.metadata, resourceVersion: '12' } }
    const successor = { ...created.pod, metadata: { ...created.pod?.metadata, uid: 'q', resourceVersion: '13' } }
    const events = [
      ['DELETED', ended],
      ['ADDED', successor],
    ] as const
    await sendUntil('its successor', events, () => reports.length > 2)
    expect(reports.at(-2)).toMatchObject({ phase: 'exited' })
    expect(reports.at(-1)).toMatchObject({ phase: 'pending', reason: 'starting on node-1' })
    expect(reports.at(-1)?.blocked).toBeUndefined()
  })
})

describe('a scheduled pod that does not start', () => {
  const pod = (revision: number, state: object = creating, of: object = {}) => ({
    metadata: {
      ...{ name: 'arena-a1b2c', namespace: 'games', uid: 'p', resourceVersion: String(revision) },
      labels: { [`${group}/uid`]: 'u', [`${group}/server`]: 'arena-a1b2c' },
    },
    spec: { nodeName: 'node-1', containers: [{ name: 'game' }] },
    status: { phase: 'Pending', containerStatuses: [{ name: 'game', state }], ...of },
  })

  it('is blocked after a minute until it runs', async () => {
    const { clock, reports, sendUntil } = await scene([pod(7)])
    await clock.advance(59_000)
    expect(reports).toMatchObject([{ phase: 'pending', reason: 'starting on node-1' }])
    await clock.advance(1_000)
    expect(reports).toHaveLength(2)
    expect(reports[1]).toMatchObject({ phase: 'pending', blocked: true })
    expect(reports[1]?.reason).toContain('kubectl describe pod -n games arena-a1b2c')
    const runs = pod(12, { running: {} }, { phase: 'Running' })
    await sendUntil('it runs', [['MODIFIED', runs]], () => reports.length > 2)
    expect(reports[2]).toMatchObject({ phase: 'running' })
  })

  it('is not blocked while an init container runs', async () => {
    const { backend, clock, reports, sendUntil } = await scene([pod(7)])
    const waiting = { waiting: { reason: 'PodInitializing' } }
    const initializes = pod(12, waiting, { initContainerStatuses: [{ name: 'first', state: { running: {} } }] })
    // The first event changes nothing visible; once the second is reported, the first was processed.
    const other = { ...pod(13), metadata: { ...pod(13).metadata, name: 'arena-x', uid: 'q' } }
    const events = [
      ['MODIFIED', initializes],
      ['ADDED', other],
    ] as const
    await sendUntil('both', events, () => reports.length > 1)
    // Shorter than the time after which a silent watch is opened again.
    await clock.advance(80_000)
    const [first, second] = await backend.list()
    expect([first?.blocked, second?.blocked]).toEqual([undefined, true])
  })
})
