/** Limits how many tasks run at the same time. Additional tasks wait and start in the order in which they arrived. */
export type Limiter = <T>(task: () => Promise<T>) => Promise<T>

export function limiter(maxConcurrent: number): Limiter {
  const limited = fairLimiter(maxConcurrent)
  return (task) => limited(undefined, task)
}

/**
 * Like `Limiter`, for tasks of several groups: waiting groups take turns, and a group of which no task is running may always
 * start one, even beyond the limit. So a group whose tasks hang never holds up another group.
 */
export type FairLimiter<G> = <T>(group: G, task: () => Promise<T>) => Promise<T>

interface Group {
  running: number
  readonly waiting: (() => void)[]
}

export function fairLimiter<G>(maxConcurrent: number): FairLimiter<G> {
  const groups = new Map<G, Group>()
  /** Groups with waiting tasks. The first one is next. */
  const turns = new Set<Group>()
  let running = 0

  const start = (group: Group): void => {
    const next = group.waiting.shift()
    turns.delete(group)
    if (group.waiting.length > 0) turns.add(group)
    group.running++
    running++
    next?.()
  }

  const finished = (group: Group): void => {
    group.running--
    running--
    if (group.running === 0 && group.waiting.length > 0) start(group)
    for (const next of turns) {
      if (running >= maxConcurrent) return
      start(next)
    }
  }

  return async (key, task) => {
    const group = groups.get(key) ?? { running: 0, waiting: [] }
    groups.set(key, group)
    if (group.running === 0 || running < maxConcurrent) {
      group.running++
      running++
    } else {
      turns.add(group)
      await new Promise<void>((resolve) => group.waiting.push(resolve))
    }
    try {
      return await task()
    } finally {
      finished(group)
      if (group.running === 0 && groups.get(key) === group) groups.delete(key)
    }
  }
}
