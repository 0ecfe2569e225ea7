/** Limits how often something runs. */

/**
 * Returns a function that calls `run`: at once, or when `ms` have passed since the last call of `run`. Requests that come until
 * then are one.
 */
export function atMostEvery(ms: number, run: () => void): () => void {
  let lastAt = Number.NEGATIVE_INFINITY
  let isDue = false
  const now = () => {
    isDue = false
    lastAt = performance.now()
    run()
  }
  return () => {
    if (isDue) return
    isDue = true
    setTimeout(now, Math.max(0, lastAt + ms - performance.now()))
  }
}
