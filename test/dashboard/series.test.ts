/** What the charts of the last hour draw. */
import { expect, it } from 'vitest'
import { stacked, timesUntil, valuesOf } from '../../src/dashboard/page/charts/series.js'

const minuteMs = 60_000
const now = 1_000 * minuteMs + 12_345
const servers = { pending: 0, initializing: 0, standingBy: 1, active: 2, terminating: 0 }
const minuteAt = (at: number, allocations: number) => ({
  ...{ at, servers, allocations, players: 0, waiting: 0, crashes: 0 },
  ...{ wanted: 0, refused: 0 },
})

it('begins where the records do, with nothing for minutes that they lack, and 0 for those in which nothing happened', () => {
  const minutes = [minuteAt(990 * minuteMs, 3), minuteAt(999 * minuteMs, 0), minuteAt(1_000 * minuteMs, 7)]
  const [values = []] = valuesOf(minutes, now, [{ name: 'a', colour: '--a', pick: (one) => one.allocations }])
  expect(values).toHaveLength(11)
  expect(values[0]).toBe(3)
  expect(values.slice(-3)).toEqual([null, 0, 7])
  expect(values.slice(1, -2).every((value) => value === null)).toBe(true)
})

it('draws nothing for a latency in a minute without allocations', () => {
  const minutes = [minuteAt(1_000 * minuteMs, 0)]
  const [values = []] = valuesOf(minutes, now, [{ name: 'p50', colour: '--a', pick: () => undefined }])
  expect(values.at(-1)).toBeNull()
})

it('ends with the current minute', () => {
  const times = timesUntil(now)
  expect([times.length, times.at(-1), times[0]]).toEqual([60, 1_000 * minuteMs, 941 * minuteMs])
  const few = timesUntil(now, 999 * minuteMs)
  expect([few.length, few.at(-1)]).toEqual([5, 1_000 * minuteMs])
})

it('stacks each series on those before it', () => {
  expect(
    stacked([
      [1, null, 2],
      [3, null, 0],
    ]),
  ).toEqual([
    [1, null, 2],
    [4, null, 2],
  ])
})
