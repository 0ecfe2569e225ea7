/** Lifecycle of a server: record, process, match and termination. */
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, nth, only, playing, stage, type StageOptions, statusOf, untilReady } from './stage.js'

const manual: StageOptions = { memory: { script: 'manual' } }

async function opened(overrides: Parameters<typeof aBuild>[0], options: StageOptions = manual) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild(overrides))
  await scene.clock.settle()
  const state = async () => only(await fleet.servers.list()).status
  return { scene, fleet, state }
}

/** An Active server with session 1. */
async function matched(options: StageOptions = {}, overrides: Parameters<typeof aBuild>[0] = {}) {
  const { scene, fleet, state } = await opened({ standingBy: 1, max: 1, ...overrides }, options)
  await untilReady(scene, fleet, 1)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  return { scene, fleet, state, server: await playing(scene, fleet, 1) }
}

describe('a new server', () => {
  it('has a record before its instance is created', async () => {
    const { scene } = await opened({ standingBy: 1 })
    const methods = scene.calls.map(({ method }) => method)
    expect(methods.indexOf('servers.create')).toBeGreaterThan(-1)
    expect(methods.indexOf('servers.create')).toBeLessThan(methods.indexOf('create'))
  })

  it('is not started while its record cannot be written', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    scene.faults.store = ({ method }) => (method === 'servers.create' ? { kind: 'refuse' } : undefined)
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await scene.clock.advance(30_000)
    expect(scene.backend.servers()).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 1 })
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    expect(scene.backend.servers().length).toBe(1)
  })

  it('is Pending, with a reason, until its process is running', async () => {
    const { scene, state } = await opened(
      { standingBy: 1 },
      { memory: { script: 'manual', startLatencyMs: 600_000 }, limits: { lateStartMs: 900_000 } },
    )
    expect(await state()).toMatchObject({ state: 'Pending', health: 'Unknown', publicIP: '', message: 'starting' })
    await scene.clock.advance(599_999)
    expect(await state()).toMatchObject({ state: 'Pending' })
    await scene.clock.advance(1)
    expect(await state()).toMatchObject({ state: 'Initializing', health: 'Unknown', nodeName: 'memory' })
    expect((await state()).message).toBeUndefined()
  })

  it('becomes Initializing and then StandingBy as its heartbeats report', async () => {
    const { scene, state } = await opened({ standingBy: 1 })
    only(scene.backend.servers()).heartbeat()
    expect(await state()).toMatchObject({ state: 'Initializing', health: 'Healthy' })
    await scene.clock.advance(5_000)
    only(scene.backend.servers()).ready()
    const { state: now, reachedInitializingOn, reachedStandingByOn } = await state()
    expect([now, reachedInitializingOn, reachedStandingByOn]).toEqual([
      'StandingBy',
      '2025-01-01T00:00:00.000Z',
      '2025-01-01T00:00:05.000Z',
    ])
  })

  it('is retried after a failed start, and shows the reason', async () => {
    const { scene, fleet, state } = await opened({ standingBy: 0 })
    for (let i = 0; i < 3; i++) {
      scene.backend.failNextCreate(new FleetError('unavailable', 'the image cannot be pulled'))
    }
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.settle()
    expect(await state()).toMatchObject({ state: 'Pending', message: 'the image cannot be pulled' })
    expect((await statusOf(fleet)).conditions).toMatchObject([
      { type: 'CreateBlocked', reason: 'unavailable', message: 'the image cannot be pulled' },
    ])
    expect(only(scene.eventsOf('ServerStartFailed')).reason).toBe('the image cannot be pulled')
    await scene.clock.advance(7_000)
    expect(await state()).toMatchObject({ state: 'Initializing' })
    expect((await statusOf(fleet)).conditions).toBeUndefined()
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })

  it('sets CreateBlocked once per build, even if each server is rejected repeatedly with its own message', async () => {
    const { scene, fleet } = await opened({ standingBy: 0 })
    scene.backend.create = ({ ref }) =>
      Promise.reject(new FleetError('unavailable', `create pod ${ref.name}: pods "${ref.name}" is forbidden: quota`))
    await fleet.builds.patch('arena', { standingBy: 4 })
    await scene.clock.advance(60_000)
    expect(scene.eventsOf('ServerStartFailed').length).toBeGreaterThan(12)
    expect(scene.eventsOf('ConditionChanged').map(({ message }) => message)).toEqual([
      'create pod arena-…: pods "arena-…" is forbidden: quota',
    ])
  })

  it('has only one instance even if the response to create is lost', async () => {
    const scene = stage(manual)
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'lose-reply' } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await scene.clock.advance(10_000)
    expect(scene.backend.servers().length).toBe(1)
    expect((await fleet.servers.list()).length).toBe(1)
  })

  it('is retried when the backend never responds', async () => {
    const scene = stage(manual)
    let hangs = true
    scene.faults.events = ({ type }) => (type === 'changed' ? { kind: 'drop' } : undefined)
    scene.faults.backend = ({ method }) => (method === 'create' && hangs ? { kind: 'hang' } : undefined)
    const fleet = await scene.open({ limits: { resyncIntervalMs: 3_600_000, lateStartMs: 3_600_000 } })
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await scene.clock.advance(119_000)
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 1 })
    hangs = false
    await scene.clock.advance(3_000)
    expect(await statusOf(fleet)).toMatchObject({ currentInitializing: 1, currentPending: 0 })
    expect(scene.backend.servers().length).toBe(1)
  })

  const unanswered = async () => {
    const scene = stage()
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'hang' } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(scene, fleet, 1)
    return { scene, fleet }
  }

  it('is recorded as Terminating at once while the backend has not yet responded to create', async () => {
    const { scene, fleet } = await unanswered()
    const { metadata } = only(await fleet.servers.list())
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.settle()
    expect((await scene.records.servers.get(metadata))?.record.state).toBe('Terminating')
  })

  it('has an uncertain session resolved while the backend has not yet responded to create', async () => {
    const { scene, fleet } = await unanswered()
    let writes = 0
    scene.faults.store = ({ method }) => {
      if (method === 'servers.update' && writes++ === 0) return { kind: 'lose-reply' }
      return method === 'servers.get' ? { kind: 'refuse' } : undefined
    }
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    expect(only(await fleet.servers.list()).status).toMatchObject({ state: 'Active', sessionID: ask(1).sessionID })
  })

  it('is saved with back-off while the store fails and the backend has not yet responded to create', async () => {
    const { scene, fleet } = await unanswered()
    only(scene.backend.servers()).exit(1)
    scene.faults.store = () => ({ kind: 'refuse' })
    const before = scene.calls.length
    await scene.clock.advance(60_000)
    expect(scene.calls.length - before).toBeLessThan(30)
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it('is destroyed when no longer needed, even if the outcome of create is unknown', async () => {
    const scene = stage(manual)
    scene.faults.events = () => ({ kind: 'drop' })
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'lose-reply' } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await scene.clock.advance(100)
    expect(scene.backend.servers().length).toBe(1)
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(100)
    expect([scene.backend.servers(), await fleet.servers.list()]).toEqual([[], []])
  })

  it('counts as a crash, with the reason, if it cannot run', async () => {
    const script = () => ({ cannotStart: 'no such command: ./arena' })
    const { scene, fleet } = await opened({ standingBy: 1 }, { memory: { script } })
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
    expect(only(scene.eventsOf('ServerEnding')).message).toContain('no such command: ./arena')
  })

  it('is created under a concurrency limit', async () => {
    const scene = stage({
      memory: { script: 'manual', createLatencyMs: 1_000 },
      limits: { maxConcurrentCreates: 3, maxCreatesPerReconcile: 50 },
    })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 9 }))
    for (const count of [3, 6, 9]) {
      await scene.clock.advance(500)
      expect(scene.backend.servers().length).toBe(count)
      await scene.clock.advance(500)
    }
  })
})

