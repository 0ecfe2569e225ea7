/** Games that take their own servers: for which session, what refuses them, and what a failure leaves behind. */
import { describe, expect, it } from 'vitest'
import type { MemoryServer } from 'gamekeeper/memory'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  session,
  stage,
  type Stage,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

async function running({ standingBy = 2, max = 6 } = {}) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy, max }))
  await untilReady(scene, fleet, standingBy)
  const [game, other] = [nth(scene.backend.servers(), 0), scene.backend.servers()[1] ?? nth(scene.backend.servers(), 0)]
  return { scene, fleet, game, other }
}

async function idOf({ records }: Stage, { ref }: MemoryServer): Promise<string> {
  const found = await records.servers.get(ref)
  return `${ref.name}.${found?.record.token ?? ''}`
}

describe('a game that takes its own server', () => {
  it('gets the session that it names, which is durable, and receives it with its next heartbeat', async () => {
    const { scene, fleet, game } = await running()
    const request = { sessionID: session(1), sessionCookie: 'mode=duel', initialPlayers: ['amie'] }
    expect(await fleet.allocateOwnServer(await idOf(scene, game), request)).toEqual({ sessionID: session(1) })
    expect((await scene.records.servers.get(game.ref))?.record).toMatchObject({
      state: 'Active',
      sessions: [{ id: session(1), cookie: 'mode=duel', initialPlayers: ['amie'] }],
    })
    expect(game.heartbeat({ state: 'StandingBy' })).toMatchObject({
      operation: 'Active',
      sessionConfig: { sessionId: session(1) },
    })
    expect(only(scene.eventsOf('Allocated'))).toMatchObject({ server: game.ref, sessionID: session(1) })
    expect(only(scene.eventsOf('Audited'))).toMatchObject({
      ...{ action: 'allocate', outcome: 'done', server: game.ref, sessionID: session(1) },
      caller: { kind: 'game', name: game.ref.name },
    })
    await untilReady(scene, fleet, 2)
  })

  it('gets a session that the fleet names, the same one when it asks again, and another after its end', async () => {
    const { scene, fleet, game, other } = await running()
    const id = await idOf(scene, game)
    const first = await fleet.allocateOwnServer(id)
    expect(first.sessionID).toMatch(new RegExp(`^${game.ref.name}-`))
    expect(await fleet.allocateOwnServer(id)).toEqual(first)
    expect(await fleet.allocateOwnServer(await idOf(scene, other))).not.toEqual(first)
    game.heartbeat({ state: 'Active' })
    const endedSession = { sessionID: first.sessionID, number: 1 }
    const second = await fleet.allocateOwnServer(id, { endedSession })
    expect(second).not.toEqual(first)
    expect(await fleet.allocateOwnServer(id, { endedSession })).toEqual(second)
    expect((await scene.records.servers.get(game.ref))?.record).toMatchObject({
      ...{ state: 'Active', startedSessions: 2, sessions: [{ id: second.sessionID }] },
    })
  })

  it('is ready with that, although no heartbeat has said so', async () => {
    const scene = stage({ memory: { readyAfterMs: 60_000 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await scene.clock.until(async () => (await statusOf(fleet)).currentInitializing === 1)
    const game = only(scene.backend.servers())
    await fleet.allocateOwnServer(await idOf(scene, game), { sessionID: session(1) })
    expect((await fleet.servers.get(game.ref)).status).toMatchObject({ state: 'Active', sessionID: session(1) })
  })

  it('shares no session: of a game and a caller, and of two games, one gets it', async () => {
    const { scene, fleet, game, other } = await running()
    const ids = [await idOf(scene, game), await idOf(scene, other)]
    const both = await Promise.allSettled(ids.map((id) => fleet.allocateOwnServer(id, { sessionID: session(1) })))
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect((await statusOf(fleet)).currentActive).toBe(1)
    expect(await fleet.allocate(ask(1))).toMatchObject({ SessionID: session(1) })
    const idle = ids[both.findIndex(({ status }) => status === 'rejected')] ?? ''
    expect(await failureOf(fleet.allocateOwnServer(idle, { sessionID: session(1) }))).toMatchObject({
      code: 'in-use',
      message: expect.stringContaining(`session "${session(1)}" has another server: default/arena-`),
    })
    expect(scene.eventsOf('Allocated')).toHaveLength(1)
  })

  it('is refused with another session, and accepted again with its own', async () => {
    const { scene, fleet } = await running()
    await fleet.allocate(ask(1))
    const id = await idOf(scene, await playing(scene, fleet, 1))
    expect(await failureOf(fleet.allocateOwnServer(id, { sessionID: session(2) }))).toMatchObject({ code: 'in-use' })
    expect(await failureOf(fleet.allocateOwnServer(id))).toMatchObject({ code: 'in-use' })
    expect(await fleet.allocateOwnServer(id, { sessionID: session(1) })).toEqual({ sessionID: session(1) })
  })

  it('is refused while it is reserved, its build drains, or it terminates, and without its secret', async () => {
    const { scene, fleet, game, other } = await running()
    const id = await idOf(scene, game)
    await fleet.servers.reserve(game.ref, { forMs: 60_000 })
    expect(await failureOf(fleet.allocateOwnServer(id))).toMatchObject({
      code: 'in-use',
      message: `server default/${game.ref.name} is reserved, so its game cannot take it`,
    })
    await fleet.servers.delete(other.ref)
    const otherID = await idOf(scene, other)
    expect(await failureOf(fleet.allocateOwnServer(otherID))).toMatchObject({ code: 'not-found' })
    expect(await failureOf(fleet.allocateOwnServer(`${game.ref.name}.guess`))).toMatchObject({ code: 'not-found' })
    expect(await failureOf(fleet.allocateOwnServer(id, { session: 1 } as never))).toMatchObject({ code: 'invalid' })
    expect(await failureOf(fleet.allocateOwnServer(id, { sessionID: ' ' }))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('sessionID'),
    })
  })

  it('is refused when a waiting caller has got its server first', async () => {
    const scene = stage({ memory: { readyAfterMs: 30_000 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    const waiting = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.until(async () => (await statusOf(fleet)).currentInitializing === 1)
    const game = only(scene.backend.servers())
    expect(await failureOf(fleet.allocateOwnServer(await idOf(scene, game)))).toMatchObject({
      code: expect.stringMatching(/^(in-use|none-standing-by)$/),
    })
    await scene.clock.settle()
    expect(waiting.outcome()).toMatchObject({ value: { server: game.ref } })
  })

  it('finds its session again after a lost answer of the store and a crash of the host', async () => {
    const { scene, fleet, game } = await running()
    const id = await idOf(scene, game)
    scene.faults.store = ({ method }) => (method === 'update' ? { kind: 'lose-reply' } : undefined)
    const first = await failureOf(fleet.allocateOwnServer(id, { sessionID: session(1) })).catch(() => undefined)
    scene.faults.store = () => undefined
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(3_000)
    expect(await next.allocateOwnServer(id, { sessionID: session(1) })).toEqual({ sessionID: session(1) })
    expect(first === undefined || first.code === 'unavailable').toBe(true)
    expect((await statusOf(next)).currentActive).toBe(1)
  })
})
