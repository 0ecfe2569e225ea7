/** Which seats of a session are taken, held and free. */
import { describe, expect, it } from 'vitest'
import {
  afterLapse,
  hasSeat,
  maxHoldMs,
  reserved,
  seatsOf,
  withInitialHolds,
  withoutPlayers,
  withSeats,
} from '../../../src/rules/lifecycle/server-sessions.js'
import { transition } from '../../../src/rules/lifecycle/lifecycle.js'
import type { SeatHold } from '../../../src/rules/model/resources.js'
import { minimalServer } from '../../../src/testing/records.js'
import { seededRandom } from '../../../src/testing/virtual-clock.js'

const now = 1_000_000
const hold = (player: string, leftMs = 1_000): SeatHold => ({ player, until: now + leftMs })

describe('seatsOf', () => {
  it.each<[string, readonly string[], readonly SeatHold[], object]>([
    ['nobody', [], [], { taken: 0, held: 0, free: 4 }],
    ['connected players', ['a', 'b'], [], { taken: 2, held: 0, free: 2 }],
    ['a player whom the game lists twice', ['a', 'a'], [], { taken: 1, held: 0, free: 3 }],
    ['held seats', [], [hold('a'), hold('b')], { taken: 0, held: 2, free: 2 }],
    ['a player with a hold who is connected, once', ['a'], [hold('a'), hold('b')], { taken: 1, held: 1, free: 2 }],
    ['a hold that ends now, not', [], [hold('a', 0), hold('b', -5)], { taken: 0, held: 0, free: 4 }],
    ['a hold in its last millisecond', [], [hold('a', 1)], { taken: 0, held: 1, free: 3 }],
    ['a hold that is longer than any, not', [], [hold('a', maxHoldMs + 1)], { taken: 0, held: 0, free: 4 }],
    ['more players than seats', ['a', 'b', 'c', 'd', 'e'], [hold('f')], { taken: 5, held: 1, free: 0 }],
  ])('counts %s', (_, players, holds, expected) => {
    expect(seatsOf(4, players, holds, now)).toEqual({ total: 4, ...expected })
  })
})

describe('reserved', () => {
  const request = (wanted: readonly string[], more: object = {}) => ({
    ...{ total: 3, players: ['p'], wanted, holdMs: 1_000 },
    ...more,
  })

  it.each<[string, readonly SeatHold[] | undefined, object, readonly SeatHold[], readonly string[]]>([
    ['for new players', undefined, request(['a', 'b']), [hold('a'), hold('b')], ['a', 'b']],
    ['once for a player named twice', undefined, request(['a', 'a']), [hold('a')], ['a']],
    ['not for connected players', undefined, request(['p', 'a']), [hold('a')], ['a']],
    ['beside others', [hold('c', 9)], request(['a']), [hold('c', 9), hold('a')], ['a']],
    ['longer for a player who holds one', [hold('a', 9)], request(['a']), [hold('a')], ['a']],
    ['never shorter', [hold('a', 5_000)], request(['a']), [hold('a', 5_000)], ['a']],
    [
      'instead of those that are over',
      [hold('c', 0), hold('d', -1)],
      request(['a', 'b']),
      [hold('a'), hold('b')],
      ['a', 'b'],
    ],
    ['again when all are held', [hold('a', 9), hold('b', 9)], request(['a', 'b']), [hold('a'), hold('b')], ['a', 'b']],
    [
      'for players who have them although the game let others in',
      [hold('a', 9)],
      request(['a'], { players: ['p', 'q', 'r'] }),
      [hold('a')],
      ['a'],
    ],
  ])('holds seats %s', (_, holds, given, expected, players) => {
    expect(reserved(holds, given as ReturnType<typeof request>, now)).toEqual({
      ok: true,
      holds: expected,
      reserved: players,
    })
  })

  it.each<[string, readonly SeatHold[], object, object]>([
    ['too many players', [], request(['a', 'b', 'c']), { needed: 3, seats: { free: 2 } }],
    ['one too many beside held seats', [hold('c')], request(['a', 'b']), { needed: 2, seats: { free: 1, held: 1 } }],
    [
      'a new player beside one who has a seat',
      [hold('a'), hold('b')],
      request(['a', 'c']),
      { needed: 1, seats: { free: 0 } },
    ],
    [
      'a session that is overfull',
      [],
      request(['a'], { players: ['p', 'q', 'r', 's'] }),
      { needed: 1, seats: { free: 0 } },
    ],
  ])('refuses %s, all of them', (_, holds, given, expected) => {
    expect(reserved(holds, given as ReturnType<typeof request>, now)).toMatchObject({
      ok: false,
      tooLarge: false,
      ...expected,
    })
  })

  it('refuses holds that would make the record too large', () => {
    const many = Array.from({ length: 1_000 }, (_, i) => hold(`p${i}`))
    expect(reserved(many, request(['a'], { total: 5_000 }), now)).toMatchObject({ ok: false, tooLarge: true })
    expect(reserved(many, request(['p7'], { total: 5_000 }), now)).toMatchObject({ ok: true })
    const long = Array.from({ length: 256 }, (_, i) => hold(String(i).padStart(256, 'x')))
    expect(reserved(long, request(['a'], { total: 5_000 }), now)).toMatchObject({ ok: false, tooLarge: true })
  })

  it('never holds more seats than there are, whatever players do and in whatever order', () => {
    for (let seed = 0; seed < 300; seed++) {
      const random = seededRandom(seed)
      const pick = (most: number) => Math.floor(random() * most)
      const some = () => Array.from({ length: pick(4) }, () => `p${pick(9)}`)
      const total = 1 + pick(5)
      let [at, players, holds]: [number, readonly string[], readonly SeatHold[]] = [now, [], []]
      for (let step = 0; step < 60; step++) {
        at += pick(700)
        const outcome = reserved(holds, { total, players, wanted: some(), holdMs: 1 + pick(2_000) }, at)
        const before = seatsOf(total, players, holds, at)
        if (outcome.ok) holds = outcome.holds
        else expect(outcome.needed).toBeGreaterThan(before.free)
        // Players who hold seats connect, and connected ones leave.
        const coming = holds.filter(({ until }) => until > at && random() < 0.4).map(({ player }) => player)
        players = [...players.filter(() => random() < 0.8), ...coming]
        if (random() < 0.7) holds = withoutPlayers(holds, players) ?? []
        if (random() < 0.3) holds = afterLapse(holds, at).left
        const { taken, held, free } = seatsOf(total, players, holds, at)
        expect(taken + held).toBeLessThanOrEqual(total)
        expect(free).toBe(total - taken - held)
      }
    }
  })
})

