/** Public ports: the range from which they are assigned, and the order in which they are tried. Pure. */
import { type Checked, invalid, shown, valid } from '../validation/problem.js'

/** A range of ports, including both ends. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

export const minPort = 1
export const maxPort = 65_535

export function isPort(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= minPort && Number(value) <= maxPort
}

export const defaultPortRange: PortRange = Object.freeze({ first: 10_000, last: 12_000 })

/** Reads `10000-12000`. */
export function readPortRange(text: string, field: string): Checked<PortRange> {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text.trim())
  const first = Number(match?.[1])
  const last = Number(match?.[2])
  if (!match || first < 1 || last > 65_535 || first > last) {
    return invalid(field, `must be two ports from 1 to 65535, lower first, like 10000-12000, but is ${shown(text)}`)
  }
  return valid({ first, last })
}

/**
 * Yields the free ports of the range in the order in which to try them: starting after port `after` and wrapping around.
 * This way a port that was just released is not reused immediately, while players of the previous match may still send to
 * it.
 */
export function* candidatePorts(range: PortRange, held: ReadonlySet<number>, after: number): Generator<number> {
  const size = range.last - range.first + 1
  const start = after >= range.first && after < range.last ? after + 1 - range.first : 0
  for (let i = 0; i < size; i++) {
    const port = range.first + ((start + i) % size)
    if (!held.has(port)) yield port
  }
}
