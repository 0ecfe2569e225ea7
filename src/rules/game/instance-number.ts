/** Numbers a machine's game servers, as `serverInstanceNumber` in their SDK configuration. Pure. */

/** Returns the lowest number from 0 that is not in `held`. */
export function lowestFreeNumber(held: Iterable<number>): number {
  const taken = new Set(held)
  let number = 0
  while (taken.has(number)) number++
  return number
}

/** Reads a number from a record, label or annotation. Returns undefined unless it is an integer ≥ 0. */
export function readInstanceNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined
}
