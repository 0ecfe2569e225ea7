/** Seats of sessions: who holds one, and that none is given twice. */
import type { Fleet, JoinRequest, ServerSelector } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, session, type Stage, stage, untilReady } from './stage.js'

interface Given {
  readonly seats?: number | undefined
  readonly count?: number
  readonly initialPlayers?: readonly string[]
}

/** Sessions 1 to `count`, each with `seats` seats and a game that has been heard in it. */
async function sessions({ seats = 3, count = 1, initialPlayers = [] }: Given = {}) {
  const scene = stage()
  const fleet = await scene.open()
  await createBuild(fleet, { seats, count })
  await untilReady(scene, fleet, count)
  for (let n = 1; n <= count; n++) await fleet.allocate({ ...ask(n), initialPlayers })
  await scene.clock.advance(2_000)
  return { scene, fleet }
}

function createBuild(fleet: Fleet, { seats, count = 1, name = 'arena' }: Given & { readonly name?: string }) {
  const build = aBuild({ name, standingBy: count, max: 20 })
  return fleet.builds.create({ ...build, spec: { ...build.spec, ...(seats && { seatsPerSession: seats }) } })
}

async function seatsOf(fleet: Fleet, n = 1) {
  const found = await fleet.sessions.get(session(n))
  return found.state === 'Ended' ? undefined : found.seats
}

async function stored({ records }: Stage, fleet: Fleet, n = 1) {
  const { server } = await fleet.sessions.get(session(n))
  return (await records.servers.get(server))?.record.sessions[0]
}

