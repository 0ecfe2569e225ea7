/** Callers that wait until a pod is deleted. Each one checks again when woken and when its timeout expires. */
import type { Clock } from '../../../src/contracts/clock.js'

export class DeletionWaiters {
  readonly #clock: Clock
  /** Wake-up functions by pod uid. */
  readonly #wakeUps = new Map<string, Set<() => void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves with true once the pod is deleted. Resolves with false after `ms`, or if woken while the pod still exists. */
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
