/** Servers that run several sessions at the same time: how they fill, and how each session ends by itself. */
import type { Fleet } from 'gamekeeper'
import type { MemoryServer } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, session, type Stage, stage, type StageOptions } from './stage.js'

interface Several {
  readonly sessionsPerServer?: number
  readonly standingBySessions?: number
  readonly standingBy?: number
  readonly max?: number
}

/** A build whose games take several sessions. */
function severalBuild({ standingBy = 1, max = 10, ...spec }: Several = {}) {
  const build = aBuild({ standingBy, max })
  return { ...build, spec: { ...build.spec, sessionsPerServer: 3, ...spec } }
}

async function lobby(several: Several = {}, options: StageOptions = {}) {
  const scene = stage({ ...options, memory: { script: () => ({ takesSeveral: true }), ...options.memory } })
  const fleet = await scene.open()
  await fleet.builds.create(severalBuild(several))
  await scene.clock.advance(10_000)
  return { scene, fleet }
}

const ids = (count: number, from = 1) => Array.from({ length: count }, (_, i) => from + i)

/** The number of sessions of each server that has any, the most first. */
async function loads(fleet: Fleet): Promise<readonly number[]> {
  const byServer = new Map<string, number>()
  for (const { server } of await fleet.sessions.list()) byServer.set(server.name, (byServer.get(server.name) ?? 0) + 1)
  return [...byServer.values()].sort((a, b) => b - a)
}

function gameOf({ backend }: Stage, sessionID: string): MemoryServer {
  return only(backend.servers().filter(({ sessions }) => sessions.some(({ sessionId }) => sessionId === sessionID)))
}

const sessionsOn = ({ sessions }: MemoryServer) => sessions.map(({ sessionId, number }) => [sessionId, number])

describe('a build whose servers take several sessions', () => {
  it('fills a running server before it takes one that is standing by', async () => {
    const { scene, fleet } = await lobby({ standingBy: 2 })
    const first = await fleet.allocate(ask(1))
    for (const id of [2, 3]) expect((await fleet.allocate(ask(id))).server).toEqual(first.server)
    expect((await fleet.allocate(ask(4))).server).not.toEqual(first.server)
    await scene.clock.advance(2_000)
    expect(sessionsOn(gameOf(scene, session(2)))).toEqual([
      [session(1), 1],
      [session(2), 2],
      [session(3), 3],
    ])
    const { status } = await fleet.servers.get(first.server)
    expect(status).toMatchObject({ state: 'Active', sessionID: session(1) })
    expect(status.sessions).toEqual(ids(3).map((id) => ({ sessionID: session(id), number: id })))
  })

  it('gives 100 concurrent callers as many servers as they fill', async () => {
    const { fleet } = await lobby({ sessionsPerServer: 7, standingBy: 20, max: 30 })
    const allocated = await Promise.all(ids(100).map((id) => fleet.allocate(ask(id))))
    expect(new Set(allocated.map(({ SessionID }) => SessionID)).size).toBe(100)
    expect(await loads(fleet)).toEqual([...Array.from({ length: 14 }, () => 7), 2])
  })

  it('starts as many servers for 100 callers who wait as they fill, and serves all of them', async () => {
    const { scene, fleet } = await lobby({ sessionsPerServer: 7, standingBy: 0, max: 100 })
    const waiting = Promise.all(ids(100).map((id) => fleet.allocate(ask(id), { waitMs: 30_000 })))
    await scene.clock.advance(15_000)
    await waiting
    expect(await loads(fleet)).toEqual([...Array.from({ length: 14 }, () => 7), 2])
    expect(scene.eventsOf('ServerCreated').length).toBe(15)
  })

  it('gives a session that is asked for twice at once one place', async () => {
    const { fleet } = await lobby()
    const calls = [1, 2, 2, 1, 2].map((id) => fleet.allocate(ask(id)))
    const servers = (await Promise.all(calls)).map(({ server }) => server.name)
    expect(new Set(servers).size).toBe(1)
    expect(await loads(fleet)).toEqual([2])
    await fleet.allocate(ask(2))
    expect(await loads(fleet)).toEqual([2])
  })

  it('gives games that take one session only one', async () => {
    const { fleet } = await lobby({ standingBy: 3 }, { memory: { script: 'auto' } })
    for (const id of ids(3)) await fleet.allocate(ask(id))
    expect(await loads(fleet)).toEqual([1, 1, 1])
  })

  it('starts a server for each caller who waits for a game that takes one session', async () => {
    const { scene, fleet } = await lobby({ standingBy: 0, max: 20 }, { memory: { script: 'auto' } })
    const waiting = Promise.all(ids(6).map((id) => fleet.allocate(ask(id), { waitMs: 60_000 })))
    await scene.clock.advance(50_000)
    await waiting
    expect(await loads(fleet)).toEqual([1, 1, 1, 1, 1, 1])
  })

  it('is told about a session only once the store has it', async () => {
    const { scene, fleet } = await lobby()
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    const game = gameOf(scene, session(1))
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 3_000 } : undefined)
    const second = fleet.allocate(ask(2))
    await scene.clock.advance(2_000)
    expect(sessionsOn(game)).toEqual([[session(1), 1]])
    expect((await fleet.sessions.list()).map(({ sessionID }) => sessionID)).toEqual([session(1)])
    await scene.clock.advance(4_000)
    await second
    expect(sessionsOn(game).length).toBe(2)
  })

  it('writes sessions that come at the same time together', async () => {
    const { scene, fleet } = await lobby({ sessionsPerServer: 50 })
    await fleet.allocate(ask(1))
    const before = scene.calls.length
    await Promise.all(ids(40, 2).map((id) => fleet.allocate(ask(id))))
    const writes = scene.calls.slice(before).filter(({ method }) => method === 'servers.update')
    expect(writes.length).toBeLessThanOrEqual(3)
    expect(await loads(fleet)).toEqual([41])
  })

  it('allocates an atomic batch to one server', async () => {
    const { fleet } = await lobby({ standingBy: 1, max: 1 })
    const results = await fleet.allocateMany(
      ids(3).map((id) => ask(id)),
      { atomic: true },
    )
    expect(new Set(results.map(({ allocation }) => allocation?.server.name)).size).toBe(1)
    expect(await failureOf(fleet.allocateMany([ask(4), ask(5)], { atomic: true }))).toMatchObject({
      code: 'max-reached',
    })
  })

  it('confirms each session by itself', async () => {
    const { scene, fleet } = await lobby()
    const first = fleet.allocate(ask(1), { confirm: true, waitMs: 5_000 })
    await scene.clock.advance(3_000)
    await first
    gameOf(scene, session(1)).silence()
    const second = fleet.allocate(ask(2), { confirm: true, waitMs: 3_000 })
    const refused = failureOf(second)
    await scene.clock.advance(4_000)
    expect(await refused).toMatchObject({ code: 'not-confirmed' })
  })
})