describe('sessions.reserveSeats', () => {
  it('holds seats until the players have come, and frees them when they leave', async () => {
    const { scene, fleet } = await sessions()
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 0, held: 0, free: 3 })
    const reserved = await fleet.sessions.reserveSeats(session(1), ['amie', 'bo'])
    expect(reserved).toMatchObject({ sessionID: session(1), seats: { total: 3, taken: 0, held: 2, free: 1 } })
    const until = scene.clock.now() + 60_000
    expect((await stored(scene, fleet))?.holds).toEqual([
      { player: 'amie', until },
      { player: 'bo', until },
    ])
    const { message, players, sessionID } = only(scene.eventsOf('SeatsReserved'))
    expect([message, players, sessionID]).toEqual([
      `2 seats of session ${session(1)} are held`,
      ['amie', 'bo'],
      session(1),
    ])
    const game = await playing(scene, fleet, 1)
    game.players(['amie'])
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 1, held: 1, free: 1 })
    game.players([])
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 0, held: 1, free: 2 })
    await scene.clock.advance(1_000)
    expect((await stored(scene, fleet))?.holds).toEqual([{ player: 'bo', until }])
  })

  it('is refused if there are too few seats, for all players', async () => {
    const { scene, fleet } = await sessions()
    await fleet.sessions.reserveSeats(session(1), ['amie', 'bo'])
    const before = scene.calls.length
    const error = await failureOf(fleet.sessions.reserveSeats(session(1), ['cleo', 'dan', 'bo']))
    expect(error).toMatchObject({
      code: 'no-room',
      message: `session "${session(1)}" has 1 free seat of 3, but 2 players need one`,
      details: { total: 3, taken: 0, held: 2, free: 1, needed: 2 },
    })
    expect(scene.calls).toHaveLength(before)
    expect(await seatsOf(fleet)).toMatchObject({ held: 2 })
  })

  it('gives each seat once, however many callers there are', async () => {
    const { scene, fleet } = await sessions({ seats: 7 })
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 500 } : undefined)
    const calls = Array.from({ length: 40 }, (_, i) =>
      fleet.sessions.reserveSeats(session(1), [`p${i}`]).then(
        () => true,
        () => false,
      ),
    )
    await scene.clock.advance(30_000)
    expect((await Promise.all(calls)).filter(Boolean)).toHaveLength(7)
    expect(await seatsOf(fleet)).toEqual({ total: 7, taken: 0, held: 7, free: 0 })
    expect((await stored(scene, fleet))?.holds).toHaveLength(7)
  })

  it('renews the hold of a player, and needs no seat for one who is connected', async () => {
    const { scene, fleet } = await sessions({ seats: 2 })
    ;(await playing(scene, fleet, 1)).players(['amie'])
    await fleet.sessions.reserveSeats(session(1), ['amie', 'bo'], { holdMs: 10_000 })
    await scene.clock.advance(8_000)
    await fleet.sessions.reserveSeats(session(1), ['bo', 'amie'], { holdMs: 10_000 })
    await scene.clock.advance(8_000)
    expect(await seatsOf(fleet)).toEqual({ total: 2, taken: 1, held: 1, free: 0 })
    await scene.clock.advance(2_000)
    expect(await seatsOf(fleet)).toEqual({ total: 2, taken: 1, held: 0, free: 1 })
  })

  it('lapses when the player does not come in time', async () => {
    const { scene, fleet } = await sessions()
    await fleet.sessions.reserveSeats(session(1), ['amie'], { holdMs: 20_000 })
    await fleet.sessions.reserveSeats(session(1), ['bo'], { holdMs: 30_000 })
    await scene.clock.advance(20_000)
    expect(await seatsOf(fleet)).toMatchObject({ held: 1 })
    expect(only(scene.eventsOf('SeatsLapsed'))).toMatchObject({
      sessionID: session(1),
      players: ['amie'],
      message: `1 player did not come to session ${session(1)} in time`,
    })
    await scene.clock.advance(11_000)
    expect(scene.eventsOf('SeatsLapsed')).toHaveLength(2)
    expect(await stored(scene, fleet)).toMatchObject({ id: session(1), holds: undefined })
  })

  it('lapses within a minute once a wall clock that was set back is right again', async () => {
    const { scene, fleet } = await sessions()
    await fleet.sessions.reserveSeats(session(1), ['amie'], { holdMs: 20_000 })
    scene.clock.jumpWall(-1_800_000)
    await scene.clock.advance(25_000)
    scene.clock.jumpWall(1_800_000)
    await scene.clock.advance(60_000)
    expect(only(scene.eventsOf('SeatsLapsed'))).toMatchObject({ players: ['amie'] })
    expect(await stored(scene, fleet)).toMatchObject({ id: session(1), holds: undefined })
  })

  it('holds seats across a restart, and lapses there at the same time', async () => {
    const { scene, fleet } = await sessions()
    await fleet.sessions.reserveSeats(session(1), ['amie'], { holdMs: 30_000 })
    const until = scene.clock.now() + 30_000
    scene.crash()
    const next = await scene.open()
    expect(await seatsOf(next)).toMatchObject({ held: 1, free: 2 })
    const early = await failureOf(next.sessions.reserveSeats(session(1), ['bo']))
    expect(early).toMatchObject({ code: 'unavailable', message: expect.stringContaining('has not heard its game yet') })
    await scene.clock.advance(3_000)
    expect(await next.sessions.reserveSeats(session(1), ['bo', 'cleo'])).toMatchObject({ seats: { held: 3, free: 0 } })
    await scene.clock.advance(until - scene.clock.now())
    expect(await seatsOf(next)).toMatchObject({ held: 2, free: 1 })
    expect(only(scene.eventsOf('SeatsLapsed'))).toMatchObject({ players: ['amie'] })
  })

  it('says that the outcome is unknown if the store does not answer, and holds the seats in vain', async () => {
    const { scene, fleet } = await sessions()
    scene.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' } : undefined)
    expect((await failureOf(fleet.sessions.reserveSeats(session(1), ['amie']))).code).toBe('unavailable')
    expect(scene.eventsOf('SeatsReserved')).toEqual([])
    scene.faults.store = () => undefined
    expect(await fleet.sessions.reserveSeats(session(1), ['amie'])).toMatchObject({ seats: { held: 1 } })
    expect((await stored(scene, fleet))?.holds).toHaveLength(1)
  })

  it('keeps a hold that it has promised when somebody edits the record', async () => {
    const { scene, fleet } = await sessions()
    await fleet.sessions.reserveSeats(session(1), ['amie'])
    const { server } = await fleet.sessions.get(session(1))
    const found = await scene.records.servers.get(server)
    if (!found?.record.sessions[0]) throw new Error('the record has no session')
    const { holds: _, ...rest } = found.record.sessions[0]
    await scene.records.servers.update({ ...found.record, sessions: [rest] }, found.revision)
    await fleet.sessions.reserveSeats(session(1), ['bo'])
    expect((await stored(scene, fleet))?.holds?.map(({ player }) => player)).toEqual(['amie', 'bo'])
  })

  it('is refused for a session that no server has, that is ending, or whose build has no seatsPerSession', async () => {
    const { scene, fleet } = await sessions()
    const reserve = (n: number) => failureOf(fleet.sessions.reserveSeats(session(n), ['amie']))
    expect(await reserve(9)).toMatchObject({ code: 'not-found', message: `no server has the session "${session(9)}"` })
    await createBuild(fleet, { name: 'duel' })
    await untilReady(scene, fleet, 1, 'duel')
    await fleet.allocate(ask(2, { buildID: 'duel' }))
    expect(await reserve(2)).toMatchObject({
      code: 'invalid',
      message: 'build duel does not say how many seats a session has; set its seatsPerSession',
    })
    expect(await fleet.sessions.get(session(2))).not.toHaveProperty('seats')
    await fleet.sessions.end(session(1))
    expect(await reserve(1)).toMatchObject({
      code: 'not-found',
      message: `session "${session(1)}" has ended or is being ended`,
    })
    expect((await failureOf(fleet.sessions.releaseSeats(session(1), ['amie']))).code).toBe('not-found')
  })

  it.each<[readonly unknown[], string]>([
    [[session(1), []], 'players must be an array of at least one string'],
    [[session(1), 'amie'], 'players must be an array of at least one string, but is "amie"'],
    [[session(1), ['']], 'players[0] must be a non-empty string'],
    [[session(1), ['amie'], { holdMs: 0 }], 'holdMs must be an integer'],
    [[session(1), ['amie'], { holdMs: 3_600_001 }], 'holdMs must be an integer'],
    [[session(1), ['amie'], { hold: 1 }], 'unknown option hold; did you mean holdMs?'],
    [[7, ['amie']], 'sessionID must be a string, but is 7'],
  ])('is refused with %j', async (given, message) => {
    const { fleet } = await sessions()
    const error = await failureOf(Reflect.apply(fleet.sessions.reserveSeats, fleet.sessions, given) as Promise<unknown>)
    expect(error).toMatchObject({ code: 'invalid', message: expect.stringContaining(message) })
  })

  it('follows a change of seatsPerSession at once', async () => {
    const { fleet } = await sessions({ seats: 1 })
    await fleet.sessions.reserveSeats(session(1), ['amie'])
    await fleet.builds.update('arena', { seatsPerSession: 2 })
    await fleet.sessions.reserveSeats(session(1), ['bo'])
    await fleet.builds.update('arena', { seatsPerSession: 1 })
    expect(await seatsOf(fleet)).toEqual({ total: 1, taken: 0, held: 2, free: 0 })
    await fleet.builds.update('arena', { seatsPerSession: undefined })
    expect(await seatsOf(fleet)).toBeUndefined()
  })
})

