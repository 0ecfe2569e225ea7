/** What counts as a pause between calls with priority. */
import { expect, it } from 'vitest'
import { RateLimiter } from '../../../../adapters/kubernetes/client/rate-limiter.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'

const attended = { priority: true }
const unattended = { priority: true, unattended: true }

function newLimiter(maxConcurrent: number) {
  const clock = virtualClock()
  return { clock, limiter: new RateLimiter(clock, { perSecond: 1_000, maxConcurrent }) }
}

it('a pause begins when the last call with priority has ended', async () => {
  const { clock, limiter } = newLimiter(2)
  expect(limiter.tryStart(attended)).toBe(true)
  await clock.advance(30)
  expect(limiter.priorityPauseMs).toBe(0)
  limiter.done(attended)
  await clock.advance(30)
  expect(limiter.priorityPauseMs).toBe(30)
})

it('calls that nobody waits for do not end it, whether they run or wait', async () => {
  const { clock, limiter } = newLimiter(1)
  expect(limiter.tryStart(attended)).toBe(true)
  limiter.done(attended)
  await clock.advance(30)
  expect(limiter.tryStart(unattended)).toBe(true)
  limiter.enqueue(unattended, () => {})
  expect(limiter.priorityPauseMs).toBe(30)
  limiter.enqueue(attended, () => {})
  expect(limiter.priorityPauseMs).toBe(0)
})

it('they have priority over calls without', async () => {
  const { limiter } = newLimiter(1)
  const started: string[] = []
  expect(limiter.tryStart(attended)).toBe(true)
  limiter.enqueue({}, () => started.push('without'))
  limiter.enqueue(unattended, () => started.push('unattended'))
  limiter.done(attended)
  limiter.done(unattended)
  expect(started).toEqual(['unattended', 'without'])
})