describe('a server whose process exits', () => {
  it.each([
    ['as a crash', 'before it runs', 'pending', 1],
    ['as a crash', 'before its first heartbeat', 'silent', 1],
    ['as a crash', 'while it starts', 'starting', 1],
    ['without a crash', 'while it stands by', 'ready', 0],
  ] as const)('is terminated and replaced %s when it exits with 0 %s', async (_, __, when, crashesCount) => {
    const startLatencyMs = when === 'pending' ? 1_000 : 0
    const { scene, fleet } = await opened({ standingBy: 1 }, { memory: { script: 'manual', startLatencyMs } })
    const server = only(scene.backend.servers())
    if (when === 'starting') server.heartbeat()
    if (when === 'ready') server.ready()
    server.exit(0)
    await scene.clock.advance(3_000)
    expect(only(await fleet.servers.list()).metadata.name).not.toBe(server.ref.name)
    expect(server.phase).toBe('gone')
    expect(await statusOf(fleet)).toMatchObject({ crashesCount, health: 'Healthy' })
  })

  it.each([
    ['with 1', 1],
    ['by a signal', 137],
  ])('is terminated and replaced when it exits %s, and counts one crash', async (_, code) => {
    const { scene, fleet } = await opened({ standingBy: 1 })
    const server = only(scene.backend.servers())
    server.exit(code)
    await scene.clock.advance(3_000)
    expect(only(await fleet.servers.list()).metadata.name).not.toBe(server.ref.name)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it('has finished its match if it exits with code 0 while Active, and is replaced at once', async () => {
    const { scene, fleet, server } = await matched()
    server.exit(0)
    await scene.clock.advance(100)
    await untilReady(scene, fleet, 1)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, currentActive: 0 })
    expect(server.phase).toBe('gone')
  })

  it('counts one crash if it exits with code 1 while Active', async () => {
    const { scene, fleet, server } = await matched()
    server.exit(1)
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, currentActive: 0, currentStandingBy: 1 })
  })

  it('is detected by the next list of instances if the event is lost', async () => {
    const { scene, fleet } = await opened({ standingBy: 1 }, {})
    await untilReady(scene, fleet, 1)
    scene.faults.events = () => ({ kind: 'drop' })
    const server = only(scene.backend.servers())
    server.exit(0)
    await scene.clock.advance(60_000)
    expect(only(await fleet.servers.list()).metadata.name).not.toBe(server.ref.name)
    expect(server.phase).toBe('gone')
  })

  it('counts one crash even if the event is repeated', async () => {
    const { scene, fleet } = await opened({ standingBy: 1 })
    scene.faults.events = () => ({ kind: 'duplicate' })
    only(scene.backend.servers()).exit(1)
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })
})

