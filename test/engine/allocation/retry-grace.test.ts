/** Callers whose wait timed out: each counts as demand once, for three more seconds, up to a limit. */
import { virtualClock } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import { RetryGrace } from '../../../src/engine/allocation/retry-grace.js'
import { aBuildRecord, stock } from '../support.js'

function setUp(maxCallers = 10) {
  const clock = virtualClock()
  const { inventory, build } = stock()
  const other = inventory.addBuild(aBuildRecord('duel'), '1')
  const expired: string[] = []
  const retryGrace = new RetryGrace(clock, maxCallers, ({ record }) => void expired.push(record.name))
  return { clock, build, other, expired, retryGrace }
}

it('reports only callers that have not retried in time', async () => {
  const { clock, build, other, expired, retryGrace } = setUp()
  retryGrace.add(build, 'amie')
  retryGrace.add(other, 'bo')
  retryGrace.add(other, 'cem')
  retryGrace.remove('cem', other)
  await clock.advance(2_999)
  expect([expired, retryGrace.count(other), retryGrace.count(build)]).toEqual([[], 1, 1])
  await clock.advance(1)
  expect([expired, retryGrace.count(other), retryGrace.count(build)]).toEqual([['arena', 'duel'], 0, 0])
  expect(clock.pending).toBe(0)
})

it('counts a caller once, starting from its last timeout', async () => {
  const { clock, build, retryGrace } = setUp()
  retryGrace.add(build, 'amie')
  await clock.advance(2_900)
  retryGrace.add(build, 'amie')
  await clock.advance(2_900)
  expect(retryGrace.count(build)).toBe(1)
  await clock.advance(100)
  expect(retryGrace.count(build)).toBe(0)
})

it('counts at most maxWaiting callers, and counts more once some are removed', () => {
  const { clock, build, other, retryGrace } = setUp(2)
  retryGrace.add(build, 'amie')
  retryGrace.add(other, 'bo')
  retryGrace.add(other, 'cem')
  expect([retryGrace.count(build), retryGrace.count(other)]).toEqual([1, 1])
  retryGrace.remove('amie', build)
  retryGrace.add(other, 'cem')
  expect(retryGrace.count(other)).toBe(2)
  retryGrace.clear(other)
  retryGrace.clear()
  expect([retryGrace.count(other), clock.pending]).toEqual([0, 0])
})

it('counts a caller no more once it waits for another build, and reports that', () => {
  const { build, other, expired, retryGrace } = setUp()
  retryGrace.add(build, 'amie', true)
  expect([retryGrace.count(build), retryGrace.selective(build)]).toEqual([1, 1])
  retryGrace.remove('amie', other)
  expect([retryGrace.count(build), retryGrace.selective(build), expired]).toEqual([0, 0, ['arena']])
})
