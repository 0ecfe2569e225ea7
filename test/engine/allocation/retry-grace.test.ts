/** Callers who are expected back: for a moment, each once, and never more than so many. */
import { virtualClock } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import { retryGrace } from '../../../src/engine/allocation/retry-grace.js'
import { aBuildRecord, stock } from '../support.js'

function opened(most = 10) {
  const clock = virtualClock()
  const { inventory, build } = stock()
  const other = inventory.addBuild(aBuildRecord('duel'), '1')
  const gone: string[] = []
  const expected = retryGrace(clock, most, ({ record }) => void gone.push(record.name))
  return { clock, build, other, gone, expected }
}

it('tells of whoever did not come back in time, and of nobody else', async () => {
  const { clock, build, other, gone, expected } = opened()
  expected.add(build, 'amie')
  expected.add(other, 'bo')
  expected.add(other, 'cem')
  expected.remove(other, 'cem')
  expected.remove(build, 'bo')
  await clock.advance(2_999)
  expect([gone, expected.count(other), expected.count(build)]).toEqual([[], 1, 1])
  await clock.advance(1)
  expect([gone, expected.count(other), expected.count(build)]).toEqual([['arena', 'duel'], 0, 0])
  expect(clock.pending).toBe(0)
})

it('counts a caller once, from when he was sent away last', async () => {
  const { clock, build, expected } = opened()
  expected.add(build, 'amie')
  await clock.advance(2_900)
  expected.add(build, 'amie')
  await clock.advance(2_900)
  expect(expected.count(build)).toBe(1)
  await clock.advance(100)
  expect(expected.count(build)).toBe(0)
})

it('has no more of them in all than may wait, and room again when some are gone', () => {
  const { clock, build, other, expected } = opened(2)
  expected.add(build, 'amie')
  expected.add(other, 'bo')
  expected.add(other, 'cem')
  expect([expected.count(build), expected.count(other)]).toEqual([1, 1])
  expected.remove(build, 'amie')
  expected.add(other, 'cem')
  expect(expected.count(other)).toBe(2)
  expected.clear(other)
  expected.clear()
  expect([expected.count(other), clock.pending]).toEqual([0, 0])
})
