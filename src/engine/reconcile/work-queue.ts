/**
 * A queue of keys to reconcile. A key that is added twice runs once; one that is added while it runs runs again
 * afterwards; no key runs twice at once. Runs start in a later microtask, so that they see everything that one event
 * changes; every hundredth run yields to the event loop, which the rest of the host needs too.
 */
import type { Clock } from '../../contracts/clock.js'

const runsPerTurn = 100

interface ScheduledRun {
  readonly due: number
  readonly cancel: () => void
}

export class WorkQueue<K> {
  readonly #clock: Clock
  readonly #reconcile: (key: K) => number | undefined
  readonly #queued = new Set<K>()
  readonly #scheduled = new Map<K, ScheduledRun>()
  readonly #resolved = Promise.resolve()
  /** The queue is being drained or is about to be. */
  #isRunning = false
  #isStopped = false
  #runs = 0

  /**
   * `reconcile` reads the present state of the key and returns in how many ms to run again, or undefined to run only when
   * the key is added. It must not throw.
   */
  constructor(clock: Clock, reconcile: (key: K) => number | undefined) {
    this.#clock = clock
    this.#reconcile = reconcile
  }

  add(key: K): void {
    if (this.#isStopped || this.#queued.has(key)) return
    this.#queued.add(key)
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#resolved.then(this.#run)
  }

  /** Drops what is queued or scheduled; nothing runs any more. */
  stop(): void {
    this.#isStopped = true
    this.#queued.clear()
    for (const { cancel } of this.#scheduled.values()) cancel()
    this.#scheduled.clear()
  }

  readonly #run = (): void => {
    // Keys added by a run are taken in the same loop: a Set yields what is added during iteration.
    for (const key of this.#queued) {
      if (this.#isStopped) return
      if (this.#runs === runsPerTurn) {
        this.#runs = 0
        this.#clock.after(0, this.#run)
        return
      }
      this.#runs++
      this.#queued.delete(key)
      const againMs = this.#reconcile(key)
      if (againMs !== undefined) this.#addAfter(key, againMs)
    }
    this.#isRunning = false
  }

  #addAfter(key: K, ms: number): void {
    const due = this.#clock.elapsed() + ms
    const before = this.#scheduled.get(key)
    if (before && before.due <= due) return
    before?.cancel()
    const cancel = this.#clock.after(ms, () => {
      this.#scheduled.delete(key)
      this.add(key)
    })
    this.#scheduled.set(key, { due, cancel })
  }
}