describe('one of several sessions', () => {
  async function full() {
    const { scene, fleet } = await lobby({ max: 1 })
    for (const id of ids(3)) await fleet.allocate(ask(id))
    await scene.clock.advance(2_000)
    return { scene, fleet, game: gameOf(scene, session(1)) }
  }

  it('ends by itself, and its place goes to a caller who waits', async () => {
    const { scene, fleet, game } = await full()
    expect(await failureOf(fleet.allocate(ask(4)))).toMatchObject({ code: 'max-reached' })
    const waiting = fleet.allocate(ask(4), { waitMs: 30_000 })
    await scene.clock.advance(3_000)
    game.endSession(session(2))
    await scene.clock.advance(100)
    expect((await waiting).server.name).toBe(game.ref.name)
    await scene.clock.advance(2_000)
    expect(sessionsOn(game)).toEqual([
      [session(1), 1],
      [session(3), 3],
      [session(4), 4],
    ])
    expect(scene.eventsOf('SessionEnded').map(({ sessionID }) => sessionID)).toEqual([session(2)])
    expect(await fleet.sessions.get(session(2))).toMatchObject({ state: 'Ended', reason: 'Finished' })
  })

  it('is not harmed by late and repeated reports, even with the same id', async () => {
    const { scene, fleet, game } = await full()
    game.endSession(session(1))
    await scene.clock.advance(100)
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    for (const number of [1, 2, 3, 7]) {
      game.heartbeat({ several: { running: [], ended: [{ sessionID: session(1), number }] } })
    }
    await scene.clock.advance(2_000)
    expect(sessionsOn(game)).toEqual([
      [session(2), 2],
      [session(3), 3],
      [session(1), 4],
    ])
    expect((await fleet.sessions.list()).length).toBe(3)
  })

  it('is followed by standing by once it was the last, and numbers go on', async () => {
    const { scene, fleet, game } = await full()
    for (const id of ids(3)) game.endSession(session(id))
    await scene.clock.advance(1_000)
    const { status } = await fleet.servers.get(game.ref)
    expect([status.state, status.sessionID, status.sessions]).toEqual(['StandingBy', undefined, undefined])
    expect(only(await scene.records.servers.list()).record).toMatchObject({ state: 'StandingBy', startedSessions: 3 })
    for (const id of [4, 5]) await fleet.allocate(ask(id))
    await scene.clock.advance(2_000)
    expect(sessionsOn(game)).toEqual([
      [session(4), 4],
      [session(5), 5],
    ])
  })

  it('has its end stored before another server gets the session', async () => {
    const { scene, fleet, game } = await full()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 2_000 } : undefined)
    game.endSession(session(2))
    const again = fleet.allocate(ask(2), { waitMs: 30_000 })
    await scene.clock.advance(1_000)
    scene.crash()
    scene.faults.store = () => undefined
    const next = await scene.open()
    await scene.clock.advance(5_000)
    void again.catch(() => {})
    // The next host knows the session until its game repeats the report.
    expect((await next.sessions.list()).map(({ sessionID }) => sessionID)).toEqual([session(1), session(3)])
    expect(sessionsOn(game).length).toBe(2)
  })

  it('survives a host that dies, and the next one goes on counting', async () => {
    const { scene, game } = await full()
    game.endSession(session(1))
    await scene.clock.advance(1_000)
    scene.crash()
    const next = await scene.open()
    // Its game is not heard yet, so it takes no session.
    await scene.clock.advance(3_000)
    expect((await next.allocate(ask(9))).server.name).toBe(game.ref.name)
    await scene.clock.advance(2_000)
    expect(sessionsOn(game)).toEqual([
      [session(2), 2],
      [session(3), 3],
      [session(9), 4],
    ])
  })

  it('is ended by its game if an operator asks for that, and the others go on', async () => {
    const { scene, fleet, game } = await full()
    await fleet.sessions.end(session(2))
    expect(await fleet.sessions.get(session(2))).toMatchObject({ state: 'Terminating' })
    await scene.clock.advance(2_000)
    expect(game.sessions.map(({ ending }) => ending)).toEqual([undefined, true, undefined])
    game.endSession(session(2))
    await scene.clock.advance(1_000)
    expect((await fleet.sessions.list()).map(({ sessionID, state }) => [sessionID, state])).toEqual([
      [session(1), 'Active'],
      [session(3), 'Active'],
    ])
  })

  it('is found by its initial players', async () => {
    const { scene, fleet } = await lobby()
    await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    await fleet.allocate({ ...ask(2), initialPlayers: ['bo', 'cem'] })
    await fleet.allocate({ ...ask(3), initialPlayers: ['dee'] })
    await scene.clock.advance(2_000)
    const game = gameOf(scene, session(1))
    game.players(['amie', 'bo'])
    expect((await fleet.sessions.ofPlayer('amie')).sessionID).toBe(session(1))
    expect((await fleet.sessions.ofPlayer('bo')).sessionID).toBe(session(2))
    game.endSession(session(2))
    await scene.clock.advance(1_000)
    expect(await failureOf(fleet.sessions.ofPlayer('cem'))).toMatchObject({ code: 'not-found' })
    expect((await fleet.sessions.ofPlayer('dee')).sessionID).toBe(session(3))
  })
})

