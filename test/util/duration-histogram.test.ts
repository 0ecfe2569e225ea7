/** Quantiles from bins: never too short, and at most a tenth too long. */
import { array, assert, constantFrom, integer, property } from 'fast-check'
import { expect, it } from 'vitest'
import { DurationHistogram } from '../../src/util/duration-histogram.js'

it('gives quantiles that are at most a tenth too long', () => {
  assert(
    property(
      array(integer({ min: 0, max: 5_000_000 }), { minLength: 1, maxLength: 200 }),
      constantFrom(0.5, 0.9, 0.99, 1),
      (durations, share) => {
        const histogram = new DurationHistogram()
        for (const ms of durations) histogram.add(ms)
        const exact = durations.toSorted((a, b) => a - b)[Math.ceil(share * durations.length) - 1] ?? 0
        const found = histogram.quantile(share)
        expect(found).toBeGreaterThanOrEqual(exact)
        expect(found).toBeLessThanOrEqual(Math.max(1, exact * 1.1 + 1))
        expect(found).toBeLessThanOrEqual(Math.max(...durations))
      },
    ),
  )
})

it('gives the longest duration, however long, and 0 without any', () => {
  const histogram = new DurationHistogram()
  expect(histogram.quantile(0.99)).toBe(0)
  histogram.add(1e9)
  expect(histogram.quantile(0.5)).toBe(1e9)
  histogram.clear()
  expect(histogram.quantile(0.5)).toBe(0)
})
