/** The end of a session: every session is reported as ended, once, with what a matchmaker wants to know, also over restarts. */
import type { EventOf, Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, session, type Stage, stage, untilReady, watched } from './stage.js'

async function match(scene: Stage = stage()): Promise<{ readonly scene: Stage; readonly fleet: Fleet }> {
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1 }))
  await untilReady(scene, fleet, 1)
  await fleet.allocate({ ...ask(1), initialPlayers: ['amie', 'bo'] })
  await scene.clock.advance(2_000)
  const game = await playing(scene, fleet, 1)
  game.players(['amie'])
  await scene.clock.advance(58_000)
  return { scene, fleet }
}

const endsOf = (scene: Stage) => scene.eventsOf('SessionEnded')

describe('the end of a session', () => {
  it.each([
    ['Finished', 0, undefined],
    ['Crashed', 3, 3],
    ['Crashed', 137, 137],
  ] as const)('is reported as %s when its game exits with code %i', async (reason, code, exitCode) => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    const startedAt = scene.clock.now() - 60_000
    game.exit(code)
    await scene.clock.advance(2_000)
    const ended = only(endsOf(scene))
    expect(ended).toMatchObject({
      ...{ sessionID: session(1), buildID: 'arena', server: game.ref, build: { name: 'arena' }, reason },
      ...{ initialPlayers: ['amie', 'bo'], players: ['amie'], startedAt, durationMs: 60_000 },
      message: expect.stringContaining(`the process exited with code ${code}`),
    })
    expect(ended.exitCode).toBe(exitCode)
  })

  it.each([
    ['Ended', (fleet: Fleet) => fleet.sessions.end(session(1))],
    ['Deleted', (fleet: Fleet, name: string) => fleet.servers.delete(name)],
    ['Deleted', (fleet: Fleet) => fleet.builds.delete('arena')],
    ['Drained', (fleet: Fleet) => fleet.builds.drain('arena', { active: 'terminate' })],
  ] as const)('is reported as %s once its server is gone', async (reason, end) => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    const ending = end(fleet, game.ref.name)
    expect(endsOf(scene)).toEqual([])
    await scene.clock.until(() => endsOf(scene).length > 0)
    await ending
    expect(only(endsOf(scene))).toMatchObject({ reason, sessionID: session(1), server: game.ref })
    await scene.clock.advance(60_000)
    expect(endsOf(scene)).toHaveLength(1)
  })

  it('is heard by a listener of createFleet if it came while no host ran', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    await fleet.close()
    game.exit(7)
    const heard: EventOf<'SessionEnded'>[] = []
    const all: string[] = []
    const next = await scene.open({
      on: { SessionEnded: (event) => heard.push(event), '*': ({ type }) => void all.push(type) },
    })
    await scene.clock.advance(1_000)
    expect(only(heard)).toMatchObject({
      ...{ sessionID: session(1), reason: 'Crashed', exitCode: 7, players: ['amie'], initialPlayers: ['amie', 'bo'] },
    })
    expect(all).toEqual(expect.arrayContaining(['ServerEnding', 'SessionEnded', 'LeadershipChanged']))
    expect(await next.sessions.get(session(1))).toMatchObject({ state: 'Ended', reason: 'Crashed', exitCode: 7 })
    await next.close()
    const third = await scene.open({ on: { SessionEnded: (event) => heard.push(event) } })
    await scene.clock.advance(60_000)
    expect(heard).toHaveLength(1)
    expect((await failureOf(third.sessions.get(session(1)))).code).toBe('not-found')
  })

  it('is reported by the next host with the same sessionUid if its host dies in servers.delete', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'servers.delete' ? { kind: 'refuse' } : undefined)
    game.exit(0)
    await scene.clock.advance(30_000)
    expect(endsOf(scene)).toHaveLength(1)
    scene.crash()
    scene.faults.store = () => undefined
    await scene.open()
    await scene.clock.advance(5_000)
    const [first, second, ...others] = endsOf(scene)
    expect(second).toMatchObject({ sessionUid: first?.sessionUid, players: ['amie'], initialPlayers: ['amie', 'bo'] })
    expect(others).toEqual([])
  })

  it('is reported once if its host closes at that moment', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    let closing: Promise<void> | undefined
    fleet.on('SessionEnded', () => void (closing ??= fleet.close()))
    scene.faults.store = ({ method }) => (method === 'servers.delete' ? { kind: 'delay-reply', ms: 100 } : undefined)
    game.exit(0)
    await scene.clock.until(() => closing !== undefined)
    await scene.clock.run(closing ?? Promise.reject(new Error()))
    expect(await scene.records.details.list()).toEqual([])
    await scene.open()
    await scene.clock.advance(5_000)
    expect(endsOf(scene)).toHaveLength(1)
  })

  it('is reported once if its host dies in details.delete, and the next host deletes the detail', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'details.delete' ? { kind: 'refuse' } : undefined)
    game.exit(0)
    await scene.clock.advance(30_000)
    scene.crash()
    scene.faults.store = () => undefined
    expect(await scene.records.details.list()).toHaveLength(1)
    await scene.open()
    await scene.clock.advance(5_000)
    expect(endsOf(scene)).toHaveLength(1)
    expect(await scene.records.details.list()).toEqual([])
  })

  it('is reported before the record is deleted, so that it is not lost with the reply', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'servers.delete' ? { kind: 'lose-reply' } : undefined)
    game.exit(0)
    await scene.clock.until(async () => (await scene.records.servers.list()).every(({ record }) => !record.sessions[0]))
    scene.crash()
    expect(endsOf(scene)).toHaveLength(1)
  })

  it('has freed its id: a listener that allocates it again gets another server', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    await untilReady(scene, fleet, 1)
    let again: Promise<string> | undefined
    fleet.on('SessionEnded', ({ sessionID }) => {
      again ??= fleet.allocate({ buildID: 'arena', sessionID }, { waitMs: 10_000 }).then(({ server }) => server.name)
    })
    game.exit(1)
    await scene.clock.advance(2_000)
    expect(await again).not.toBe(game.ref.name)
    expect(await fleet.sessions.get(session(1))).toMatchObject({ state: 'Active' })
    const second = await playing(scene, fleet, 1)
    second.exit(0)
    await scene.clock.advance(1_000)
    expect(endsOf(scene).map(({ reason }) => reason)).toEqual(['Crashed', 'Finished'])
    expect(new Set(endsOf(scene).map(({ sessionUid }) => sessionUid)).size).toBe(2)
    expect(await fleet.sessions.get(session(1))).toMatchObject({ state: 'Ended', reason: 'Finished' })
  })

  it('does not keep its id while the players of its server are being deleted', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    await untilReady(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'details.delete' ? { kind: 'delay-reply', ms: 8_000 } : undefined)
    let again: Promise<unknown> | undefined
    fleet.on('SessionEnded', () => void (again ??= fleet.allocate(ask(1))))
    game.exit(0)
    await scene.clock.until(() => again !== undefined)
    const { outcome } = watched(again ?? Promise.reject(new Error()))
    await scene.clock.advance(100)
    expect(outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref.name).not.toBe(game.ref.name)
    await scene.clock.advance(8_000)
  })

  it('keeps its id while its record is being deleted: a call waits for that as long as it may', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    await untilReady(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'servers.delete' ? { kind: 'delay-reply', ms: 8_000 } : undefined)
    game.exit(0)
    await scene.clock.until(() => endsOf(scene).length > 0)
    const patient = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    const hasty = watched(fleet.allocate(ask(1), { waitMs: 2_000 }))
    const without = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(1_000)
    const unknown = { error: { code: 'unavailable', message: expect.stringContaining('outcome unknown') } }
    expect([without.outcome(), hasty.outcome()]).toMatchObject([unknown, 'pending'])
    await scene.clock.advance(1_000)
    expect([hasty.outcome(), patient.outcome()]).toMatchObject([unknown, 'pending'])
    await scene.clock.advance(7_000)
    expect(patient.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref.name).not.toBe(game.ref.name)
  })

  it('is reported for a server whose record somebody deletes', async () => {
    const { scene, fleet } = await match()
    const { record, revision } = only((await scene.records.servers.list()).filter((one) => one.record.sessions[0]))
    await scene.records.servers.delete(record, revision)
    await fleet.servers.update(record.name, { labels: { map: 'dust' } }).catch(() => undefined)
    await scene.clock.advance(60_000)
    expect(only(endsOf(scene))).toMatchObject({ reason: 'Deleted', sessionID: session(1) })
  })
})

