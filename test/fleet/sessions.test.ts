/** `fleet.sessions`: which sessions there are, which one a player is in, and how one is ended. */
import { FleetError, type Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, serversBy, session, type Stage, stage, untilReady } from './stage.js'

async function standing(count = 3): Promise<{ readonly scene: Stage; readonly fleet: Fleet }> {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: count }))
  await untilReady(scene, fleet, count)
  return { scene, fleet }
}

describe('sessions.get', () => {
  it('returns the session, its server and its players, also after a restart', async () => {
    const { scene, fleet } = await standing()
    const allocation = await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    const { server, address, ports } = allocation
    const startedAt = new Date(scene.clock.now()).toISOString()
    ;(await playing(scene, fleet, 1)).players(['amie', 'bo'])
    const expected = {
      ...{ sessionID: session(1), buildID: 'arena', build: { namespace: 'default', name: 'arena' }, server, address },
      ...{ ports, state: 'Active', startedAt, initialPlayers: ['amie'], players: ['amie', 'bo'] },
    }
    const found = await fleet.sessions.get(session(1).toUpperCase())
    expect(found).toEqual(expected)
    expect(found.state !== 'Ended' && found.port()).toBe(allocation.port())
    await scene.clock.advance(5_000)
    await fleet.close()
    expect(await (await scene.open()).sessions.get(session(1))).toEqual(expected)
  })

  it('fails for a session that no server has, or has only reserved', async () => {
    const { scene, fleet } = await standing()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = fleet.allocate(ask(1))
    expect(await failureOf(fleet.sessions.get(session(1)))).toEqual(
      new FleetError('not-found', `no server has the session "${session(1)}"`),
    )
    await scene.clock.advance(1_000)
    await call
    expect(await fleet.sessions.get(session(1))).toMatchObject({ state: 'Active' })
    expect((await failureOf(fleet.sessions.get(7 as never))).message).toBe('sessionID must be a string, but is 7')
  })
})

describe('sessions.list', () => {
  it('returns the sessions of the fleet or of a build', async () => {
    const { scene, fleet } = await standing()
    await fleet.builds.create(aBuild({ name: 'duel' }))
    await untilReady(scene, fleet, 2, 'duel')
    await fleet.allocate(ask(1))
    await fleet.allocate(ask(2, { buildID: 'duel' }))
    const idsOf = async (...given: Parameters<Fleet['sessions']['list']>) =>
      (await fleet.sessions.list(...given)).map(({ sessionID }) => sessionID)
    expect((await idsOf()).toSorted()).toEqual([session(1), session(2)])
    expect(await idsOf({ build: 'duel' })).toEqual([session(2)])
    expect((await failureOf(fleet.sessions.list({ build: 'none' }))).code).toBe('not-found')
    expect((await failureOf(fleet.sessions.list({ builds: 'duel' } as never))).message).toBe(
      'sessions.list: unknown option builds; did you mean build?',
    )
  })
})