describe('an allocation whose outcome is unknown', () => {
  it('keeps its place on a running server, and a retry finds it', async () => {
    const { scene, fleet } = await lobby()
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    scene.faults.store = () => ({ kind: 'lose-reply' })
    const lost = failureOf(fleet.allocate(ask(2)))
    await scene.clock.advance(20_000)
    expect(await lost).toMatchObject({ code: 'unavailable' })
    scene.faults.store = () => undefined
    const again = fleet.allocate(ask(2))
    await scene.clock.advance(10_000)
    await again
    expect(await loads(fleet)).toEqual([2])
  })

  it('does not touch a server that another writer has deleted', async () => {
    const { scene, fleet } = await lobby()
    const { server } = await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    const { record, revision } = only(
      (await scene.records.servers.list()).filter(({ record: { name } }) => name === server.name),
    )
    await scene.records.servers.delete(record, revision)
    const second = await fleet.allocate(ask(2), { waitMs: 20_000 })
    expect(second.server.name).not.toBe(server.name)
  })
})

describe('a server with several sessions', () => {
  it('takes no more while it is drained or Unhealthy', async () => {
    const { scene, fleet } = await lobby({ standingBy: 3 })
    const { server } = await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    const game = gameOf(scene, session(1))
    game.unhealthy()
    const second = await fleet.allocate(ask(2))
    expect(second.server.name).not.toBe(server.name)
    void fleet.servers.drain(second.server.name).catch(() => {})
    await scene.clock.advance(1_000)
    const third = await fleet.allocate(ask(3))
    expect([server.name, second.server.name]).not.toContain(third.server.name)
  })

  it('keeps its sessions if the limit is lowered, and takes no others', async () => {
    const { scene, fleet } = await lobby()
    for (const id of ids(3)) await fleet.allocate(ask(id))
    await scene.clock.advance(2_000)
    await fleet.builds.update('arena', { sessionsPerServer: 2 })
    await scene.clock.advance(5_000)
    expect(await loads(fleet)).toEqual([3])
    gameOf(scene, session(1)).endSession(session(1))
    await scene.clock.advance(1_000)
    await fleet.allocate(ask(4))
    expect(await loads(fleet)).toEqual([2, 1])
    expect(scene.eventsOf('ServerRemoved')).toEqual([])
  })

  it('is filled after servers that run the current template', async () => {
    const { scene, fleet } = await lobby({ sessionsPerServer: 3 })
    const old = await fleet.allocate(ask(1))
    await fleet.allocate(ask(2))
    await scene.clock.advance(2_000)
    await fleet.builds.update('arena', { portsToExpose: [7778] })
    await scene.clock.advance(20_000)
    expect((await fleet.allocate(ask(3))).server.name).toBe(old.server.name)
    const fresh = await fleet.allocate(ask(4))
    expect(fresh.server.name).not.toBe(old.server.name)
    gameOf(scene, session(1)).endSession(session(1))
    await scene.clock.advance(1_000)
    expect((await fleet.allocate(ask(5))).server.name).toBe(fresh.server.name)
  })
})