describe('a server whose instance disappears', () => {
  it('counts one crash and is never allocated if it had no match', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 }, {})
    await untilReady(scene, fleet, 1)
    only(scene.backend.servers()).vanish()
    await scene.clock.settle()
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('none-standing-by')
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, currentStandingBy: 1 })
  })

  it('counts no crash during its match, since the cause is unknown', async () => {
    const { scene, fleet, server } = await matched()
    server.vanish()
    await scene.clock.advance(5_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, currentActive: 0, currentStandingBy: 1 })
  })

  it('is never allocated after the loss of its machine', async () => {
    const { scene, fleet } = await opened({ standingBy: 6, max: 6 }, { memory: { nodes: ['north', 'south'] } })
    await untilReady(scene, fleet, 6)
    const lost = scene.backend.servers().filter(({ instance }) => instance.node === 'north')
    expect(lost.length).toBe(3)
    for (const server of lost) server.vanish()
    await scene.clock.settle()
    for (const n of [1, 2, 3]) {
      await fleet.allocate(ask(n))
      expect((await playing(scene, fleet, n)).instance.node).toBe('south')
    }
    expect((await failureOf(fleet.allocate(ask(4)))).code).toBe('none-standing-by')
  })

  it('is terminated rather than recreated if it is Pending', async () => {
    const { scene, fleet } = await opened({ standingBy: 1 }, { memory: { script: 'manual', startLatencyMs: 10_000 } })
    for (let i = 0; i < 600; i++) {
      for (const server of scene.backend.servers()) server.vanish()
      await scene.clock.advance(1_000)
    }
    expect(scene.calls.filter(({ method }) => method === 'create').length).toBeLessThan(25)
    expect((await statusOf(fleet)).crashesCount).toBeGreaterThan(5)
  })
})

