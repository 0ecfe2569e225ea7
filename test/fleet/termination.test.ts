/** The order in which a terminating server gets Terminate, its signal and its kill, and how long it has. */
import { describe, expect, it } from 'vitest'
import type { BuildSpec, Fleet } from 'gamekeeper'
import type { MemoryServer } from 'gamekeeper/memory'
import { aBuild, ask, only, playing, type Stage, stage, type StageOptions, untilReady } from './stage.js'

interface Scene {
  readonly scene: Stage
  readonly fleet: Fleet
  readonly server: MemoryServer
}

const stubborn: StageOptions = { memory: { script: () => ({ ignoresTerminate: true }) } }

async function idle(graceSeconds: number, more: Partial<BuildSpec> = {}, options = stubborn): Promise<Scene> {
  const scene = stage(options)
  const fleet = await scene.open()
  const build = aBuild({ standingBy: 1, max: 4, graceSeconds })
  await fleet.builds.create({ ...build, spec: { ...build.spec, ...more } })
  await untilReady(scene, fleet, 1)
  return { scene, fleet, server: only(scene.backend.servers()) }
}

async function active(graceSeconds: number, more: Partial<BuildSpec> = {}, options = stubborn): Promise<Scene> {
  const { scene, fleet } = await idle(graceSeconds, more, options)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  return { scene, fleet, server: await playing(scene, fleet, 1) }
}

/** When this server got its first Terminate, its signal and its kill, in ms from now on. Advances until it is gone. */
async function endOf({ scene, server }: Scene) {
  const startedAt = scene.clock.elapsed()
  const signals = () => scene.calls.filter((call) => call.method === 'destroy' && call.ref?.name === server.ref.name)
  const before = signals().length
  let terminateAt: number | undefined
  await scene.clock.until(() => {
    if (server.answer?.operation === 'Terminate') terminateAt ??= scene.clock.elapsed() - startedAt
    return server.phase === 'gone'
  }, 300_000)
  const signalAt = signals()[before]?.atMs
  return {
    terminateAt,
    signalAt: signalAt === undefined ? undefined : signalAt - startedAt,
    goneAt: scene.clock.elapsed() - startedAt,
  }
}

describe.each([
  ['an idle server', idle],
  ['an Active server', active],
])('%s that is deleted', (_, open) => {
  it('hears Terminate, has its whole grace period, and gets the signal 5 s before the end', async () => {
    const it = await open(60)
    await it.fleet.servers.delete(it.server.ref)
    const { terminateAt = NaN, signalAt = NaN, goneAt } = await endOf(it)
    expect(terminateAt).toBeLessThanOrEqual(1_000)
    expect([signalAt - terminateAt, goneAt - terminateAt]).toEqual([55_000, 60_000])
  })

  it('gets the signal in the last quarter of a short grace period', async () => {
    const it = await open(8)
    await it.fleet.servers.delete(it.server.ref)
    const { terminateAt = NaN, signalAt = NaN, goneAt } = await endOf(it)
    expect([signalAt - terminateAt, goneAt - terminateAt]).toEqual([6_000, 8_000])
  })

  it('is removed at once when it exits by itself, even if it reports Terminating before', async () => {
    const it = await open(60)
    await it.fleet.servers.delete(it.server.ref)
    await it.scene.clock.advance(1_000)
    it.server.heartbeat({ state: 'Terminating' })
    await it.scene.clock.advance(40_000)
    expect(it.server.phase).toBe('running')
    it.server.exit(0)
    await it.scene.clock.settle()
    expect(it.server.phase).toBe('gone')
  })

  it('keeps its whole grace period if it sends no heartbeats during its shutdown', async () => {
    const it = await open(60)
    await it.fleet.servers.delete(it.server.ref)
    await it.scene.clock.until(() => it.server.answer?.operation === 'Terminate')
    it.server.silence()
    expect(await endOf(it)).toEqual({ terminateAt: 0, signalAt: 55_000, goneAt: 60_000 })
  })

  it('that is silent gets the signal at the silence limit, with its whole grace period', async () => {
    const it = await open(30)
    it.server.silence()
    await it.scene.clock.advance(4_000)
    await it.fleet.servers.delete(it.server.ref)
    const { terminateAt, signalAt = NaN, goneAt } = await endOf(it)
    expect(terminateAt).toBeUndefined()
    expect(signalAt).toBeGreaterThan(4_000)
    expect(signalAt).toBeLessThanOrEqual(6_000)
    expect(goneAt - signalAt).toBe(30_000)
  })

  it('with SignalFirst gets the signal at once, and Terminate besides', async () => {
    const it = await open(30, { termination: 'SignalFirst' })
    await it.fleet.servers.delete(it.server.ref)
    const { terminateAt, signalAt, goneAt } = await endOf(it)
    expect([signalAt, goneAt]).toEqual([0, 30_000])
    expect(terminateAt).toBeLessThanOrEqual(1_000)
  })

  it('without a grace period is killed at once', async () => {
    const it = await open(0)
    await it.fleet.servers.delete(it.server.ref)
    expect(await endOf(it)).toMatchObject({ signalAt: 0, goneAt: 0 })
  })

  it('has its whole grace period from the first Terminate of the next leader', async () => {
    const it = await open(30)
    await it.fleet.servers.delete(it.server.ref)
    await it.scene.clock.advance(10_000)
    it.scene.crash()
    await it.scene.clock.advance(3_000)
    await it.scene.open()
    const { signalAt = NaN, goneAt } = await endOf(it)
    expect(goneAt - signalAt).toBe(5_000)
    expect(goneAt).toBeGreaterThan(30_000)
    expect(goneAt).toBeLessThanOrEqual(31_000)
  })

  it('that the next leader does not hear gets the signal at the silence limit', async () => {
    const it = await open(30)
    await it.fleet.servers.delete(it.server.ref)
    await it.scene.clock.settle()
    it.scene.crash()
    it.server.silence()
    await it.scene.open()
    expect(await endOf(it)).toMatchObject({ terminateAt: undefined, signalAt: 10_000, goneAt: 40_000 })
  })

  it('gets the signal before its host closes, with the rest of its grace period', async () => {
    const it = await open(30)
    await it.fleet.servers.delete(it.server.ref)
    await it.scene.clock.until(() => it.server.answer?.operation === 'Terminate')
    await it.scene.clock.advance(10_000)
    await it.fleet.close()
    expect(await endOf(it)).toMatchObject({ goneAt: 20_000 })
    expect(it.scene.calls.filter(({ method }) => method === 'destroy').length).toBe(1)
  })

  it('is kept waiting by no other server: a waiting server holds no place among the terminations', async () => {
    const it = await open(30, {}, { ...stubborn, limits: { maxConcurrentDestroys: 1 } })
    await it.fleet.builds.delete('arena')
    await it.scene.clock.advance(1_000)
    expect(it.scene.backend.servers().map(({ answer }) => answer?.operation)).not.toContain('Continue')
    await it.scene.clock.advance(36_000)
    expect(it.scene.backend.servers()).toEqual([])
  })
})

