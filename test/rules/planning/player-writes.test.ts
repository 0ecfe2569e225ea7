/** When a changed player list is written. */
import { describe, expect, it } from 'vitest'
import { isWrittenAtInterval, isWrittenAtOnce } from '../../../src/rules/planning/player-writes.js'

const now = 10_000

describe('a list that has just changed is written at once', () => {
  it.each([
    ['the first players', 2, undefined, true],
    ['players after an empty list, which was written just now', 1, { at: now, count: 0 }, true],
    ['other players, a second after the last write', 1, { at: now - 1_000, count: 3 }, true],
    ['other players, less than a second after the last write', 1, { at: now - 999, count: 3 }, false],
    ['an empty list after players', 0, { at: 0, count: 3 }, false],
    ['an empty list that was never written', 0, undefined, false],
  ])('%s', (_what, count, last, isWritten) => {
    expect(isWrittenAtOnce(count, last, now)).toBe(isWritten)
  })
})

describe('a changed list is written at the end of an interval', () => {
  it.each([
    ['players that have just connected', 1, now, true],
    ['a list that has been empty for two seconds', 0, now - 2_000, true],
    ['a list that has been empty for less than two seconds', 0, now - 1_999, false],
  ])('%s', (_what, count, changedAt, isWritten) => {
    expect(isWrittenAtInterval(count, changedAt, now)).toBe(isWritten)
  })
})
