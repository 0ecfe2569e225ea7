/** When a session to which no player has come ends. */
import { describe, expect, it } from 'vitest'
import { afterEmptyHeartbeat, type Claim } from '../../../src/rules/lifecycle/server-sessions.js'

/** The claim after heartbeats without players at these times, in seconds. */
function after(seconds: number, ...times: readonly number[]): Claim | 'unclaimed' | undefined {
  let claim: Claim | 'unclaimed' | undefined
  for (const time of times) if (claim !== 'unclaimed') claim = afterEmptyHeartbeat(claim, time * 1000, seconds)
  return claim
}

describe('a session without players', () => {
  it.each<[string, number, readonly number[], Claim | 'unclaimed']>([
    ['is counted from the first heartbeat', 60, [5], { since: 5_000, isDue: false }],
    ['goes on within the time', 60, [5, 64.9], { since: 5_000, isDue: false }],
    ['goes on at the first heartbeat after the time, which may be older', 60, [5, 65], { since: 5_000, isDue: true }],
    ['goes on however late that heartbeat is', 60, [5, 6_000], { since: 5_000, isDue: true }],
    ['ends at the second one', 60, [5, 65, 65.1], 'unclaimed'],
    ['goes on if the clock goes back', 60, [5, 1, 2, 3], { since: 5_000, isDue: false }],
    ['goes on with a time of 0, which is not valid', 0, [5, 65, 66, 67], { since: 5_000, isDue: false }],
    ['goes on with a negative time', -5, [5, 65, 66, 67], { since: 5_000, isDue: false }],
    ['goes on with a time that is no number', NaN, [5, 65, 66, 67], { since: 5_000, isDue: false }],
  ])('%s', (_, seconds, times, expected) => {
    expect(after(seconds, ...times)).toEqual(expected)
  })

  it('goes on with a longer time once the build allows that', () => {
    const due = afterEmptyHeartbeat({ since: 0, isDue: false }, 60_000, 60)
    expect(due).toEqual({ since: 0, isDue: true })
    expect(due !== 'unclaimed' && afterEmptyHeartbeat(due, 61_000, 120)).toEqual(due)
  })
})
