/** How long a server may take to start, depending on how the starts before it went. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { afterLateStart, afterStart, noBackoff, startLimitMs } from '../../../src/rules/lifecycle/backoff.js'

const minute = 60_000
const second = 1_000

/** The back-off after servers were late at these times, in seconds. */
const lateAt = (...times: readonly number[]) =>
  times.reduce((backoff, at) => afterLateStart(backoff, at * second, minute), noBackoff)
const allowed = (backoff: { readonly failures: number }) => startLimitMs(backoff.failures, minute) / second

describe('the time that a server may take to start', () => {
  it.each<[string, readonly number[], number]>([
    ['is the limit at first', [], 60],
    ['is still the limit after one late server, whose replacement has the same chance', [60], 60],
    ['doubles when the replacement is late too', [60, 120], 120],
    ['doubles once for servers that are late together', [60, 120, 121, 130, 239], 120],
    ['doubles further while servers keep being late', [60, 120, 240, 480], 480],
    ['is at most sixteen times the limit', [60, 120, 240, 480, 960, 1920, 3840], 960],
  ])('%s', (_, times, expected) => {
    expect(allowed(lateAt(...times))).toBe(expected)
  })

  it.each<[string, number, number]>([
    ['is the limit again once a server starts within it', 5, 60],
    ['is what the last server needed: 70 s', 70, 120],
    ['is what the last server needed: 200 s', 200, 240],
    ['never grows because a server was slow', 5_000, 480],
  ])('%s', (_, tookSeconds, expected) => {
    expect(allowed(afterStart(lateAt(60, 120, 240, 480), tookSeconds * second, minute))).toBe(expected)
  })

  test.prop([fc.integer({ min: 1, max: 16 * 60 - 1 })])('is enough in the end for a start of up to 16 min', (needs) => {
    let backoff = noBackoff
    let now = 0
    for (let servers = 1; allowed(backoff) <= needs; servers++) {
      now += allowed(backoff)
      backoff = afterLateStart(backoff, now * second, minute)
      expect(servers).toBeLessThanOrEqual(6)
    }
    expect(allowed(afterStart(backoff, needs * second, minute))).toBeGreaterThan(needs)
  })
})
