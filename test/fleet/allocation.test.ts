/** Allocation: which server a call gets, and which error. */
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  serversBy,
  session,
  type Stage,
  stage,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

const manual = { memory: { script: 'manual' } } as const

async function standing(count: number, overrides: Parameters<typeof aBuild>[0] = {}) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: count, ...overrides }))
  await untilReady(scene, fleet, count)
  return { scene, fleet }
}

/** Makes these servers of a manual stage ready, in order. */
function becomeReady({ backend }: Stage, ...indexes: readonly number[]): readonly string[] {
  return indexes.map((index) => {
    const server = nth(backend.servers(), index)
    server.ready()
    return server.ref.name
  })
}

describe('an allocation', () => {
  it.each<[string, object, string]>([
    ['a misspelled field', { players: ['amie'] }, 'players is not allowed; did you mean initialPlayers?'],
    [
      'an option of the call',
      { waitMs: 5_000 },
      'waitMs is not allowed in a request; did you mean the option waitMs of the call?',
    ],
  ])('is refused for %s in the request, alone and in a batch', async (_, more, message) => {
    const { fleet } = await standing(1)
    const request = { ...ask(1), ...more }
    expect(await failureOf(fleet.allocate(request))).toMatchObject({ code: 'invalid', message })
    const inBatch = { code: 'invalid', message: `requests[0].${message}` }
    expect(await failureOf(fleet.allocateMany([request]))).toMatchObject(inBatch)
    expect(await serversBy(fleet, 'Active')).toEqual([])
  })

  it('returns the address, ports, and session of a server, which becomes Active and is replaced', async () => {
    const { scene, fleet } = await standing(2, { portsToExpose: [7777, 7778] })
    const given = await fleet.allocate(ask(1))
    const server = await playing(scene, fleet, 1)
    const [game, query] = server.instance.ports
    expect(given).toMatchObject({
      IPV4Address: server.instance.address,
      Ports: `7777:${game?.public},7778:${query?.public}`,
      SessionID: session(1),
    })
    await untilReady(scene, fleet, 2)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingByReadyDesired: '2/2' })
  })

  it('is durable when the call resolves', async () => {
    const { scene, fleet } = await standing(1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 3_000 } : undefined)
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(2_999)
    expect(call.outcome()).toBe('pending')
    expect(await serversBy(fleet, 'Active')).toEqual([])
    await scene.clock.advance(1)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    const kept = (await scene.records.servers.list()).map(({ record }) => record.sessions[0]?.id)
    expect(kept).toContain(session(1))
  })

  it('gets the server that has been ready longest', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await scene.clock.advance(100)
    const order = becomeReady(scene, 2, 0, 1)
    for (const n of [1, 2, 3]) {
      await fleet.allocate(ask(n))
      expect((await playing(scene, fleet, n)).ref.name).toBe(order[n - 1])
    }
  })

  it('resolves at once: a single request does not wait for a batch to fill', async () => {
    const { scene, fleet } = await standing(1)
    const before = scene.clock.elapsed()
    await fleet.allocate(ask(1))
    expect(scene.clock.elapsed()).toBe(before)
  })

  it('makes one store write and no reads', async () => {
    const { scene, fleet } = await standing(3)
    await scene.clock.advance(5_000)
    const before = scene.calls.length
    await fleet.allocate(ask(1))
    const calls = scene.calls.slice(before).filter(({ of, method }) => of === 'store' && method !== 'servers.create')
    expect(only(calls)).toMatchObject({ method: 'servers.update' })
  })

  it.each([
    ['no object', null],
    ['no buildID', { sessionID: session(1) }],
    ['an empty buildID', { buildID: '', sessionID: session(1) }],
    ['no sessionID', { buildID: 'arena' }],
    ['an empty sessionID', { buildID: 'arena', sessionID: '' }],
    ['a sessionID with a line break', { buildID: 'arena', sessionID: 'match\n7' }],
    ['a cookie that is not a string', { ...ask(1), sessionCookie: 7 }],
    ['players that are not strings', { ...ask(1), initialPlayers: [7] }],
  ])('rejects %s as invalid', async (_, request) => {
    const { fleet } = await standing(1)
    expect((await failureOf(fleet.allocate(request as never))).code).toBe('invalid')
    expect((await statusOf(fleet)).currentActive).toBe(0)
  })

  it.each([-1, Number.NaN, 60_001, Infinity])('rejects waitMs %s as invalid', async (waitMs) => {
    const { fleet } = await standing(1)
    expect((await failureOf(fleet.allocate(ask(1), { waitMs }))).code).toBe('invalid')
  })

  it('fails with not-found for an unknown buildID', async () => {
    const { fleet } = await standing(1)
    const { code, message } = await failureOf(fleet.allocate(ask(1, { buildID: 'duel' })))
    expect([code, message]).toEqual(['not-found', 'no build has the buildID "duel"'])
  })

  it('fails with a retryable error when no server is standing by', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild())
    const error: unknown = await fleet.allocate(ask(1)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'none-standing-by', retryable: true })
    expect(FleetError.is(error) && error.message).toContain('arena')
  })

  it('fails with max-reached when all servers are in use', async () => {
    const { fleet } = await standing(1, { max: 1 })
    await fleet.allocate(ask(1))
    const { code, message } = await failureOf(fleet.allocate(ask(2)))
    expect([code, message]).toEqual([
      'max-reached',
      'every server of build arena is in use, and max is 1; retry when a match has ended',
    ])
  })

  it('fails with max-reached while the last server is being allocated to another session', async () => {
    const { fleet } = await standing(1, { max: 1 })
    const first = fleet.allocate(ask(1))
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('max-reached')
    expect((await first).SessionID).toBe(session(1))
  })

  it('fails with an explanation when the build is Unhealthy and has no servers left', async () => {
    const { scene, fleet } = await standing(1, { crashesToMarkUnhealthy: 1 })
    only(scene.backend.servers()).exit(1)
    await scene.clock.advance(5_000)
    const { code, message } = await failureOf(fleet.allocate(ask(1)))
    expect([code, message.replace(/arena-\w+/, 'arena-…')]).toEqual([
      'none-standing-by',
      'no server of build arena is standing by: arena-…: the process exited with code 1; the build is Unhealthy and gets no new ones ' +
        'until its crashesToMarkUnhealthy is raised or removed',
    ])
  })

  it('never gets an Unhealthy server', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await scene.clock.advance(100)
    const [ill, well] = becomeReady(scene, 0, 1)
    scene.backend.server(ill ?? '').unhealthy()
    await fleet.allocate(ask(1))
    expect((await playing(scene, fleet, 1)).ref.name).toBe(well)
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('none-standing-by')
  })

  it('gets a server that was Unhealthy and has recovered', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.advance(100)
    const server = only(scene.backend.servers())
    server.ready()
    server.unhealthy()
    const call = watched(fleet.allocate(ask(1), { waitMs: 5_000 }))
    await scene.clock.settle()
    expect(call.outcome()).toBe('pending')
    server.heartbeat({ health: 'Healthy' })
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('never gets a server without a known address', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    scene.faults.events = ({ type }) => (type === 'changed' ? { kind: 'delay', ms: 3_000 } : undefined)
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'delay-reply', ms: 5_000 } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.advance(1_000)
    only(scene.backend.servers()).ready()
    expect((await statusOf(fleet)).currentStandingBy).toBe(1)
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('none-standing-by')
    await scene.clock.advance(2_500)
    expect((await fleet.allocate(ask(1))).IPV4Address).toBe(only(scene.backend.servers()).instance.address)
  })

  it('gets a server that is standing by even if its build is Unhealthy', async () => {
    const { scene, fleet } = await standing(2, { crashesToMarkUnhealthy: 1 })
    nth(scene.backend.servers(), 0).exit(1)
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ health: 'Unhealthy', currentStandingBy: 1 })
    await fleet.allocate(ask(1))
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 0 })
  })

  it('never gets a server of another build', async () => {
    const { scene, fleet } = await standing(1, { max: 1 })
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1 }))
    await untilReady(scene, fleet, 1, 'duel')
    await fleet.allocate(ask(1))
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('max-reached')
    await fleet.allocate(ask(2, { buildID: 'duel' }))
    expect((await playing(scene, fleet, 2)).spec.build.name).toBe('duel')
  })

  it('emits an event that includes how long the caller waited', async () => {
    const { scene, fleet } = await standing(1)
    await fleet.allocate(ask(1))
    const server = await playing(scene, fleet, 1)
    expect(only(scene.eventsOf('Allocated'))).toMatchObject({
      sessionID: session(1),
      server: server.ref,
      waitedMs: 0,
      message: `${server.ref.name} was allocated to session ${session(1)}`,
    })
  })

  it('succeeds even if an event listener throws', async () => {
    const { fleet } = await standing(1)
    fleet.on('Allocated', () => {
      throw new Error('a listener of the host')
    })
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
  })
})

describe('a hundred parallel allocations', () => {
  it('get a hundred servers', async () => {
    const { scene, fleet } = await standing(100, { max: 150 })
    const given = await Promise.all(Array.from({ length: 100 }, (_, n) => fleet.allocate(ask(n))))
    expect(new Set(given.map(({ Ports }) => Ports)).size).toBe(100)
    expect(new Set(given.map(({ SessionID }) => SessionID)).size).toBe(100)
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 100, currentStandingBy: 50 })
  })

  it('get all available servers, and the remaining calls fail', async () => {
    const { fleet } = await standing(10, { max: 10 })
    const calls = await Promise.allSettled(Array.from({ length: 100 }, (_, n) => fleet.allocate(ask(n))))
    expect(calls.filter(({ status }) => status === 'fulfilled').length).toBe(10)
    expect((await statusOf(fleet)).currentActive).toBe(10)
  })
})