describe('the state that a game reports', () => {
  it('is ignored if it lags behind Active, and the game is sent its session again', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const server = only(scene.backend.servers())
    server.ready()
    await fleet.allocate(ask(1))
    for (let i = 0; i < 3; i++) {
      expect(server.heartbeat({ state: 'StandingBy' })).toMatchObject({ operation: 'Active' })
      await scene.clock.settle()
      expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 0 })
    }
  })

  it.each(['Initializing', 'Invalid', 'Quarantined', 'Terminating'] as const)(
    'is ignored during a match while the process runs: %s',
    async (state) => {
      const { scene, fleet, server } = await matched()
      server.heartbeat({ state })
      await scene.clock.advance(30_000)
      expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, crashesCount: 0 })
      expect(server.phase).toBe('running')
    },
  )

  it('does not move a StandingBy server back', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const server = only(scene.backend.servers())
    server.ready()
    server.heartbeat({ state: 'Initializing' })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, currentInitializing: 0 })
  })

  it('terminates and replaces the server, without counting a crash, if it is Terminating before a match', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const server = only(scene.backend.servers())
    server.ready()
    expect(server.heartbeat({ state: 'Terminating' }).operation).toBe('Terminate')
    await scene.clock.advance(3_000)
    const { status } = await fleet.servers.get(server.ref)
    expect(status).toMatchObject({ state: 'Terminating', message: 'the game reported the state Terminating' })
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, currentInitializing: 1 })
  })

  it('cannot make a server Active: only an allocation does', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    only(scene.backend.servers()).heartbeat({ state: 'Active' })
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 0, currentInitializing: 1 })
  })
})

describe('a termination that fails', () => {
  it('is retried until it succeeds, and the server stays Terminating until then', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 }, {})
    await untilReady(scene, fleet, 1)
    scene.faults.backend = ({ method }) => (method === 'destroy' ? { kind: 'refuse' } : undefined)
    const server = nth(scene.backend.servers(), 0)
    server.exit(1)
    await scene.clock.advance(20_000)
    const shown = (await fleet.servers.list()).map(({ status }) => status.state)
    expect(shown.toSorted()).toEqual(['StandingBy', 'Terminating'])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
    scene.faults.backend = () => undefined
    await scene.clock.advance(60_000)
    expect((await fleet.servers.list()).length).toBe(1)
    expect(server.phase).toBe('gone')
  })

  it('is retried when the backend never responds', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 }, {})
    await untilReady(scene, fleet, 1)
    scene.faults.backend = ({ method }) => (method === 'destroy' ? { kind: 'hang' } : undefined)
    nth(scene.backend.servers(), 0).exit(1)
    await scene.clock.advance(10_000)
    scene.faults.backend = () => undefined
    expect((await fleet.servers.list()).length).toBe(2)
    await scene.clock.advance(170_000)
    expect((await fleet.servers.list()).length).toBe(1)
  })

  it('does not delay other terminations, and counts its crash once', async () => {
    const { scene, fleet } = await opened({ standingBy: 2, max: 4 }, {})
    await untilReady(scene, fleet, 2)
    let calls = 0
    scene.faults.store = () => (calls++ % 3 === 0 ? { kind: 'lose-reply' } : undefined)
    scene.faults.backend = () => (calls++ % 3 === 0 ? { kind: 'lose-reply' } : undefined)
    nth(scene.backend.servers(), 0).exit(1)
    await scene.clock.advance(120_000)
    scene.faults.store = () => undefined
    scene.faults.backend = () => undefined
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, currentStandingBy: 2 })
    expect((await fleet.servers.list()).length).toBe(2)
  })
})
