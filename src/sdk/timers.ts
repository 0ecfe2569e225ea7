/**
 * Real timers, since the SDK lives in the game's process and in its time: `after` never keeps that process alive, and a
 * hold does nothing else.
 */

/** Calls `fn` once, `ms` from now, unless the returned function is called before. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/** Keeps the process alive between `take` and `release`, as any pending operation of node does. */
export function processHold(): { readonly take: () => void; readonly release: () => void } {
  let timer: NodeJS.Timeout | undefined
  return {
    take() {
      timer ??= setInterval(() => {}, 60_000)
    },
    release() {
      clearInterval(timer)
      timer = undefined
    },
  }
}
