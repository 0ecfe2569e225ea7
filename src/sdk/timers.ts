/**
 * Real timers for the SDK, which runs in the game's process. `after` never keeps that process alive; `KeepAlive` does only
 * that.
 */

/** Calls `fn` once, `ms` from now. The returned function cancels it. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/** Keeps the process alive between `start` and `stop`, as a pending Node operation would. */
export class KeepAlive {
  #timer: NodeJS.Timeout | undefined

  start(): void {
    this.#timer ??= setInterval(() => {}, 60_000)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** A promise, and the function that resolves it. */
export function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
