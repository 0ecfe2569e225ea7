/** Adds randomness to pauses, so that hosts do not act simultaneously. */
import type { Clock } from '../../../src/contracts/clock.js'

/** A random number from 0 (inclusive) to 1 (exclusive). */
export function randomFraction(clock: Clock): number {
  const [a = 0, b = 0] = clock.randomBytes(2)
  return (a * 256 + b) / 65_536
}
