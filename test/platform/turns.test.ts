import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { mapInSlices, sliceItems, Turns } from '../../src/platform/turns.js'

it('a turn of the event loop has a limited number of slices, handed out in the order in which they are asked for', async () => {
  const turns = new Turns(3)
  const done: number[] = []
  const all = Promise.all(Array.from({ length: 8 }, (_, i) => turns.take().then(() => done.push(i))))
  const perTurn: number[] = []
  while (done.length < 8) {
    await nextTurn()
    perTurn.push(done.length)
  }
  await all
  expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  const added = perTurn.map((count, i) => count - (perTurn[i - 1] ?? 0))
  // The first turn that is observed may end with slices of the next one.
  expect(Math.max(...added)).toBeLessThanOrEqual(6)
  expect(perTurn.length).toBeGreaterThan(1)
})

it('slices that nobody took in one turn are not added to those of the next', async () => {
  const turns = new Turns(2)
  for (let i = 0; i < 5; i++) await nextTurn()
  let taken = 0
  const all = Promise.all(Array.from({ length: 5 }, () => turns.take().then(() => taken++)))
  await Promise.resolve()
  expect(taken).toBe(2)
  await all
  expect(taken).toBe(5)
})

it('a long list is converted completely and in order, with other work in between', async () => {
  let otherWork = 0
  let isDone = false
  const watch = async () => {
    while (!isDone) {
      await nextTurn()
      otherWork++
    }
  }
  const watching = watch()
  const count = sliceItems * 40
  const items = new Set(Array.from({ length: count }, (_, i) => i))
  const converted = mapInSlices(items, (i) => i + 1)
  // Items that are added later are not part of the list.
  items.add(-1)
  expect(await converted).toEqual(Array.from({ length: count }, (_, i) => i + 1))
  isDone = true
  await watching
  expect(otherWork).toBeGreaterThan(2)
})