describe('sessions.releaseSeats', () => {
  it('frees held seats and leaves connected players alone, however often it is called', async () => {
    const { scene, fleet } = await sessions()
    ;(await playing(scene, fleet, 1)).players(['cleo'])
    await fleet.sessions.reserveSeats(session(1), ['amie', 'bo'])
    for (let times = 0; times < 2; times++) {
      const released = await fleet.sessions.releaseSeats(session(1), ['amie', 'cleo', 'nobody'])
      expect(released.seats).toEqual({ total: 3, taken: 1, held: 1, free: 1 })
    }
    expect(only(scene.eventsOf('SeatsReleased')).players).toEqual(['amie'])
    expect((await stored(scene, fleet))?.holds).toHaveLength(1)
  })
})

describe('a session whose game is silent', () => {
  it('gets no players as long as another one has seats, also if its server was Unhealthy before', async () => {
    const { scene, fleet } = await sessions({ count: 2 })
    const silent = await playing(scene, fleet, 1)
    // With one seat, it is the first choice for one player, and no choice for two.
    silent.players(['bo', 'cleo'])
    await fleet.sessions.join({ buildID: 'arena', players: ['dan', 'eve'] })
    silent.unhealthy()
    silent.silence()
    await scene.clock.advance(10 * 60_000)
    expect(await fleet.sessions.join({ buildID: 'arena', players: ['amie'] })).toMatchObject({ sessionID: session(2) })
  })
})

