/** Where the squares of the map are, and which one is at a point. */
import { fc, test } from '@fast-check/vitest'
import { expect } from 'vitest'
import { itemAt, layOut } from '../../../src/dashboard/page/data/map-layout.js'

const groups = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 30 })

test.prop([groups, fc.integer({ min: 200, max: 2_000 })])(
  'each square is within the width, is found where it is, and is the only one there',
  (sizes, width) => {
    const layout = layOut(
      sizes.map((size, group) => ({
        name: String(group),
        items: Array.from({ length: size }, (_, n) => `${group}/${n}`),
      })),
      width,
    )
    const seen = new Set<string>()
    for (const { items, left, top, columns } of layout.groups) {
      items.forEach((item, n) => {
        const x = left + (n % columns) * layout.pitch
        const y = top + Math.floor(n / columns) * layout.pitch
        expect(x + layout.pitch).toBeLessThanOrEqual(width)
        expect(y + layout.pitch).toBeLessThanOrEqual(layout.height)
        expect(itemAt(layout, x + 1, y + 1)).toBe(item)
        seen.add(`${x} ${y}`)
      })
    }
    expect(seen.size).toBe(sizes.reduce((sum, size) => sum + size, 0))
  },
)
