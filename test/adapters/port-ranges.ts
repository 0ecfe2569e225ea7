/** Gives each test public ports of its own, also beside another test file. */
import type { PortRange } from '../../src/rules/model/ports.js'

/**
 * Of an area that nothing else uses, below the ports that the kernel gives to outgoing connections (from 32,768). The two files that run side
 * by side have a half of it each. A file seldom begins with the ports of the one before, whose instances may still hold them.
 */
export function portRanges(area: PortRange): (size: number) => PortRange {
  const half = Math.floor((area.last - area.first + 1) / 2)
  const start = area.first + (Number(process.env['VITEST_POOL_ID'] ?? 0) % 2) * half
  let next = start + (process.pid % 8) * Math.floor(half / 16)
  return (size) => {
    const range = { first: next, last: next + size - 1 }
    if (range.last >= start + half) throw new Error(`the tests of one file need more than ${half} public ports`)
    next += size
    return range
  }
}