describe('sessions.get of a session that has ended', () => {
  it('says how, for an hour', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    game.exit(3)
    await scene.clock.advance(1_000)
    const { seq: _, type: __, at, startedAt = 0, ...event } = only(endsOf(scene))
    expect(await fleet.sessions.get(session(1).toUpperCase())).toEqual({
      ...event,
      state: 'Ended',
      startedAt: new Date(startedAt).toISOString(),
      endedAt: new Date(at).toISOString(),
    })
    await scene.clock.advance(59 * 60_000)
    expect(await fleet.sessions.get(session(1))).toMatchObject({ state: 'Ended' })
    await scene.clock.advance(2 * 60_000)
    expect((await failureOf(fleet.sessions.get(session(1)))).code).toBe('not-found')
  })

  it('says how in a listener of SessionEnded, too', async () => {
    const { scene, fleet } = await match()
    const seen: Promise<unknown>[] = []
    fleet.on('SessionEnded', ({ sessionID }) => void seen.push(fleet.sessions.get(sessionID)))
    ;(await playing(scene, fleet, 1)).exit(3)
    await scene.clock.advance(1_000)
    expect(await Promise.all(seen)).toMatchObject([{ state: 'Ended', reason: 'Crashed' }])
  })

  it('says so of the last limits.eventLogSize sessions', async () => {
    const { scene, fleet } = await match(stage({ limits: { eventLogSize: 2 } }))
    ;(await playing(scene, fleet, 1)).exit(0)
    for (const id of [2, 3]) {
      await scene.clock.advance(5_000)
      await fleet.allocate(ask(id))
      ;(await playing(scene, fleet, id)).exit(0)
    }
    await scene.clock.advance(5_000)
    expect((await failureOf(fleet.sessions.get(session(1)))).code).toBe('not-found')
    for (const id of [2, 3]) expect(await fleet.sessions.get(session(id))).toMatchObject({ state: 'Ended' })
  })
})

