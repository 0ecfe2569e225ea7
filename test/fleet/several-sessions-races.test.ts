/** Servers with several sessions while something else happens to them: writes in flight, batches, ends, restarts, reservations. */
import type { MemoryServer } from 'gamekeeper/memory'
import { expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, session, type Stage, stage, type StageOptions } from './stage.js'

function severalBuild(spec: Record<string, unknown> = {}) {
  const build = aBuild({ standingBy: 1, max: 10 })
  return { ...build, spec: { ...build.spec, sessionsPerServer: 3, ...spec } }
}
async function lobby(spec: Record<string, unknown> = {}, options: StageOptions = {}) {
  const scene = stage({ ...options, memory: { script: () => ({ takesSeveral: true }), ...options.memory } })
  const fleet = await scene.open()
  await fleet.builds.create(severalBuild(spec))
  await scene.clock.advance(10_000)
  return { scene, fleet }
}
function gameOf({ backend }: Stage, sessionID: string): MemoryServer {
  return only(backend.servers().filter(({ sessions }) => sessions.some(({ sessionId }) => sessionId === sessionID)))
}
const slow = (scene: Stage, ms: number) => {
  scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms } : undefined)
}

it('an atomic batch that selects running servers gets one whose first session is still being written', async () => {
  const { scene, fleet } = await lobby()
  slow(scene, 1_000)
  const first = fleet.allocate(ask(1))
  const batch = fleet.allocateMany([{ select: [{ builds: ['arena'], state: 'active' }], sessionID: session(2) }], {
    atomic: true,
  })
  await scene.clock.advance(5_000)
  await first
  expect((await batch)[0]?.allocation?.server).toEqual((await first).server)
})

it('a change of annotations that is too large for the fullest server goes to another one', async () => {
  const { scene, fleet } = await lobby({ standingBy: 3, sessionsPerServer: 4 })
  const text = 'x'.repeat(10_000)
  const batch = (ids: number[]) =>
    fleet.allocateMany(
      ids.map((id) => ask(id)),
      { atomic: true },
    )
  const one = (await batch([1, 2, 3, 4]))[0]?.allocation?.server
  const two = (await fleet.allocate(ask(5))).server
  await scene.clock.advance(2_000)
  gameOf(scene, session(1)).endSession(session(1))
  gameOf(scene, session(2)).endSession(session(2))
  await scene.clock.advance(2_000)
  // One has room for 2 and two for 3. Two made the group; one is fuller.
  await fleet.servers.update(one ?? '', { annotations: { a: text } })
  expect(one).not.toEqual(two)
  const next = await fleet.allocate({ ...ask(9), annotations: { b: text } })
  expect(next.server).toEqual(two)
})

it('a session that comes while its server ends gets another server, at the latest when its caller retries', async () => {
  const { scene, fleet } = await lobby({ standingBy: 2 })
  const { server } = await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  slow(scene, 1_000)
  const second = fleet.allocate(ask(2), { waitMs: 30_000 }).catch(() => fleet.allocate(ask(2), { waitMs: 30_000 }))
  await scene.clock.advance(500)
  gameOf(scene, session(1)).exit(1)
  await scene.clock.advance(20_000)
  expect((await second).server.name).not.toBe(server.name)
})

it('a session that was never stored is not answered with a server whose record was deleted', async () => {
  const { scene, fleet } = await lobby({ standingBy: 2 })
  const { server } = await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  scene.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' as const } : undefined)
  const lost = failureOf(fleet.allocate(ask(2)))
  await scene.clock.advance(1_000)
  expect(await lost).toMatchObject({ code: 'unavailable' })
  const found = await scene.records.servers.get(server)
  await scene.records.servers.delete(server, found?.revision ?? '')
  scene.faults.store = () => undefined
  const again = await fleet.allocate(ask(2))
  expect(again.server.name).not.toBe(server.name)
})

it('a further session is not answered before it is durable when the last other one has ended', async () => {
  const { scene, fleet } = await lobby()
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  const game = gameOf(scene, session(1))
  slow(scene, 1_000)
  game.endSession(session(1))
  await scene.clock.advance(500)
  void failureOf(fleet.allocate(ask(2)))
  await scene.clock.advance(0)
  // The write of the end succeeds; the write of session 2 does not.
  scene.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' as const } : undefined)
  await scene.clock.advance(20_000)
  const record = only((await scene.records.servers.list()).filter(({ record }) => record.name === game.ref.name)).record
  let answered = false
  void fleet.allocate(ask(2)).then(
    () => (answered = true),
    () => {},
  )
  await scene.clock.advance(100)
  expect(record.sessions[0]?.id === session(2) || !answered).toBe(true)
})

it('an atomic batch that waits gets one server that takes all its sessions', async () => {
  const { scene, fleet } = await lobby({ standingBy: 0, max: 1 })
  const batch = fleet.allocateMany(
    [1, 2, 3].map((id) => ask(id)),
    { atomic: true, waitMs: 30_000 },
  )
  batch.catch(() => {})
  await scene.clock.advance(60_000)
  expect(new Set((await batch).map(({ allocation }) => allocation?.server.name)).size).toBe(1)
})

