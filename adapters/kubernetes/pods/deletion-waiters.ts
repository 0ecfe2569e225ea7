/** Callers that wait for a pod to be gone. Each checks when woken, and when its time is up. */
import type { Clock } from '../../../src/contracts/clock.js'

export class DeletionWaiters {
  readonly #clock: Clock
  /** By the pod's uid. */
  readonly #wakeUps = new Map<string, Set<() => void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves with true once it is gone; with false after `ms`, or when woken before it is gone. */
  until(uid: string, isGone: () => boolean, ms: number): Promise<boolean> {
    if (isGone()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const wakeUps = this.#wakeUps.get(uid) ?? new Set()
      this.#wakeUps.set(uid, wakeUps)
      const wakeUp = () => {
        cancel()
        wakeUps.delete(wakeUp)
        if (wakeUps.size === 0) this.#wakeUps.delete(uid)
        resolve(isGone())
      }
      const cancel = this.#clock.after(ms, wakeUp)
      wakeUps.add(wakeUp)
    })
  }

  wake(uid: string): void {
    for (const wakeUp of [...(this.#wakeUps.get(uid) ?? [])]) wakeUp()
  }

  wakeAll(): void {
    for (const uid of [...this.#wakeUps.keys()]) this.wake(uid)
  }
}