describe('the holds of a session', () => {
  const session = { id: 's', cookie: 'c', initialPlayers: ['a', 'b', 'a'], number: 1, startedAt: 0 }
  const server = {
    ...minimalServer({ namespace: 'default', name: 'arena-1' }),
    state: 'Active' as const,
    sessions: [session],
  }

  it('begin with one minute for each initial player', () => {
    const holds = [hold('a', 60_000), hold('b', 60_000)]
    expect(withInitialHolds(session, now)).toEqual({ ...session, holds })
    expect(withInitialHolds({ id: 's', initialPlayers: [] }, now)).toEqual({ id: 's', initialPlayers: [] })
  })

  it('replace those of the record, which stays the same object if nothing changes', () => {
    const held = withSeats(server, [hold('a')])
    expect(held.sessions[0]).toEqual({ ...session, holds: [hold('a')] })
    expect(withSeats(held, [hold('a')])).toBe(held)
    expect(withSeats(held, [hold('a', 5)])).not.toBe(held)
    expect(withSeats(held, []).sessions[0]).toEqual(session)
    expect(withSeats(server, [])).toBe(server)
    const idle = { ...server, sessions: [] }
    expect(withSeats(idle, [hold('a')])).toBe(idle)
  })

  it('of a terminating server do not change', () => {
    const ending = { ...server, state: 'Terminating' as const }
    expect(transition(ending, { type: 'seats', holds: [hold('a')] }, now)).toBe(ending)
  })

  it('end at their time, or without the players who have come', () => {
    const holds = [hold('a', 0), hold('b', 1), hold('c', maxHoldMs + 1), hold('d')]
    expect(afterLapse(holds, now)).toEqual({ left: [hold('b', 1), hold('d')], lapsed: ['a', 'c'] })
    expect(withoutPlayers(holds, ['d', 'x'])).toEqual(holds.slice(0, 3))
    expect(withoutPlayers(holds, ['x'])).toBe(holds)
    expect(withoutPlayers(undefined, ['x'])).toBeUndefined()
  })

  it.each([
    ['is connected', 'p', true],
    ['holds one', 'a', true],
    ['held one that is over', 'b', false],
    ['has nothing', 'x', false],
  ])('a player who %s', (_, player, expected) => {
    expect(hasSeat(player, ['p'], [hold('a'), hold('b', 0)], now)).toBe(expected)
  })
})
