/**
 * Real timers, since the SDK lives in the game's process: `after` never keeps that process alive; a `ProcessHold` does
 * nothing else.
 */

/** Calls `fn` once, `ms` from now. The returned function cancels it. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/** Keeps the process alive between `take` and `release`, as any pending Node operation does. */
export class ProcessHold {
  #timer: NodeJS.Timeout | undefined

  take(): void {
    this.#timer ??= setInterval(() => {}, 60_000)
  }

  release(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
