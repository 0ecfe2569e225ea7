/** The counts and Events that kubectl shows are eventually correct, and failing writes are limited. */
import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, respondWithKey, statusOf } from '../support/fake-api-server.js'

const ref = { namespace: 'games', name: 'arena' }
const figures = {
  health: 'Healthy',
  currentActive: 1,
  currentStandingBy: 3,
  currentPending: 0,
  currentInitializing: 0,
  currentStandingByReadyDesired: '3/3',
  crashesCount: 0,
  conditions: [],
} as const

const spec = {
  buildID: 'arena-1',
  standingBy: 3,
  max: 5,
  portsToExpose: [7777],
  template: { spec: { containers: [{ name: 'game', image: 'arena:1' }] } },
}
const ready = { ready: true, reason: 'StandingBy', message: '3 of 3', spec }

function buildAt(revision: number) {
  return {
    apiVersion: `${defaultApiGroup}/v1alpha1`,
    kind: 'GameServerBuild',
    metadata: {
      ...ref,
      uid: 'uid-of-arena',
      resourceVersion: String(revision),
      creationTimestamp: '2025-01-01T00:00:00Z',
      generation: 4,
    },
    spec,
  }
}

interface Body {
  readonly status: {
    readonly conditions: readonly {
      readonly type: string
      readonly status: string
      readonly lastTransitionTime: string
      readonly observedGeneration?: number
    }[]
  }
}

/** A store that watches one build; `answer` responds to its status writes. */
async function scene(answer: (response: ServerResponse, nth: number, body: Body) => void = () => {}) {
  const clock = virtualClock()
  const watches: ServerResponse[] = []
  let writes = 0
  const events: string[] = []
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (request.method === 'PUT') {
      const parts: string[] = []
      request.setEncoding('utf8').on('data', (part: string) => parts.push(part))
      request.on('end', () => answer(response, ++writes, JSON.parse(parts.join(''))))
      return
    }
    if (pathname.endsWith('/events')) {
      request.setEncoding('utf8').once('data', (body: string) => {
        const { reason, message } = JSON.parse(body)
        events.push(`${reason}: ${message}`)
        respond(response, 201, { metadata: { name: 'event', resourceVersion: '1' } })
      })
      return
    }
    if (pathname.includes('/secrets/')) return respondWithKey(response)
    const isBuilds = pathname.endsWith('/gameserverbuilds')
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      if (isBuilds) watches.push(response)
      return
    }
    respond(response, 200, { metadata: { resourceVersion: '10' }, items: isBuilds ? [buildAt(10)] : [] })
  })
  const place = { group: defaultApiGroup, systemNamespace: 'games', namespaces: ['games'] }
  const store = await openKubernetesStore({ api: apiOf(configFor(server.url)), clock, logger: silentLogger, ...place })
  onTestFinished(() => store.close())
  const changes: string[] = []
  const builds = {
    listed: () => changes.push('listed'),
    changed: () => changes.push('changed'),
    gone: () => changes.push('gone'),
  }
  store.watch?.({ builds, servers: { listed() {}, changed() {}, gone() {} } })
  await until('the build is watched', () => watches.length > 0)
  return { clock, store, watches, changes, events, writes: () => writes }
}

