/**
 * A queue of keys to attend to. A key that is added twice is attended to once; one that is added while it is being
 * attended to comes again afterwards; no key runs twice at once. Passes run in a later microtask, so that all that one
 * event changes is seen together; now and then in a later turn of the event loop, which the rest of the host needs, too.
 */
import type { Clock } from '../../contracts/clock.js'

/** After so many passes the queue lets everybody else have a turn. */
const passesPerTurn = 100

export interface WorkQueue<K> {
  add(key: K): void
  /** Lets go of all that is queued or planned; nothing runs any more. */
  stop(): void
}

/**
 * `attend` looks at the key's present state and returns after how many ms it wants to look again, or `undefined` for
 * not before something happens. It must not throw.
 */
export function workQueue<K>(clock: Clock, attend: (key: K) => number | undefined): WorkQueue<K> {
  const queued = new Set<K>()
  const planned = new Map<K, { readonly due: number; readonly cancel: () => void }>()
  const settled = Promise.resolve()
  /** A run is under way or about to begin. */
  let scheduled = false
  let stopped = false
  let passes = 0

  function run(): void {
    // Keys added by a pass are taken in the same run: a Set yields what is added while it is read.
    for (const key of queued) {
      if (stopped) return
      if (passes === passesPerTurn) {
        passes = 0
        clock.after(0, run)
        return
      }
      passes++
      queued.delete(key)
      const again = attend(key)
      if (again !== undefined) addAfter(key, again)
    }
    scheduled = false
  }

  function add(key: K): void {
    if (stopped || queued.has(key)) return
    queued.add(key)
    if (scheduled) return
    scheduled = true
    void settled.then(run)
  }

  function addAfter(key: K, ms: number): void {
    const due = clock.elapsed() + ms
    const before = planned.get(key)
    if (before && before.due <= due) return
    before?.cancel()
    const cancel = clock.after(ms, () => {
      planned.delete(key)
      add(key)
    })
    planned.set(key, { due, cancel })
  }

  return {
    add,
    stop() {
      stopped = true
      queued.clear()
      for (const { cancel } of planned.values()) cancel()
      planned.clear()
    },
  }
}
