/** The demand of a day: counting, continuing what another host has counted, and durations by bin. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  binOf,
  countOf,
  DemandCount,
  durationsOf,
  isDemandDay,
  minuteOf,
  recordingProblem,
} from '../../../src/rules/demand/demand-day.js'

const day = '2026-11-28'

describe('a count', () => {
  it('has callers, refusals and the most servers in use by minute', () => {
    const count = new DemandCount(day)
    count.asked(2)
    count.asked(2)
    count.refused(2)
    count.inUse(2, 1)
    count.inUse(2, 4)
    count.inUse(3, 0)
    count.asked(5)
    expect(count.read()).toMatchObject({ day, asked: [0, 0, 2, 0, 0, 1], refused: [0, 0, 1], inUse: [0, 0, 4, 0] })
  })

  it('fills minutes for which nobody has counted with the larger number beside them', () => {
    const count = new DemandCount(day)
    count.inUse(1, 5)
    count.inUse(4, 3)
    expect(count.read().inUse).toEqual([0, 5, 5, 5, 3])
  })

  it('continues what an earlier host has counted, whose last minutes may be missing', () => {
    const earlier = new DemandCount(day)
    earlier.asked(1)
    earlier.inUse(1, 6)
    earlier.waited(50)
    const own = new DemandCount(day)
    own.asked(4)
    own.inUse(4, 5)
    own.waited(70)
    own.sessionEnded(61, 1_000)
    const { asked, inUse, waits, sessions } = own.precededBy(earlier.read()).read()
    expect({ asked, inUse, waits }).toEqual({ asked: [0, 1, 0, 0, 1], inUse: [0, 6, 6, 6, 5], waits: { 0: 2 } })
    expect(sessions).toEqual({ 1: { [binOf(1_000)]: 1 } })
  })

  it('is not changed by what is read from it', () => {
    const count = new DemandCount(day)
    count.asked(0)
    const before = count.read()
    count.asked(0)
    expect(before.asked).toEqual([1])
  })
})

test.prop([
  fc.array(fc.integer({ min: 0, max: 86_400_000 }), { minLength: 1, maxLength: 50 }),
  fc.double({ min: 0, max: 1, noNaN: true }),
])('a drawn duration lies in a bin that has some', (all, share) => {
  const count = new DemandCount(day)
  for (const ms of all) count.waited(ms)
  const { waits } = count.read()
  expect(countOf(waits)).toBe(all.length)
  const drawn = durationsOf(waits)?.(share) ?? NaN
  // Rounded to a whole ms, at the edge of two bins.
  const bins = [-1, 0, 1].map((ms) => binOf(drawn + ms))
  expect(bins.some((bin) => (waits[bin] ?? 0) > 0)).toBe(true)
})

test.prop([fc.integer({ min: 101, max: 86_400_000 })])('a duration is known to a tenth', (ms) => {
  const count = new DemandCount(day)
  count.waited(ms)
  expect(Math.abs((durationsOf(count.read().waits)?.(1) ?? NaN) - ms) / ms).toBeLessThan(0.11)
})

it('no durations: nothing to draw from', () => expect(durationsOf({})).toBeUndefined())

it('the minute of a day', () => {
  expect(minuteOf(Date.UTC(2026, 10, 28, 0, 0, 59))).toBe(0)
  expect(minuteOf(Date.UTC(2026, 10, 28, 23, 59, 59))).toBe(1_439)
})

describe('a recording from a file', () => {
  const good = new DemandCount(day).read()

  it('is accepted as it was written', () => {
    const count = new DemandCount(day)
    count.asked(3)
    count.sessionEnded(3, 60_000)
    const read: unknown = JSON.parse(JSON.stringify(count.read()))
    expect(isDemandDay(read)).toBe(true)
    expect(recordingProblem({ build: { namespace: 'default', name: 'arena' }, days: [read] })).toBeUndefined()
  })

  it.each([
    ['nothing', null, 'it must be a recording, with days'],
    ['no days', { build: {} }, 'it must be a recording, with days'],
    ['a day that is none', { days: [{ ...good, day: '2026-13-45' }] }, 'days[0].day must be a date'],
    ['a negative count', { days: [good, { ...good, asked: [-1] }] }, 'days[1].asked must be a list'],
    ['too many minutes', { days: [{ ...good, inUse: Array(1_441).fill(0) }] }, 'days[0].inUse must be a list'],
    ['no durations', { days: [{ ...good, waits: { x: 1 } }] }, 'days[0].waits'],
    ['sessions without hours', { days: [{ ...good, sessions: { 1: 5 } }] }, 'days[0].sessions'],
  ])('%s', (_name, value, problem) => expect(recordingProblem(value)).toContain(problem))
})