describe('sessions.ofPlayer', () => {
  const idOf = async (fleet: Fleet, player: string) => (await fleet.sessions.ofPlayer(player)).sessionID

  it('prefers the session that the player is connected to over one that expects the player', async () => {
    const { scene, fleet } = await standing()
    await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    await scene.clock.advance(1_000)
    await fleet.allocate({ ...ask(2), initialPlayers: ['amie', 'bo'] })
    expect(await idOf(fleet, 'amie')).toBe(session(2))
    ;(await playing(scene, fleet, 1)).players(['cleo', 'amie'])
    expect(await idOf(fleet, 'amie')).toBe(session(1))
    expect(await idOf(fleet, 'bo')).toBe(session(2))
  })

  it('follows players who connect and disconnect, and sessions that end', async () => {
    const { scene, fleet } = await standing()
    expect(await failureOf(fleet.sessions.ofPlayer('dan'))).toEqual(
      new FleetError('not-found', 'no session has the player "dan"'),
    )
    await fleet.allocate(ask(1))
    const game = await playing(scene, fleet, 1)
    game.players(['cleo', 'dan', 'dan', 'eve'])
    for (const player of ['cleo', 'dan', 'eve']) expect(await idOf(fleet, player)).toBe(session(1))
    game.players(['dan', 'eve', 'fay'])
    for (const player of ['dan', 'eve', 'fay']) expect(await idOf(fleet, player)).toBe(session(1))
    expect((await failureOf(fleet.sessions.ofPlayer('cleo'))).code).toBe('not-found')
    game.players([])
    expect((await failureOf(fleet.sessions.ofPlayer('dan'))).code).toBe('not-found')
    game.players(['dan'])
    game.exit()
    await scene.clock.advance(2_000)
    expect((await failureOf(fleet.sessions.ofPlayer('dan'))).code).toBe('not-found')
  })

  it('stays with the match of a player whom another game claims later, and says so in the log', async () => {
    const warnings: unknown[] = []
    const logger = {
      debug() {},
      info() {},
      error() {},
      warn: (fields: object, text: string) => warnings.push({ ...fields, text }),
    }
    const scene = stage()
    const fleet = await scene.open({ logger })
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await untilReady(scene, fleet, 3)
    await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    await scene.clock.advance(1_000)
    await fleet.allocate(ask(2))
    const [own, hostile] = [await playing(scene, fleet, 1), await playing(scene, fleet, 2)]
    // The fleet did not expect Bo: he has found the match himself.
    own.players(['amie', 'bo'])
    expect([await idOf(fleet, 'amie'), await idOf(fleet, 'bo')]).toEqual([session(1), session(1)])
    hostile.players(['amie', 'bo'])
    expect([await idOf(fleet, 'amie'), await idOf(fleet, 'bo')]).toEqual([session(1), session(1)])
    const claim = { server: `default/${own.ref.name}`, claimedBy: `default/${hostile.ref.name}` }
    const text = 'another game claims a player who is in a match'
    expect(warnings).toEqual([
      { player: 'amie', ...claim, text },
      { player: 'bo', ...claim, text },
    ])
    own.players([])
    expect(await idOf(fleet, 'bo')).toBe(session(2))
  })

  it('finds players again after a restart', async () => {
    const { scene, fleet } = await standing()
    await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    ;(await playing(scene, fleet, 1)).players(['bo'])
    await scene.clock.advance(3_000)
    await fleet.close()
    const next = await scene.open()
    expect([await idOf(next, 'amie'), await idOf(next, 'bo')]).toEqual([session(1), session(1)])
  })
})

describe('sessions.end', () => {
  it('terminates the server of the session by heartbeat, with its grace period, and says why', async () => {
    const { scene, fleet } = await standing()
    const { server } = await fleet.allocate(ask(1))
    await fleet.allocate(ask(2))
    const game = await playing(scene, fleet, 1)
    await scene.clock.advance(2_000)
    await fleet.sessions.end(session(1), { caller: { name: 'ops' } })
    await fleet.sessions.end(session(1))
    expect(await fleet.sessions.get(session(1))).toMatchObject({ state: 'Terminating', server })
    expect(only(scene.eventsOf('ServerEnding'))).toMatchObject({
      server,
      reason: 'SessionEnded',
      crash: false,
      message: expect.stringContaining(`session ${session(1)} was ended by sessions.end`),
    })
    const { text } = await fleet.explain(server.name)
    expect(text).toContain(`session ${session(1)} was ended by sessions.end`)
    expect(only(scene.eventsOf('Audited'))).toMatchObject({ action: 'endSession', server, sessionID: session(1) })
    expect(game.isSignalled).toBe(false)
    await scene.clock.until(async () =>
      (await fleet.servers.list()).every(({ metadata }) => metadata.name !== server.name),
    )
    expect(only(await serversBy(fleet, 'Active')).status.sessionID).toBe(session(2))
    expect((await failureOf(fleet.sessions.end(session(1)))).code).toBe('not-found')
  })

  it('waits for the outcome of an allocation in progress, and ends that match only', async () => {
    const { scene, fleet } = await standing()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = fleet.allocate(ask(1))
    const end = fleet.sessions.end(session(1))
    await scene.clock.advance(3_000)
    const { server } = await call
    await end
    expect(only(scene.eventsOf('ServerEnding')).server).toEqual(server)
  })

  it('never ends a server that has another session by now', async () => {
    const { scene, fleet } = await standing(1)
    await fleet.allocate(ask(1))
    ;(await playing(scene, fleet, 1)).exit()
    await untilReady(scene, fleet, 1)
    await fleet.allocate(ask(2))
    expect((await failureOf(fleet.sessions.end(session(1)))).code).toBe('not-found')
    expect(only(await serversBy(fleet, 'Active')).status.sessionID).toBe(session(2))
  })
})
