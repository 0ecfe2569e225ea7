/** Randomness for pauses, so that many hosts do not act in step. */
import type { Clock } from '../../../src/contracts/clock.js'

/** From 0 up to, but not including, 1. */
export function randomFraction(clock: Clock): number {
  const [a = 0, b = 0] = clock.randomBytes(2)
  return (a * 256 + b) / 65_536
}
