/** The numbers of the servers on one machine. */
import { expect, it } from 'vitest'
import { lowestFreeNumber, readInstanceNumber } from '../../../src/rules/game/sdk-config.js'

it.each([
  [[], 0],
  [[0], 1],
  [[1, 2], 0],
  [[0, 1, 3], 2],
  [[2, 0, 1, 0], 3],
])('the lowest free number beside %j is %i', (held, expected) => {
  expect(lowestFreeNumber(held)).toBe(expected)
})

it.each([
  ['0', 0],
  ['17', 17],
  [3, 3],
  ['', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['0x1', undefined],
  [-1, undefined],
  [1.5, undefined],
  [undefined, undefined],
  [null, undefined],
])('%j is read as the number %j', (value, expected) => {
  expect(readInstanceNumber(value)).toBe(expected)
})
