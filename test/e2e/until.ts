/** Waits for a condition, never for a time. */

const pollIntervalMs = 50

/** No further look can help. */
export class StopWaiting extends Error {}

/**
 * Resolves with the first value of `look` that is neither undefined nor false. Fails with `what` once the limit is
 * over; it is generous, since a busy machine may take its time.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = 90_000,
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + limitMs
  let last: unknown
  for (;;) {
    try {
      const value = await look()
      if (isThere(value)) return value
      last = value
    } catch (error) {
      if (error instanceof StopWaiting) throw error
      last = error
    }
    if (performance.now() > deadline) {
      throw new Error(`waited ${limitMs / 1000} s in vain: ${what}`, { cause: last })
    }
    await new Promise((resolve) => setTimeout(resolve, pollIntervalMs))
  }
}

function isThere<T>(value: T): value is Exclude<T, undefined | false> {
  return value !== undefined && value !== false
}