describe('the initial players of an allocation', () => {
  it('hold seats for a minute', async () => {
    const { scene, fleet } = await sessions({ initialPlayers: ['amie', 'bo', 'bo'] })
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 0, held: 2, free: 1 })
    ;(await playing(scene, fleet, 1)).players(['amie'])
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 1, held: 1, free: 1 })
    await scene.clock.advance(60_000)
    expect(await seatsOf(fleet)).toEqual({ total: 3, taken: 1, held: 0, free: 2 })
  })

  it('must fit into a session', async () => {
    const { scene, fleet } = await sessions({ seats: 2 })
    await untilReady(scene, fleet, 1)
    const request = { ...ask(2), initialPlayers: ['amie', 'bo', 'cleo'] }
    expect(await failureOf(fleet.allocate(request))).toMatchObject({
      code: 'invalid',
      message:
        'initialPlayers has 3 players, but a session of build arena has 2 seats; name fewer players, or other builds',
    })
    const { buildID, ...rest } = request
    expect((await failureOf(fleet.allocate({ ...rest, select: [{ builds: [buildID] }] }))).code).toBe('invalid')
    expect((await fleet.allocate({ ...ask(2), initialPlayers: ['amie', 'bo'] })).SessionID).toBe(session(2))
  })

  it('hold seats also if the outcome of the allocation was unknown', async () => {
    const { scene, fleet } = await sessions({ count: 1 })
    await untilReady(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'lose-reply' } : { kind: 'refuse' })
    const request = { ...ask(2), initialPlayers: ['amie'] }
    expect((await failureOf(fleet.allocate(request))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await fleet.allocate(request)
    expect(await seatsOf(fleet, 2)).toMatchObject({ held: 1 })
    expect((await stored(scene, fleet, 2))?.holds).toHaveLength(1)
  })
})

describe('sessions.ofPlayer', () => {
  it('finds the session in which a player holds a seat, until the player is connected to another', async () => {
    const { scene, fleet } = await sessions({ count: 2 })
    const idOf = async (player: string) => (await fleet.sessions.ofPlayer(player)).sessionID
    expect((await failureOf(fleet.sessions.ofPlayer('amie'))).code).toBe('not-found')
    await fleet.sessions.reserveSeats(session(1), ['amie'])
    expect(await idOf('amie')).toBe(session(1))
    ;(await playing(scene, fleet, 2)).players(['amie'])
    expect(await idOf('amie')).toBe(session(2))
    ;(await playing(scene, fleet, 2)).players([])
    expect(await idOf('amie')).toBe(session(1))
    await fleet.sessions.releaseSeats(session(1), ['amie'])
    expect((await failureOf(fleet.sessions.ofPlayer('amie'))).code).toBe('not-found')
  })
})

describe('sessions.withRoom', () => {
  it('lists sessions with enough free seats, the fullest first', async () => {
    const { scene, fleet } = await sessions({ count: 4, seats: 4 })
    ;(await playing(scene, fleet, 2)).players(['a', 'b'])
    await fleet.sessions.reserveSeats(session(3), ['c', 'd', 'e'])
    await fleet.sessions.reserveSeats(session(4), ['f', 'g', 'h', 'i'])
    const idsOf = async (more: object) =>
      (await fleet.sessions.withRoom({ buildID: 'arena', ...more })).map(({ sessionID }) => sessionID)
    expect(await idsOf({})).toEqual([session(3), session(2), session(1)])
    expect(await idsOf({ seats: 2 })).toEqual([session(2), session(1)])
    expect(await idsOf({ limit: 1 })).toEqual([session(3)])
    expect(await idsOf({ seats: 5 })).toEqual([])
    ;(await playing(scene, fleet, 2)).players(['a', 'b', 'c', 'd'])
    await fleet.sessions.end(session(3))
    expect(await idsOf({})).toEqual([session(1)])
    await scene.clock.advance(60_000)
    expect(await idsOf({})).toEqual([session(1), session(4)])
    await fleet.builds.update('arena', { seatsPerSession: 6 })
    expect(await idsOf({ seats: 2 })).toEqual([session(2), session(1), session(4)])
    await fleet.builds.update('arena', { seatsPerSession: undefined })
    expect((await failureOf(fleet.sessions.withRoom({ buildID: 'arena' }))).code).toBe('invalid')
    expect((await failureOf(fleet.sessions.withRoom({ buildID: 'none' }))).code).toBe('not-found')
  })

  it('selects by the data of servers, and lists those of the first selector first', async () => {
    const { fleet } = await sessions({ count: 3 })
    for (const [n, map] of [
      [1, 'dust'],
      [2, 'canyon'],
      [3, 'dust'],
    ] as const)
      await fleet.servers.update((await fleet.sessions.get(session(n))).server, { labels: { map } })
    await fleet.sessions.reserveSeats(session(2), ['amie'])
    await fleet.sessions.reserveSeats(session(3), ['bo'])
    const on = (map: string) => ({ builds: ['arena'], matchLabels: { map } })
    const idsOf = async (...select: readonly ServerSelector[]) =>
      (await fleet.sessions.withRoom({ select })).map(({ sessionID }) => sessionID)
    expect(await idsOf(on('dust'))).toEqual([session(3), session(1)])
    expect(await idsOf(on('dust'), { builds: ['arena', 'none'] })).toEqual([session(3), session(1), session(2)])
    expect(await idsOf(on('nowhere'))).toEqual([])
  })

  it('leaves out sessions of builds that are draining, and of games that this host has not heard', async () => {
    const { scene, fleet } = await sessions()
    expect(await fleet.sessions.withRoom({ buildID: 'arena' })).toHaveLength(1)
    await fleet.close()
    const next = await scene.open()
    expect(await next.sessions.withRoom({ buildID: 'arena' })).toEqual([])
    await scene.clock.advance(3_000)
    expect(await next.sessions.withRoom({ buildID: 'arena' })).toHaveLength(1)
    const drained = next.builds.drain('arena')
    await scene.clock.advance(1_000)
    expect(await next.sessions.withRoom({ buildID: 'arena' })).toEqual([])
    const error = await failureOf(next.sessions.join({ buildID: 'arena', players: ['amie'] }))
    expect(error.code).toBe('draining')
    expect(await next.sessions.reserveSeats(session(1), ['amie'])).toMatchObject({ seats: { held: 1 } })
    await next.sessions.end(session(1))
    await scene.clock.until(async () => (await next.servers.list()).length === 0)
    await drained
  })
})

