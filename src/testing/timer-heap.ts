/** A priority queue of timers: earliest first, and in the order in which they were set if they are due at the same time. */

export interface Timer {
  /** When the timer was set and when it is due, on the clock's `elapsed` scale. */
  readonly setMs: number
  readonly dueMs: number
  readonly order: number
  /** Undefined once the timer is cancelled. The heap drops a cancelled timer when it reaches the top. */
  fn: (() => void) | undefined
}

/** Uses a binary heap, since thousands of servers have thousands of timers. */
export class TimerHeap {
  readonly #timers: Timer[] = []

  push(timer: Timer): void {
    const timers = this.#timers
    let at = timers.length
    timers.push(timer)
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = timers[parentAt]
      if (!parent || isBefore(parent, timer)) break
      timers[at] = parent
      at = parentAt
    }
    timers[at] = timer
  }

  /** Returns the earliest timer that was not cancelled. */
  peek(): Timer | undefined {
    while (this.#timers[0] && !this.#timers[0].fn) this.pop()
    return this.#timers[0]
  }

  pop(): void {
    const timers = this.#timers
    const last = timers.pop()
    if (!last || timers.length === 0) return
    let at = 0
    for (;;) {
      const left = timers[2 * at + 1]
      const right = timers[2 * at + 2]
      const childAt = left && right && isBefore(right, left) ? 2 * at + 2 : 2 * at + 1
      const child = timers[childAt]
      if (!child || isBefore(last, child)) break
      timers[at] = child
      at = childAt
    }
    timers[at] = last
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order)
}