describe('standingBySessions', () => {
  it('keeps room for so many sessions, on running servers and on others', async () => {
    const { scene, fleet } = await lobby({ sessionsPerServer: 4, standingBy: 0, standingBySessions: 6, max: 20 })
    const counts = async () => {
      await scene.clock.advance(20_000)
      const { currentActive, currentStandingBy } = (await fleet.builds.get('arena')).status
      return [currentActive, currentStandingBy]
    }
    expect(await counts()).toEqual([0, 2])
    await fleet.allocate(ask(1))
    // 3 places are free on the running server, and 4 on the other.
    expect(await counts()).toEqual([1, 1])
    await fleet.allocate(ask(2))
    expect(await counts()).toEqual([1, 1])
    await fleet.allocate(ask(3))
    expect(await counts()).toEqual([1, 2])
    gameOf(scene, session(1)).endSession(session(1))
    expect(await counts()).toEqual([1, 1])
  })

  it('keeps at least standingBy servers', async () => {
    const { scene, fleet } = await lobby({ sessionsPerServer: 4, standingBy: 2, standingBySessions: 1 })
    await scene.clock.advance(20_000)
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(2)
  })
})

describe('a spec with several sessions for each server', () => {
  it.each([
    [{ seatsPerSession: 4 }, 'spec.seatsPerSession cannot be used with spec.sessionsPerServer 3'],
    [{ claimSeconds: 60 }, 'spec.claimSeconds cannot be used with spec.sessionsPerServer 3'],
    [{ health: { sessionSeconds: 60 } }, 'spec.health.sessionSeconds cannot be used with spec.sessionsPerServer 3'],
    [{ sessionsPerServer: 0 }, 'spec.sessionsPerServer must be'],
    [{ sessionsPerServer: 1_001 }, 'spec.sessionsPerServer must be'],
    [{ standingBySessions: -1 }, 'spec.standingBySessions must be'],
  ])('is refused with %o', async (spec, message) => {
    const fleet = await stage().open()
    const build = severalBuild()
    const refused = await failureOf(fleet.builds.create({ ...build, spec: { ...build.spec, ...spec } }))
    expect(refused).toMatchObject({ code: 'invalid', message: expect.stringContaining(message) as string })
  })
})