describe('sessions.join', () => {
  const party = (...players: readonly string[]): JoinRequest => ({ buildID: 'arena', players })

  it('fills the fullest session that has room for all players', async () => {
    const { scene, fleet } = await sessions({ count: 2 })
    await fleet.sessions.reserveSeats(session(2), ['amie', 'bo'])
    expect((await fleet.sessions.join(party('cleo', 'dan'))).sessionID).toBe(session(1))
    const joined = await fleet.sessions.join(party('eve'))
    expect(joined.seats).toEqual({ total: 3, taken: 0, held: 3, free: 0 })
    expect(await failureOf(fleet.sessions.join(party('fay', 'gus')))).toMatchObject({
      code: 'no-room',
      message: 'no session that fits has 2 free seats; retry, or allocate a server for a new one',
    })
    expect(only(scene.eventsOf('SeatsReserved').slice(2)).sessionID).toBe(joined.sessionID)
  })

  it('returns the same session to a repeated call while the players are on their way', async () => {
    const { scene, fleet } = await sessions({ count: 2 })
    const { sessionID } = await fleet.sessions.join(party('amie', 'bo'))
    const other = sessionID === session(1) ? session(2) : session(1)
    await fleet.sessions.reserveSeats(other, ['cleo', 'dan'])
    expect((await fleet.sessions.join(party('amie', 'bo'))).sessionID).toBe(sessionID)
    ;(await playing(scene, fleet, sessionID === session(1) ? 1 : 2)).players(['amie'])
    expect((await fleet.sessions.join(party('bo', 'amie'))).sessionID).toBe(sessionID)
    expect(await fleet.sessions.get(sessionID)).toMatchObject({ seats: { taken: 1, held: 1, free: 1 } })
  })

  it('gives each seat once to many callers at once, and fills the sessions one after another', async () => {
    const { fleet } = await sessions({ count: 5, seats: 4 })
    const calls = Array.from({ length: 30 }, (_, i) => fleet.sessions.join(party(`p${i}`)).catch(() => undefined))
    const joined = (await Promise.all(calls)).filter((found) => found !== undefined)
    expect(joined).toHaveLength(20)
    for (let n = 1; n <= 5; n++) expect(await seatsOf(fleet, n)).toEqual({ total: 4, taken: 0, held: 4, free: 0 })
    const order = [...new Set(joined.map(({ sessionID }) => sessionID))]
    expect(joined.map(({ sessionID }) => order.indexOf(sessionID))).toEqual(
      Array.from({ length: 20 }, (_, i) => Math.floor(i / 4)),
    )
  })
})
