/** Which lost servers delay their replacement: only those that replaced others, and were lost soon after they stood by. */
import { describe, expect, it } from 'vitest'
import { afterLoss, isLost, isLostAgain, type Losses } from '../../../src/rules/lifecycle/backoff.js'
import { type ServerEvent, transition } from '../../../src/rules/lifecycle/lifecycle.js'
import type { ServerState } from '../../../src/rules/model/resources.js'
import { aServer } from '../support.js'

const resetMs = 60_000
const second = 1_000
const interrupted: ServerEvent = { type: 'exited', interrupted: true, reason: 'pod deleted' }

/** A server that stood by 2 s after it was created. Times are in seconds. */
function lost(createdAt: number, lostAt: number) {
  const server = aServer('StandingBy', {
    createdAt: createdAt * second,
    reachedStandingByOn: (createdAt + 2) * second,
  })
  return transition(server, interrupted, lostAt * second)
}

/** The losses after servers were lost at these times, in seconds. */
const lossesAt = (...times: readonly number[]) =>
  times.reduce<Losses | undefined>((losses, at) => afterLoss(losses, at * second, 0, resetMs), undefined)

describe('a server is lost', () => {
  it.each<[string, ServerState, ServerEvent, boolean]>([
    ['if its machine ended it while it was standing by', 'StandingBy', interrupted, true],
    ['but not before it was standing by', 'Initializing', interrupted, false],
    ['but not during its session', 'Active', interrupted, false],
    ['but not if it crashed', 'StandingBy', { type: 'exited', exitCode: 1 }, false],
    ['but not if its disappearance counts as a crash', 'StandingBy', { type: 'gone' }, false],
    ['but not if it was deleted', 'StandingBy', { type: 'end', reason: 'Deleted', message: 'deleted' }, false],
  ])('%s', (_, state, event, expected) => {
    const server = aServer(state, state === 'Active' ? { reachedStandingByOn: 1 } : {})
    const standing = state === 'StandingBy' ? { ...server, reachedStandingByOn: 1 } : server
    expect(isLost(transition(standing, event, 2))).toBe(expected)
  })
})

describe('the replacement of a lost server', () => {
  it.each<[string, readonly number[], number, number, boolean]>([
    // what, earlier losses, created at, lost at, does it back off
    ['is created at once if nothing was lost before', [], 0, 5, false],
    ['is created at once if others of the same age were lost before: a node failed', [100, 101, 104], 90, 105, false],
    ['is created at once if others were lost long before', [100], 170, 175, false],
    ['is created at once if it stood by for a minute', [100, 150], 101, 163, false],
    ['backs off if it was created after a loss and lost soon after it stood by', [100], 101, 104, true],
    ['backs off just under a minute after it stood by', [100, 150], 101, 162.999, true],
    ['backs off if the first loss is long ago but others followed', [100, 150, 200], 201, 205, true],
    ['backs off if it was created in the moment of the loss', [100], 100, 103, true],
  ])('%s', (_, earlier, createdAt, lostAt, expected) => {
    expect(isLostAgain(lost(createdAt, lostAt), lossesAt(...earlier), resetMs)).toBe(expected)
  })

  it('backs off for a loss after a pause of a minute too', () => {
    const losses = afterLoss(lossesAt(100), 101 * second, 60 * second, resetMs)
    expect(isLostAgain(lost(162, 170), losses, resetMs)).toBe(true)
    expect(isLostAgain(lost(162, 221), losses, resetMs)).toBe(false)
  })

  it('is not delayed by servers that are not lost', () => {
    expect(isLostAgain(aServer('StandingBy'), lossesAt(0), resetMs)).toBe(false)
  })
})
