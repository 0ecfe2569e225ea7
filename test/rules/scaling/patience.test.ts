/** How a number rises at once and falls slowly. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { follow, type Patience, patientFrom } from '../../../src/rules/scaling/patience.js'

const limits = { delayMs: 10_000, perMinute: 60 }

/** The levels after each ask: [at ms, asked for]. */
function levels(asks: readonly (readonly [number, number])[], from = 0, with_ = limits): readonly number[] {
  let patience = patientFrom(from, 0)
  return asks.map(([at, asked]) => {
    patience = follow(patience, asked, at, with_).patience
    return patience.level
  })
}

/** Follows the number from its last ask on, as often as it wants to be looked at. */
function settle(start: Patience, asked: number, from: number, with_ = limits): readonly (readonly [number, number])[] {
  const seen: (readonly [number, number])[] = []
  let now = from
  let patience = start
  for (let i = 0; i < 10_000; i++) {
    const { patience: next, nextMs } = follow(patience, asked, now, with_)
    patience = next
    if (seen.at(-1)?.[1] !== next.level) seen.push([now, next.level])
    if (nextMs === undefined) return seen
    expect(nextMs).toBeGreaterThan(0)
    now += nextMs
  }
  throw new Error('never settles')
}

describe('a number that is followed', () => {
  it.each<[string, readonly (readonly [number, number])[], readonly number[]]>([
    [
      'rises at once',
      [
        [0, 3],
        [1, 9],
      ],
      [3, 9],
    ],
    [
      'does not fall within the delay',
      [
        [0, 9],
        [1, 3],
        [9_999, 3],
      ],
      [9, 9, 9],
    ],
    [
      'falls by a step after the delay, counted from when more was asked for last',
      [
        [0, 9],
        [5_000, 9],
        [5_001, 3],
        [15_000, 3],
        [15_001, 3],
      ],
      [9, 9, 9, 9, 8],
    ],
    [
      'stays where it is while it goes up and down within the delay',
      [
        [0, 9],
        [1, 3],
        [9_000, 9],
        [9_001, 3],
        [18_000, 9],
      ],
      [9, 9, 9, 9, 9],
    ],
    [
      'falls to the highest number that was asked for within the delay',
      [
        [0, 9],
        [1, 5],
        [9_000, 2],
        [11_000, 2],
        [12_000, 2],
        [13_000, 2],
        [14_000, 2],
        [15_000, 2],
      ],
      [9, 9, 9, 8, 7, 6, 5, 5],
    ],
    [
      'rises at once while it falls',
      [
        [0, 9],
        [1, 0],
        [10_002, 0],
        [10_003, 7],
        [10_004, 12],
      ],
      [9, 9, 8, 8, 12],
    ],
  ])('%s', (_, asks, expected) => {
    expect(levels(asks)).toEqual(expected)
  })

  it('says when it falls next, until it has settled', () => {
    const { patience } = follow(patientFrom(0, 0), 4, 0, limits)
    expect(settle(patience, 1, 5_000)).toEqual([
      [5_000, 4],
      [15_000, 3],
      [16_000, 2],
      [17_000, 1],
    ])
  })

  it('falls by several at a time if it may fall fast, and all at once without a delay', () => {
    const { patience } = follow(patientFrom(0, 0), 100, 0, limits)
    expect(settle(patience, 0, 0, { delayMs: 1_000, perMinute: 3_000 })).toEqual([
      [0, 100],
      [1_000, 50],
      [2_000, 0],
    ])
    expect(
      levels(
        [
          [0, 9],
          [1, 0],
        ],
        0,
        { delayMs: 0, perMinute: 100_000 },
      ),
    ).toEqual([9, 0])
  })

  it('falls behind a number that falls steadily, however often it is asked for', () => {
    let patience = patientFrom(0, 0)
    for (let ms = 0; ms <= 60_000; ms += 10)
      patience = follow(patience, 6_000 - ms / 10, ms, { delayMs: 10_000, perMinute: 100_000 }).patience
    expect(patience.level).toBeLessThanOrEqual(1_110)
    expect(patience.asked.length).toBeLessThanOrEqual(105)
  })

  it('keeps for the delay what is there in the beginning', () => {
    expect(
      levels(
        [
          [0, 2],
          [9_999, 2],
          [10_000, 2],
        ],
        5,
      ),
    ).toEqual([5, 5, 4])
  })

  test.prop([fc.nat(100), fc.nat(100), fc.integer({ min: 1, max: 100_000 }), fc.nat(10_000)])(
    'settles at what is asked for',
    (from, asked, perMinute, delayMs) => {
      const limits = { delayMs, perMinute }
      const { patience } = follow(patientFrom(0, 0), from, 0, limits)
      expect(settle(patience, asked, 1, limits).at(-1)?.[1]).toBe(asked)
    },
  )

  const asks = fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 50 })), { minLength: 1 })
  test.prop([asks, fc.integer({ min: 1, max: 600 })])(
    'is never below what is asked for, nor above the highest number asked for within the delay and what it was before',
    (steps, perMinute) => {
      let now = 0
      let patience = patientFrom(0, 0)
      for (const [ms, asked] of steps) {
        now += ms
        const before = patience.level
        patience = follow(patience, asked, now, { delayMs: 10_000, perMinute }).patience
        expect(patience.level).toBeGreaterThanOrEqual(asked)
        expect(patience.level).toBeLessThanOrEqual(Math.max(before, asked))
      }
    },
  )

  test.prop([
    fc.integer({ min: 0, max: 50 }),
    fc.array(fc.tuple(fc.integer({ min: 1, max: 9_999 }), fc.integer({ min: 0, max: 5 }))),
  ])('changes its direction at most once within the delay under a load that is steady but for a few', (base, steps) => {
    let now = 0
    let patience = patientFrom(0, 0)
    const turns: number[] = []
    let direction = 0
    for (const [ms, more] of steps) {
      now += ms
      const before = patience.level
      patience = follow(patience, base + more, now, { delayMs: 10_000, perMinute: 6_000 }).patience
      const moved = Math.sign(patience.level - before)
      if (moved !== 0 && direction !== 0 && moved !== direction) turns.push(now)
      if (moved !== 0) direction = moved
    }
    // From rising to falling takes the delay; only what then rises again may follow at once.
    for (let i = 2; i < turns.length; i++) expect((turns[i] ?? 0) - (turns[i - 2] ?? 0)).toBeGreaterThanOrEqual(10_000)
  })
})
