/** How many callers are expected, by the days before. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { type ForecastPolicy, forecastFor, forecastVote, type History } from '../../../src/rules/scaling/forecast.js'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
const now = Date.parse('2026-03-30T18:00:00Z')

/** Callers a minute by time; undefined: not known. */
function history(asked: (wallMs: number) => number | undefined, meanMs?: number): History {
  return {
    at(wallMs) {
      const found = asked(wallMs)
      return found === undefined ? undefined : { asked: found, refused: 0, inUse: 0 }
    },
    starts: () => (meanMs === undefined ? undefined : { meanMs, p99Ms: 1.5 * meanMs }),
  }
}

const daysAgo = (wallMs: number) => Math.floor((now - wallMs) / day)
const forecast = (policy: ForecastPolicy, known: History) => forecastFor(policy, now, known)

describe('a forecast', () => {
  it('is the callers of yesterday, and three times the square root more', () => {
    const found = forecast(
      { aheadSeconds: 120 },
      history((at) => (at < now - day / 2 && at > now - 2 * day ? 8 : undefined)),
    )
    expect(found).toEqual({
      standingBy: 28,
      isKnown: true,
      reason: '16 callers are expected within 120 s, as yesterday',
      until: now + minute,
    })
    expect(forecastVote(found)).toEqual({
      by: 'forecast',
      standingBy: 28,
      reason: 'forecast asks for 28 (16 callers are expected within 120 s, as yesterday)',
    })
  })

  it('shares the callers among servers that take several sessions', () => {
    const known = history((at) => (at < now - day / 2 && at > now - 2 * day ? 8 : undefined))
    expect(forecastFor({ aheadSeconds: 120 }, now, known, 10).standingBy).toBe(3)
  })

  it('is that of a week ago if more came then', () => {
    const known = history((at) => (now - at > 6 * day ? 8 : now - at > 12 * hour ? 2 : undefined))
    expect(forecast({ aheadSeconds: 60, growthPercent: 0 }, known).reason).toBe(
      '8 callers are expected within 60 s, as a week ago',
    )
  })

  it('is 0 without days before, and soon looked at again', () => {
    expect(
      forecast(
        {},
        history(() => undefined),
      ),
    ).toEqual({
      standingBy: 0,
      isKnown: false,
      reason: 'nothing is known of yesterday and a week ago',
      until: now + 10_000,
    })
    expect(
      forecast(
        {},
        history((at) => (now - at < day / 2 ? 50 : undefined)),
      ).standingBy,
    ).toBe(0)
  })

  it.each([
    ['more', 15, '150 callers are expected within 600 s, as yesterday and 50 % more'],
    ['fewer', 7, '70 callers are expected within 600 s, as yesterday and 30 % fewer'],
    ['far more, but at most twice as many', 90, '200 callers are expected within 600 s, as yesterday and 100 % more'],
    ['far fewer, but at least half as many', 0, '50 callers are expected within 600 s, as yesterday and 50 % fewer'],
  ])('grows with the last hour: %s', (_, today, reason) => {
    const known = history((at) => (now - at < 12 * hour ? today : daysAgo(at) > 1 ? undefined : 10))
    expect(forecast({ aheadSeconds: 600 }, known).reason).toBe(reason)
  })

  it('has the growth that it is told, and none for a few callers', () => {
    const known = history((at) => (now - at < 12 * hour ? 9 : daysAgo(at) > 1 ? undefined : 3))
    expect(forecast({ aheadSeconds: 60, growthPercent: 50 }, known).reason).toContain('and 50 % more')
    const few = history((at) => (now - at < 12 * hour ? 9 : daysAgo(at) > 1 ? undefined : 0.4))
    expect(forecast({ aheadSeconds: 60 }, few).reason).not.toContain('more')
  })

  it('sees a burst before it comes', () => {
    const burst = now - day + 3 * minute
    const known = history((at) => (now - at < 12 * hour || daysAgo(at) > 1 ? undefined : at === burst ? 100 : 1))
    expect(forecast({ aheadSeconds: 60 }, known).standingBy).toBeLessThan(15)
    expect(forecast({ aheadSeconds: 240 }, known).standingBy).toBeGreaterThan(100)
    const slow = history((at) => known.at(at)?.asked, 120_000)
    expect(forecast({}, slow).standingBy).toBeGreaterThan(100)
  })

  it.each([
    ['nothing is known', undefined, 300],
    ['servers are quick', 2_000, 30],
    ['servers take a while', 130_400, 130],
    ['servers take for ever', 8 * hour, 3_600],
  ])('looks as far ahead as servers take to start: %s', (_, startMs, seconds) => {
    const known = history((at) => (now - at < 12 * hour ? undefined : 1), startMs)
    expect(forecast({}, known).reason).toContain(`expected within ${seconds} s`)
  })

  it('keeps to clocks across their change', () => {
    // Clocks in Berlin were put forward on 2026-03-29, so 20:00 was 19:00 UTC on the 28th, and is 18:00 UTC on the 29th.
    const evening = Date.parse('2026-03-29T18:00:00Z')
    const spike = Date.parse('2026-03-28T19:00:00Z')
    const known = history((at) =>
      at >= spike && at < spike + 30 * minute ? 30 : evening - at < 6 * hour ? undefined : 0,
    )
    const expected = (timeZone: string) => forecastFor({ aheadSeconds: 60, timeZone }, evening, known).standingBy
    expect(expected('Europe/Berlin')).toBeGreaterThan(30)
    expect(expected('UTC')).toBe(0)
    expect(expected('America/St_Johns')).toBe(0)
  })
})

test.prop([
  fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 60, maxLength: 60 }),
  fc.record(
    { aheadSeconds: fc.integer({ min: 1, max: 14_400 }), growthPercent: fc.integer({ min: -90, max: 1_000 }) },
    { requiredKeys: [] },
  ),
])('is a whole number, never negative, and holds for at most a minute', (counts, policy) => {
  const known = history((at) => counts[Math.floor(at / minute) % 60])
  const { standingBy, until } = forecast(policy, known)
  expect(Number.isInteger(standingBy)).toBe(true)
  expect(standingBy).toBeGreaterThanOrEqual(0)
  expect(until).toBeGreaterThan(now)
  expect(until).toBeLessThanOrEqual(now + minute)
})