it('a caller who waits for a running server gets one that begins to run', async () => {
  const { scene, fleet } = await lobby()
  const waiting = fleet.allocate(
    { select: [{ builds: ['arena'], state: 'active' }], sessionID: session(2) },
    { waitMs: 60_000 },
  )
  let at = 0
  void waiting.then(() => (at = scene.clock.elapsed()))
  await scene.clock.advance(1_000)
  const before = scene.clock.elapsed()
  await fleet.allocate(ask(1))
  await scene.clock.advance(70_000)
  await waiting
  expect(at - before).toBeLessThan(5_000)
})

it('a repeated request waits while room is kept for the session', async () => {
  const { scene, fleet } = await lobby()
  slow(scene, 1_000)
  const first = fleet.allocate(ask(1))
  const second = fleet.allocate(ask(2))
  const again = fleet.allocate(ask(2))
  again.catch(() => {})
  await scene.clock.advance(5_000)
  await first
  expect((await again).server).toEqual((await second).server)
})

it('a retried batch is not answered with a session that its game was asked to end', async () => {
  const scene = stage({ memory: { script: ({ build }) => ({ takesSeveral: build.name === 'arena' }) } })
  const fleet = await scene.open()
  await fleet.builds.create(severalBuild())
  await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1, max: 1 }))
  await scene.clock.advance(10_000)
  await fleet.allocate(ask(9))
  await scene.clock.advance(2_000)
  const requests = [ask(1), ask(2, { buildID: 'duel' })]
  slow(scene, 1_000)
  void failureOf(fleet.allocateMany(requests, { atomic: true }))
  await scene.clock.advance(500)
  only(scene.backend.servers().filter(({ ref }) => ref.name.startsWith('duel'))).exit(0)
  await scene.clock.advance(10_000)
  scene.faults.store = () => undefined
  await scene.clock.advance(60_000)
  const again = await fleet.allocateMany(requests, { atomic: true }).catch((error: unknown) => error)
  expect(Array.isArray(again) && (await fleet.sessions.get(session(1))).state).not.toBe('Terminating')
})

it('a game with several sessions that takes its own server keeps its room', async () => {
  const { scene, fleet } = await lobby(
    { sessionsPerServer: 10, standingBy: 0, standingBySessions: 30, max: 60 },
    { memory: { script: () => ({ takesSeveral: true, autoReady: false }) } },
  )
  await scene.clock.advance(2_000)
  const [game, ...others] = scene.backend.servers()
  for (const other of others) other.ready()
  await scene.clock.advance(2_000)
  expect(scene.eventsOf('ServerCreated').length).toBe(3)
  const found = await scene.records.servers.get(game?.ref ?? { namespace: '', name: '' })
  game?.heartbeat({ state: 'Initializing' })
  // It says that it is ready by taking itself.
  await fleet.allocateOwnServer(`${found?.record.name}.${found?.record.token}`, { sessionID: session(1) })
  await scene.clock.advance(20_000)
  // 9 places on the running server, and 20 on the others.
  expect(scene.eventsOf('ServerCreated').length).toBe(4)
})

it('a restart starts no servers for room that running servers have', async () => {
  const { scene, fleet } = await lobby({ sessionsPerServer: 10, standingBy: 0, standingBySessions: 50, max: 100 })
  for (let id = 1; id <= 50; id++) await fleet.allocate(ask(id))
  await scene.clock.advance(10_000)
  for (let id = 1; id <= 50; id++) if (id % 10 > 1) gameOf(scene, session(id)).endSession(session(id))
  await scene.clock.advance(30_000)
  // Five running servers with room for 40, and one that stands by.
  expect(scene.backend.servers().length).toBe(6)
  scene.crash()
  const before = scene.calls.length
  await scene.open()
  await scene.clock.advance(10_000)
  expect(scene.calls.slice(before).filter(({ of, method }) => of === 'backend' && method === 'create')).toEqual([])
})

it('a reserved server that never becomes ready ends like any other', async () => {
  const scene = stage({ memory: { script: 'manual' } })
  const fleet = await scene.open()
  const build = aBuild({ standingBy: 1, max: 1 })
  await fleet.builds.create({ ...build, spec: { ...build.spec, health: { initializingSeconds: 60 } } })
  await scene.clock.advance(1_000)
  const game = only(scene.backend.servers())
  game.heartbeat({ state: 'Initializing' })
  await fleet.servers.reserve(game.ref.name, { forMs: 3_600_000 })
  await scene.clock.advance(100_000)
  const found = await scene.records.servers.get(game.ref)
  expect([undefined, 'NeverReady']).toContain(found ? (found.record.ending?.reason ?? 'still there') : undefined)
})

it('a game whose server is being allocated is told so', async () => {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
  await scene.clock.advance(10_000)
  const game = only(scene.backend.servers())
  const found = await scene.records.servers.get(game.ref)
  slow(scene, 1_000)
  const first = fleet.allocate(ask(1))
  await scene.clock.advance(0)
  const own = failureOf(
    fleet.allocateOwnServer(`${game.ref.name}.${found?.record.token ?? ''}`, { sessionID: session(2) }),
  )
  await scene.clock.advance(5_000)
  await first
  expect(await own).toMatchObject({ code: 'in-use' })
})