describe('sessions.ended', () => {
  it('waits for the end, and answers at once after it', async () => {
    const { scene, fleet } = await match()
    const game = await playing(scene, fleet, 1)
    const both = [1, 2].map(() => fleet.sessions.ended(session(1)))
    const { outcome } = watched(both[0] ?? Promise.reject(new Error()))
    await scene.clock.advance(10_000)
    expect(outcome()).toBe('pending')
    game.exit(3)
    await scene.clock.advance(1_000)
    const expected = { state: 'Ended', reason: 'Crashed', exitCode: 3, sessionID: session(1) }
    expect(await Promise.all(both)).toEqual([expect.objectContaining(expected), expect.objectContaining(expected)])
    expect(await fleet.sessions.ended(session(1))).toMatchObject(expected)
  })

  it('gives up after waitMs, when its signal fires, and when this host closes', async () => {
    const { scene, fleet } = await match()
    const aborter = new AbortController()
    const calls = [
      failureOf(fleet.sessions.ended(session(1), { waitMs: 1_000 })),
      failureOf(fleet.sessions.ended(session(1), { signal: aborter.signal })),
      failureOf(fleet.sessions.ended(session(1))),
    ]
    await scene.clock.advance(1_000)
    aborter.abort()
    await fleet.close()
    expect((await Promise.all(calls)).map(({ code }) => code)).toEqual(['aborted', 'aborted', 'closed'])
  })

  it('refuses a session that it knows nothing of, and options that do not exist', async () => {
    const { fleet } = await match()
    expect((await failureOf(fleet.sessions.ended(session(9)))).code).toBe('not-found')
    const wrong = fleet.sessions.ended(session(1), { timeoutMs: 5 } as never)
    expect((await failureOf(wrong)).message).toContain('sessions.ended: unknown option timeoutMs')
    expect((await failureOf(fleet.sessions.ended(session(1), { waitMs: -1 }))).message).toContain('waitMs')
  })
})

describe('createFleet', () => {
  it.each([
    [{ SessionEnd: () => {} }, 'createFleet: on: there is no event "SessionEnd"; did you mean SessionEnded?'],
    [{ SessionEnded: 'log' }, 'createFleet: on.SessionEnded must be a function, but is "log"'],
  ])('refuses %o', async (on, message) => {
    expect((await failureOf(stage().open({ on: on as never }))).message).toContain(message)
  })
})
