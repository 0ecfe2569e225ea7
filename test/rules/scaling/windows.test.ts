/** Windows of time in cron's form. */
import { describe, expect, it } from 'vitest'
import { cronProblem, timeZoneProblem, windowAt } from '../../../src/rules/scaling/windows.js'

const evening = { start: '0 18 * * *', end: '0 23 * * *' }
const working = { start: '0 18 * * 1-5', end: '0 23 * * *' }
const weekend = { start: '0 18 * * 5', end: '0 6 * * 1' }
const night = { start: '30 2 * * *', end: '30 3 * * *' }
const zone = 'Europe/Berlin'

describe('a window', () => {
  it.each([
    ['is closed before its start', evening, '2026-01-05T16:59:59Z', false, '2026-01-05T17:00:00Z'],
    ['is closed until the last millisecond', evening, '2026-01-05T16:59:59.900Z', false, '2026-01-05T17:00:00Z'],
    ['is open from its start on', evening, '2026-01-05T17:00:00Z', true, '2026-01-05T22:00:00Z'],
    ['is open until its end', evening, '2026-01-05T21:59:59Z', true, '2026-01-05T22:00:00Z'],
    ['is closed from its end on', evening, '2026-01-05T22:00:00Z', false, '2026-01-06T17:00:00Z'],
    ['goes by the hour of its zone in summer, too', evening, '2026-07-05T16:00:00Z', true, '2026-07-05T21:00:00Z'],
    ['lasts for days', weekend, '2026-01-04T12:00:00Z', true, '2026-01-05T05:00:00Z'],
    // Its end comes each day, its start on working days only.
    ['is closed from its first end on', working, '2026-01-03T09:00:00Z', false, '2026-01-03T22:00:00Z'],
    ['is open on its days', working, '2026-01-05T18:00:00Z', true, '2026-01-05T22:00:00Z'],
    [
      'is always open if it ends when it starts',
      { start: '0 0 * * *', end: '0 0 * * *' },
      '2026-01-05T12:00:00Z',
      true,
      '2026-01-05T23:00:00Z',
    ],
    // The clock goes from 2 to 3 on March 29, and from 3 to 2 on October 25.
    ['opens when a time that is skipped would have been', night, '2026-03-29T01:00:00Z', true, '2026-03-29T01:30:00Z'],
    ['is not open before that', night, '2026-03-29T00:59:59Z', false, '2026-03-29T01:00:00Z'],
    ['opens at the first of two times', night, '2026-10-25T00:30:00Z', true, '2026-10-25T02:30:00Z'],
    ['is open all the longer in that night', night, '2026-10-25T02:29:59Z', true, '2026-10-25T02:30:00Z'],
  ])('%s', (_, window, now, isOpen, until) => {
    expect(windowAt(window, zone, Date.parse(now))).toEqual({ isOpen, until: Date.parse(until) })
  })

  it('is as long in each night of a year but for those of the clock changes', () => {
    let now = Date.parse('2026-01-01T00:00:00Z')
    const lengths = new Map<number, number>()
    let openedAt = 0
    while (now < Date.parse('2027-01-01T00:00:00Z')) {
      const { isOpen, until } = windowAt({ start: '0 1 * * *', end: '0 5 * * *' }, zone, now)
      if (isOpen) openedAt = now
      else if (openedAt > 0) lengths.set(now - openedAt, (lengths.get(now - openedAt) ?? 0) + 1)
      now = until
    }
    expect([...lengths].toSorted(([a], [b]) => a - b)).toEqual([
      [3 * 3_600_000, 1],
      [4 * 3_600_000, 363],
      [5 * 3_600_000, 1],
    ])
  })
})

describe('what is wrong with', () => {
  it.each([
    ['61 * * * *', 'must be a cron expression with five fields, such as "0 18 * * *": Invalid value for minute: 61'],
    ['* * * *', /^must be a cron expression with five fields, .*: it must have five fields/],
    ['* * * * * *', /^must be a cron expression with five fields, .*: it must have five fields/],
    ['2020-01-01T00:00:00', /it must have five fields/],
    ['0 0 30 2 *', 'names a time that never comes'],
  ])('the expression %s is said', (expression, problem) => {
    const said = cronProblem(expression)
    if (typeof problem === 'string') expect(said).toBe(problem)
    else expect(said).toMatch(problem)
  })

  it.each(['0 18 * * 5-7', '*/15 * * * MON'])('%s is nothing', (expression) => {
    expect(cronProblem(expression)).toBeUndefined()
  })

  it('a time zone is said', () => {
    expect(timeZoneProblem('Europe/Nowhere')).toBe('must be the name of a time zone, such as "Europe/Berlin" or "UTC"')
    for (const known of ['Europe/Berlin', 'UTC', 'America/Argentina/Buenos_Aires'])
      expect(timeZoneProblem(known)).toBeUndefined()
  })
})
