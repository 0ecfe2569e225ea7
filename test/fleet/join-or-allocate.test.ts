/** `sessions.join` with `orAllocate`: however callers come, their players fill as few sessions as they need. */
import type { GameSession } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, session, type Stage, stage, untilReady } from './stage.js'

interface Given {
  readonly seats?: number
  readonly standingBy?: number
  readonly max?: number
}

async function opened({ seats = 4, standingBy = 2, max = 40 }: Given = {}) {
  const scene = stage({ memory: { readyAfterMs: 3_000 } })
  const fleet = await scene.open()
  const build = aBuild({ standingBy, max })
  await fleet.builds.create({ ...build, spec: { ...build.spec, seatsPerSession: seats } })
  await untilReady(scene, fleet, standingBy)
  return { scene, fleet }
}

const group = (players: readonly string[]) => ({ buildID: 'arena', players, orAllocate: true })
const solos = (count: number) => Array.from({ length: count }, (_, i) => group([`p${i}`]))
const sizesOf = (joined: readonly GameSession[]) => {
  const ids = [...new Set(joined.map(({ sessionID }) => sessionID))]
  return ids.map((id) => joined.filter(({ sessionID }) => sessionID === id).length)
}

async function all(scene: Stage, calls: readonly Promise<GameSession>[]): Promise<readonly GameSession[]> {
  let isOver = false
  const joined = Promise.all(calls).finally(() => (isOver = true))
  await Promise.race([joined, scene.clock.until(() => isOver)])
  return joined
}

describe('sessions.join with orAllocate', () => {
  it.each([
    [12, 4],
    [100, 4],
    [100, 7],
    [10, 1],
    [5, 8],
  ])('puts %i players who come at once into as few sessions of %i seats as they need', async (count, seats) => {
    const { scene, fleet } = await opened({ seats, max: 100 })
    const calls = solos(count).map((request) => fleet.sessions.join(request, { waitMs: 60_000 }))
    const joined = await all(scene, calls)
    const sizes = sizesOf(joined)
    expect(sizes).toHaveLength(Math.ceil(count / seats))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(seats)
    const running = await fleet.sessions.list()
    expect(running).toHaveLength(Math.ceil(count / seats))
    expect(running.map((one) => one.seats?.held ?? 0).reduce((a, b) => a + b)).toBe(count)
  })

  it('puts players who come one after another, while a start is under way, into it', async () => {
    const { scene, fleet } = await opened({ standingBy: 0 })
    const calls: Promise<GameSession>[] = []
    for (const request of solos(4)) {
      calls.push(fleet.sessions.join(request, { waitMs: 60_000 }))
      await scene.clock.advance(50)
    }
    expect(sizesOf(await all(scene, calls))).toEqual([4])
    expect(only(await fleet.sessions.list()).initialPlayers).toEqual(['p0'])
  })

  it('keeps groups together', async () => {
    const { scene, fleet } = await opened()
    const groups = [['a', 'b', 'c'], ['d', 'e', 'f'], ['g'], ['h'], ['i', 'j']]
    const calls = groups.map((players) => fleet.sessions.join(group(players), { waitMs: 60_000 }))
    const joined = await all(scene, calls)
    const order = [...new Set(joined.map(({ sessionID }) => sessionID))]
    expect(joined.map(({ sessionID }) => order.indexOf(sessionID))).toEqual([0, 1, 0, 1, 2])
  })

  it('uses a running session first, and returns the same one to a repeated call', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    const first = await fleet.sessions.join(group(['amie', 'bo']))
    expect(first.sessionID).toBe(session(1))
    expect((await fleet.sessions.join(group(['amie', 'bo']))).sessionID).toBe(session(1))
    const another = await fleet.sessions.join({
      ...group(['cleo', 'dan', 'eve']),
      sessionID: 'cup',
      sessionCookie: 'x',
    })
    expect(another).toMatchObject({
      sessionID: 'cup',
      initialPlayers: ['cleo', 'dan', 'eve'],
      seats: { held: 3, free: 1 },
    })
    expect((await fleet.sessions.join(group(['cleo', 'dan', 'eve']))).sessionID).toBe('cup')
    expect((await scene.records.servers.get(another.server))?.record.sessions[0]?.cookie).toBe('x')
  })

  it('begins the session for those who wait when the first caller gives up or does not wait', async () => {
    const { scene, fleet } = await opened({ standingBy: 0 })
    const aborter = new AbortController()
    const first = failureOf(fleet.sessions.join(group(['a']), { waitMs: 60_000, signal: aborter.signal }))
    const second = fleet.sessions.join(group(['b']), { waitMs: 60_000 })
    const hasty = failureOf(fleet.sessions.join(group(['c'])))
    const third = fleet.sessions.join(group(['d']), { waitMs: 60_000 })
    await scene.clock.advance(10)
    aborter.abort()
    expect([(await first).code, (await hasty).code]).toEqual(['aborted', 'none-standing-by'])
    expect(sizesOf(await all(scene, [second, third]))).toEqual([2])
  })

  it('fails as an allocation does, and leaves nothing behind', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    await fleet.sessions.join(group(['a', 'b', 'c', 'd']))
    const refused = failureOf(fleet.sessions.join(group(['e']), { waitMs: 1_000 }))
    await scene.clock.advance(1_000)
    expect((await refused).code).toBe('max-reached')
    await fleet.sessions.end(session(1))
    await untilReady(scene, fleet, 1)
    expect(await fleet.sessions.join(group(['e', 'f']))).toMatchObject({ seats: { held: 2, free: 2 } })
  })

  it.each([
    [{ buildID: 'arena', players: ['a'], sessionID: 'cup' }, {}, 'sessionID'],
    [group(['a', 'b', 'c', 'd', 'e']), {}, '5 players'],
    [group(['a']), { waitMs: 61_000 }, 'waitMs must be from 0 to 60000'],
    [group(['a']), { waitMs: '500' as never }, 'waitMs must be from 0 to 60000, but is "500"'],
    [group(['a']), { wait: 10 }, 'sessions.join: unknown option wait; did you mean waitMs?'],
    [{ ...group(['a']), orAllocate: 'yes' }, {}, 'orAllocate'],
  ])('refuses %o with %o', async (request, options, message) => {
    const { fleet } = await opened()
    const error = await failureOf((fleet.sessions.join as (...given: unknown[]) => Promise<unknown>)(request, options))
    expect([error.code, error.message]).toEqual(['invalid', expect.stringContaining(message)])
  })
})
