/**
 * A queue of keys to reconcile. A key that is added twice is reconciled once; a key that is added during its own reconcile
 * is reconciled again afterwards. Reconciles start in a later microtask, so that they see all changes caused by one event.
 * After every hundred reconciles the queue yields to the event loop, so that the rest of the host can run.
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
  /** True while a run is in progress or scheduled. */
  #isRunning = false
  #isStopped = false
  #runs = 0

  /**
   * `reconcile` returns the time in ms after which to reconcile the key again, or undefined to wait until it is added. It must
   * not throw.
   */
  constructor(clock: Clock, reconcile: (key: K) => number | undefined) {
    this.#clock = clock
    this.#reconcile = reconcile
  }

  add(key: K): void {
    if (this.#isStopped) return
    this.#queued.add(key)
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#resolved.then(this.#run)
  }

  /** Drops everything that is queued or scheduled. */
  stop(): void {
    this.#isStopped = true
    this.#queued.clear()
    for (const { cancel } of this.#scheduled.values()) cancel()
    this.#scheduled.clear()
  }

  readonly #run = (): void => {
    // Includes keys that are added during the loop, because a Set also iterates over members added during the iteration.
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
