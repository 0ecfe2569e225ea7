/** Paging: the order of lists, and what a caller sees who reads all pages while the list changes. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { comparePositions, firstAfter, type Position } from '../../src/fleet/resource-calls.js'

const at = (createdAt: number, name: string, namespace = 'default'): Position => ({ createdAt, namespace, name })
const same = (position: Position) => position
/** Few values, so that many positions share a creation time or a name. */
const positions = fc.uniqueArray(
  fc.record<Position>({
    createdAt: fc.integer({ min: 0, max: 5 }),
    namespace: fc.constantFrom('a', 'b'),
    name: fc.constantFrom('x', 'y', 'z', 'x-1', 'Z'),
  }),
  { selector: ({ namespace, name }) => `${namespace}/${name}` },
)

describe('items', () => {
  it('are ordered by creation time, then namespace, then name', () => {
    const inOrder = [at(1, 'z', 'b'), at(2, 'b', 'a'), at(2, 'a', 'b'), at(2, 'b', 'b'), at(10, 'a', 'a')]
    expect(inOrder.toReversed().toSorted(comparePositions)).toEqual(inOrder)
  })
})

describe('a page', () => {
  test.prop([positions, fc.option(fc.nat(20), { nil: undefined }), fc.integer({ min: 1, max: 4 })])(
    'has the first items after a position',
    (items, from, count) => {
      const sorted = items.toSorted(comparePositions)
      const after = from === undefined ? undefined : sorted[from]
      const expected = sorted.filter((one) => after === undefined || comparePositions(one, after) > 0).slice(0, count)
      expect(firstAfter(items, same, after, count)).toEqual(expected)
    },
  )

  it('costs about one comparison per item, however long the list is', () => {
    const items = Array.from({ length: 10_000 }, (_, i) => at(i, `server-${i}`))
    let reads = 0
    const counted = (item: Position) => {
      reads++
      return item
    }
    expect(firstAfter(items, counted, items[4_999], 10)).toEqual(items.slice(5_000, 5_010))
    expect(reads).toBeLessThan(11_000)
  })
})

describe('a walk through all pages', () => {
  test.prop([positions, positions, fc.array(fc.nat(9)), fc.integer({ min: 1, max: 3 })])(
    'sees an item that exists throughout exactly once, whatever is created and deleted meanwhile',
    (lasting, passing, steps, count) => {
      const isLasting = (one: Position) =>
        lasting.some((other) => other.namespace === one.namespace && other.name === one.name)
      const guests = passing.filter((one) => !isLasting(one))
      const present = new Set<Position>(lasting)
      const seen: Position[] = []
      let last: Position | undefined
      for (let step = 0; ; step++) {
        const page = firstAfter(present, same, last, count)
        if (page.length === 0) break
        seen.push(...page)
        last = page.at(-1)
        const guest = guests[steps[step] ?? -1]
        if (guest !== undefined && !present.delete(guest)) present.add(guest)
      }
      expect(seen.filter((one) => lasting.includes(one))).toEqual(lasting.toSorted(comparePositions))
    },
  )
})
