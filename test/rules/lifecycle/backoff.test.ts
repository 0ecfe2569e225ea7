/** Back-off after crashes: 1 s, doubling to 60 s, and reset after 60 s without a crash. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { afterFailure, type Backoff, isOver, noBackoff, pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { frozen } from '../support.js'

const limits = frozen({ initialMs: 1_000, maxMs: 60_000, resetMs: 60_000 })
const hourMs = 3_600_000

const fail = (backoff: Backoff, now: number) => frozen(afterFailure(backoff, now, limits))

describe('the back-off', () => {
  it.each([
    [0, 0],
    [1, 1_000],
    [2, 2_000],
    [3, 4_000],
    [4, 8_000],
    [5, 16_000],
    [6, 32_000],
    [7, 60_000],
    [8, 60_000],
    [1_000_000, 60_000],
  ])('after %i failures in a row is %i ms', (failures, ms) => {
    expect(pauseMs(failures, limits)).toBe(ms)
  })

  it('starts at the first failure', () => {
    expect(fail(noBackoff, 0)).toEqual({ failures: 1, until: 1_000 })
    expect(fail(noBackoff, 5_000_000)).toEqual({ failures: 1, until: 5_001_000 })
  })

  it('doubles with every later failure', () => {
    const second = fail(fail(noBackoff, 0), 1_000)
    expect(second).toEqual({ failures: 2, until: 3_000 })
    expect(fail(second, 3_500)).toEqual({ failures: 3, until: 7_500 })
  })

  it('ignores failures while it runs: 20 servers that crash together count once', () => {
    let backoff = fail(noBackoff, 0)
    const first = backoff
    for (let now = 0; now < 1_000; now += 50) backoff = fail(backoff, now)
    expect(backoff).toBe(first)
  })

  it('is back to 1 s after 60 s without a failure', () => {
    const third = fail(fail(fail(noBackoff, 0), 1_000), 3_000)
    expect(third).toEqual({ failures: 3, until: 7_000 })
    expect(fail(third, 66_999)).toEqual({ failures: 4, until: 74_999 })
    expect(fail(third, 67_000)).toEqual({ failures: 1, until: 68_000 })
  })
})

describe('isOver', () => {
  it.each([
    ['is true without a failure', noBackoff, 0, true],
    ['is false during the back-off', { failures: 1, until: 1_000 }, 999, false],
    ['is false at the end of the back-off', { failures: 1, until: 1_000 }, 1_000, false],
    ['is false just under 60 s after the back-off', { failures: 1, until: 1_000 }, 60_999, false],
    ['is true 60 s after the back-off', { failures: 1, until: 1_000 }, 61_000, true],
  ])('%s', (_when, backoff, now, over) => {
    expect(isOver(backoff, now, limits)).toBe(over)
  })
})

/** Start times of the back-offs that these failures cause. */
function backoffStarts(failureTimes: readonly number[]): readonly number[] {
  const began: number[] = []
  let backoff = noBackoff
  for (const now of failureTimes) {
    const next = fail(backoff, now)
    if (next !== backoff) began.push(now)
    backoff = next
  }
  return began
}

function mostWithinAnHour(times: readonly number[]): number {
  let most = 0
  let from = 0
  for (const [i, time] of times.entries()) {
    while (time - (times[from] ?? time) >= hourMs) from++
    most = Math.max(most, i - from + 1)
  }
  return most
}

describe('creations during permanent failure', () => {
  it('average about one per minute over a day if every server fails at once', () => {
    const times: number[] = []
    let backoff = noBackoff
    for (let now = 0; now < 24 * hourMs; now = backoff.until) {
      times.push(now)
      backoff = fail(backoff, now)
    }
    // 1 + 2 + 4 + 8 + 16 + 32 s, and from then on 60 s each.
    expect(times.filter((time) => time < hourMs)).toHaveLength(6 + 59)
    expect(mostWithinAnHour(times.filter((time) => time >= hourMs))).toBe(60)
  })

  /** The worst case: five back-offs, then just long enough without failure to restart with the shortest. */
  const mostPerHour = Math.ceil((hourMs / (31_000 + limits.resetMs)) * 5) + 5

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('are bounded when every %ith crash follows 60 s without a crash', (run) => {
    const times: number[] = []
    let backoff = noBackoff
    for (let now = 0; now < 3 * hourMs;) {
      times.push(now)
      backoff = fail(backoff, now)
      now = backoff.until + (backoff.failures === run ? limits.resetMs : 0)
    }
    expect(mostWithinAnHour(times)).toBeLessThanOrEqual(mostPerHour)
  })

  const gaps = fc.array(
    fc.oneof(fc.nat({ max: 2_000 }), fc.nat({ max: 130_000 }), fc.constantFrom(1_000, 60_000, 61_000, 120_000)),
    { maxLength: 400 },
  )

  test.prop([gaps])('are bounded in any hour, whatever the failure times', (waits) => {
    let now = 0
    const times = waits.map((ms) => (now += ms))
    expect(mostWithinAnHour(backoffStarts(times))).toBeLessThanOrEqual(mostPerHour)
  })

  test.prop([gaps])('never happen during a back-off', (waits) => {
    let now = 0
    let backoff = noBackoff
    for (const ms of waits) {
      now += ms
      const next = fail(backoff, now)
      const failures = isOver(backoff, now, limits) ? 1 : backoff.failures + 1
      const isRight =
        next === backoff
          ? now < backoff.until
          : now >= backoff.until && next.failures === failures && next.until === now + pauseMs(failures, limits)
      if (!isRight) expect.fail(`${JSON.stringify(backoff)} became ${JSON.stringify(next)} at ${now}`)
      backoff = next
    }
  })
})
