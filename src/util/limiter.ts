/** Limits how many tasks run at the same time. Additional tasks wait and start in the order in which they arrived. */
export type Limiter = <T>(task: () => Promise<T>) => Promise<T>

export function limiter(maxConcurrent: number): Limiter {
  let running = 0
  const waiting: (() => void)[] = []

  return async (task) => {
    if (running >= maxConcurrent) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await task()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }
}