describe('the counts of a build', () => {
  it('are retried with back-off when the API server rejects them', async () => {
    const { clock, store, writes } = await scene((response, nth) => {
      if (nth <= 4) respond(response, 503, statusOf(503, 'ServiceUnavailable', 'arena'))
      else respond(response, 200, buildAt(11))
    })
    store.display?.build(ref, figures, ready)
    for (let nth = 1; nth <= 4; nth++) {
      await until(`try ${nth} is made`, () => writes() === nth)
      const begun = clock.elapsed()
      await until('it is tried again', async () => {
        await clock.advance(250)
        return writes() > nth
      })
      expect(clock.elapsed() - begun).toBeGreaterThan(900 * 2 ** (nth - 1))
    }
    await clock.advance(120_000)
    expect(writes()).toBe(5)
  })

  it('after a conflict, are not sent again until the watch reports the change', async () => {
    const { clock, store, watches, changes, writes } = await scene((response, nth) => {
      if (nth === 1) respond(response, 409, statusOf(409, 'Conflict', 'arena'))
      else respond(response, 200, buildAt(21))
    })
    store.display?.build(ref, figures, ready)
    await until('it is tried', () => writes() === 1)
    for (let currentActive = 0; currentActive < 5; currentActive++) {
      await clock.advance(10_000)
      store.display?.build(ref, { ...figures, currentActive }, ready)
    }
    expect(writes()).toBe(1)
    const object = { ...buildAt(20), spec: { ...buildAt(20).spec, standingBy: 4 } }
    watches.at(-1)?.write(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
    await until('it is reported', () => changes.includes('changed'))
    await until('it is written', async () => {
      await clock.advance(1_000)
      return writes() === 2
    })
  })
})

describe('the condition Ready of a build', () => {
  it('says since when it has been so, and for which generation of the spec, also after another host has written it', async () => {
    const written: Body['status']['conditions'][number][] = []
    let current = buildAt(10)
    const { changes, clock, store, watches } = await scene((response, _nth, { status }) => {
      const [condition] = status.conditions
      if (condition) written.push(condition)
      const { metadata } = current
      current = { ...current, metadata: { ...metadata, resourceVersion: `${Number(metadata.resourceVersion) + 1}` } }
      respond(response, 200, { ...current, status })
    })
    const show = async (readiness: typeof ready) => {
      const count = written.length
      store.display?.build(ref, figures, readiness)
      await until('it is written', async () => {
        await clock.advance(1_000)
        return written.length > count
      })
      return written.at(-1)
    }
    const first = await show(ready)
    expect(first).toMatchObject({ type: 'Ready', status: 'True', reason: 'StandingBy', observedGeneration: 4 })
    await clock.advance(60_000)
    expect(await show({ ...ready, message: '4 of 4' })).toEqual({ ...first, message: '4 of 4' })
    const missing = { ...ready, ready: false, reason: 'CreateBlocked', message: '2 of 3: exceeded quota' }
    const lost = await show(missing)
    expect(lost).toMatchObject({ status: 'False', reason: 'CreateBlocked', message: '2 of 3: exceeded quota' })
    expect(lost?.lastTransitionTime).not.toBe(first?.lastTransitionTime)
    // A spec that this host has not acted on yet is another generation.
    const edited = { ...spec, standingBy: 4 }
    current = { ...current, metadata: { ...buildAt(50).metadata, generation: 5 }, spec: edited }
    const object = { ...current, status: { conditions: [lost] } }
    watches.at(-1)?.write(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
    await until('the edit is seen', () => changes.includes('changed'))
    expect(await show(missing)).toEqual({ ...lost, observedGeneration: 4 })
    expect(await show({ ...missing, spec: edited })).toEqual({ ...lost, observedGeneration: 5 })
  })
})

describe('the Events of a build', () => {
  it('tell its normal life at a limited rate, which leaves room for failures', async () => {
    const { clock, store, events } = await scene()
    const server = { namespace: ref.namespace, name: 'arena-1' }
    const about = { seq: 1, at: clock.now(), build: ref, server }
    const allocated = () =>
      store.display?.event({ ...about, type: 'Allocated', message: 'allocated', sessionID: 's', waitedMs: 0 })
    store.display?.event({ ...about, type: 'BuildCreated', message: 'created' })
    store.display?.event({ ...about, type: 'ServerCreated', message: 'created' })
    store.display?.event({ ...about, type: 'ServerEnding', message: 'replaced', reason: 'Replaced', crash: false })
    // These are not shown, so they take no room.
    const ended = {
      type: 'ServerEnding',
      message: 'its build was deleted',
      reason: 'BuildDeleted',
      crash: false,
    } as const
    for (let n = 0; n < 1_000; n++) store.display?.event({ ...about, ...ended })
    for (let n = 0; n < 1_000; n++) allocated()
    store.display?.event({ ...about, type: 'ServerEnding', message: 'it crashed', reason: 'NonZeroExit', crash: true })
    await until('the crash is written', () => events.includes('NonZeroExit: it crashed'))
    await until('the others are', () => events.length >= 21)
    expect(events.slice(0, 3).toSorted()).toEqual([
      'BuildCreated: created',
      'Replaced: replaced',
      'ServerCreated: created',
    ])
    await clock.advance(2_000)
    for (let n = 0; n < 1_000; n++) allocated()
    store.display?.event({ ...about, type: 'ServerHealthChanged', message: 'ill', health: 'Unhealthy' })
    await until('the next is written', () => events.includes('Unhealthy: ill'))
    await until('and what is left of the others', () => events.length >= 24)
    expect(events.filter((event) => event === 'Allocated: allocated')).toHaveLength(19)
  })

  it('of one build, all of whose servers end, leave room for those of other objects', async () => {
    const { clock, store, events } = await scene()
    const about = { seq: 1, at: clock.now(), build: ref }
    for (let n = 0; n < 1_000; n++) {
      const server = { namespace: ref.namespace, name: `arena-${n}` }
      const lost = { reason: 'Gone', message: 'its instance no longer exists', crash: false } as const
      store.display?.event({ ...about, type: 'ServerEnding', server, ...lost })
      store.display?.event({ ...about, type: 'ServerCreated', server, message: 'created' })
    }
    const scaled = { type: 'BuildPatched', message: 'scaled', standingBy: 1, max: 2 } as const
    store.display?.event({ ...about, build: { ...ref, name: 'duel' }, ...scaled })
    await until('the other build has its Event', () => events.includes('BuildPatched: scaled'))
    await until('the ends are told', () => events.filter((event) => event.startsWith('Gone')).length === 20)
  })

  it('report one failure of each kind per minute, however many servers it affects', async () => {
    const { clock, store, events } = await scene()
    const fail = (type: 'ServerStartFailed' | 'ReconcileFailed', name: string, build = ref) => {
      const [at, message] = [clock.now(), `${name} is refused`]
      if (type === 'ReconcileFailed') store.display?.event({ seq: 1, type, at, build, message })
      else {
        const server = { namespace: build.namespace, name }
        store.display?.event({ seq: 1, type, at, build, server, message, reason: message })
      }
    }
    for (let n = 0; n < 100; n++) {
      fail('ServerStartFailed', `arena-${n}`)
      fail('ReconcileFailed', `arena-${n}`)
    }
    fail('ServerStartFailed', 'duel-1', { ...ref, name: 'duel' })
    await until('all are written', () => events.length >= 3)
    await clock.advance(60_000)
    fail('ServerStartFailed', 'arena-100')
    await until('it is written again', () => events.length >= 4)
    expect(events.toSorted()).toEqual([
      'ReconcileFailed: arena-0 is refused',
      'ServerStartFailed: arena-0 is refused',
      'ServerStartFailed: arena-100 is refused',
      'ServerStartFailed: duel-1 is refused',
    ])
  })
})

it('an Event of the Lease says who leads', async () => {
  const { store, events } = await scene()
  store.announceLeader({ namespace: 'games', name: 'fleet' }, 'host-b leads the fleet, after host-a')
  await until('it is written', () => events.includes('LeaderElection: host-b leads the fleet, after host-a'))
})
