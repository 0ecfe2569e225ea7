/** Waits for a condition, or looks at something repeatedly, at a pace below the server's rate limit. */
import { setInterval } from 'node:timers/promises'

const pollIntervalMs = 50

/** Thrown by a condition that can no longer become true. */
export class StopWaiting extends Error {}

/** Polls until `find` returns a value other than undefined and false. Rejects with `what` after a generous limit. */
export async function until<T>(
  what: string,
  find: () => T | Promise<T>,
  limitMs = 90_000,
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + limitMs
  let last: unknown
  for (;;) {
    try {
      const value = await find()
      if (isFound(value)) return value
      last = value
    } catch (error) {
      if (error instanceof StopWaiting) throw error
      last = error
    }
    if (performance.now() > deadline) {
      throw new Error(`timed out after ${limitMs / 1000} s: ${what}`, { cause: last })
    }
    await new Promise((resolve) => setTimeout(resolve, pollIntervalMs))
  }
}

/** Calls `look` repeatedly until the function that this returns is called, which rejects with the first error of `look`. */
export function repeatedly(look: () => Promise<void>): () => Promise<void> {
  const stop = new AbortController()
  const looking = (async () => {
    await look()
    for await (const _ of setInterval(pollIntervalMs, undefined, { signal: stop.signal })) await look()
  })()
  looking.catch(() => {})
  return async () => {
    stop.abort()
    await looking.catch((error: unknown) => {
      if (!(error instanceof Error && error.name === 'AbortError')) throw error
    })
  }
}

function isFound<T>(value: T): value is Exclude<T, undefined | false> {
  return value !== undefined && value !== false
}
