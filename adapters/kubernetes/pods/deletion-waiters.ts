/** Those who wait for something to be gone: each looks when it is woken, and when its time is over. */
import type { Clock } from '../../../src/contracts/clock.js'

export class DeletionWaiters {
  readonly #clock: Clock
  /** By the uid of what they wait for. */
  readonly #wakes = new Map<string, Set<() => void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** True once it is gone; false when `ms` have passed, or somebody has woken the waiter, before. */
  until(uid: string, isGone: () => boolean, ms: number): Promise<boolean> {
    if (isGone()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const wakes = this.#wakes.get(uid) ?? new Set()
      this.#wakes.set(uid, wakes)
      const wake = () => {
        cancel()
        wakes.delete(wake)
        if (wakes.size === 0) this.#wakes.delete(uid)
        resolve(isGone())
      }
      const cancel = this.#clock.after(ms, wake)
      wakes.add(wake)
    })
  }

  wake(uid: string): void {
    for (const wake of [...(this.#wakes.get(uid) ?? [])]) wake()
  }

  wakeAll(): void {
    for (const uid of [...this.#wakes.keys()]) this.wake(uid)
  }
}