describe('a server that', () => {
  it('never sent a heartbeat gets the signal at once, with its whole grace period', async () => {
    const scene = stage({ memory: { script: () => ({ autoReady: false, ignoresTerminate: true }) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1, graceSeconds: 30 }))
    await scene.clock.settle()
    const server = only(scene.backend.servers())
    await fleet.builds.patch('arena', { standingBy: 0 })
    expect(await endOf({ scene, fleet, server })).toEqual({ terminateAt: undefined, signalAt: 0, goneAt: 30_000 })
  })

  it.each<[string, (it: Scene) => Promise<unknown>]>([
    ['is scaled down', ({ fleet }) => fleet.builds.patch('arena', { standingBy: 0 })],
    ['is drained', async ({ fleet }) => void fleet.drain()],
    [
      'is replaced',
      ({ fleet }) =>
        fleet.builds.update('arena', { template: { spec: { containers: [{ name: 'game', image: '2' }] } } }),
    ],
    ['belongs to a deleted build', ({ fleet }) => fleet.builds.delete('arena')],
    ['reports Unhealthy', async ({ server }) => [1, 2, 3].map(() => server.unhealthy())],
    ['reports Terminating by itself', async ({ server }) => server.heartbeat({ state: 'Terminating' })],
  ])('%s hears Terminate and has its whole grace period', async (__, end) => {
    const it = await idle(60)
    await end(it)
    const { terminateAt = NaN, signalAt = NaN, goneAt } = await endOf(it)
    expect([signalAt - terminateAt, goneAt - terminateAt]).toEqual([55_000, 60_000])
  })

  it('is heard while its ending is being stored, and before the backend reports it, hears Terminate', async () => {
    const scene = stage({ memory: { script: () => ({ autoReady: false, ignoresTerminate: true }) } })
    const fleet = await scene.open()
    scene.faults.events = () => ({ kind: 'drop' })
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'lose-reply' } : undefined)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 500 } : undefined)
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1, graceSeconds: 30 }))
    await scene.clock.advance(100)
    const server = only(scene.backend.servers())
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(100)
    expect(server.heartbeat({ state: 'Initializing' }).operation).toBe('Continue')
    const { terminateAt = NaN, signalAt = NaN, goneAt } = await endOf({ scene, fleet, server })
    expect([signalAt - terminateAt, goneAt - terminateAt]).toEqual([25_000, 30_000])
  })

  it('hears Terminate only from a leader that has stored its termination', async () => {
    const it = await idle(30)
    it.scene.faults.store = () => ({ kind: 'refuse' })
    await it.fleet.builds.patch('arena', { standingBy: 0 }).catch(() => undefined)
    await it.fleet.servers.delete(it.server.ref).catch(() => undefined)
    await it.scene.clock.advance(20_000)
    expect(it.server.answer?.operation).toBe('Continue')
    it.scene.faults.store = () => undefined
    const { terminateAt = NaN, signalAt = NaN } = await endOf(it)
    expect(signalAt - terminateAt).toBe(25_000)
  })
})
