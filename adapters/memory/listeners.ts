/**
 * Who watches the memory backend, and the order in which they hear of things: one after another, never within the
 * call that caused it, as with a backend that speaks over a wire.
 */
import type { BackendListener } from '../../src/contracts/backend.js'

export interface Listeners {
  add(listener: BackendListener): () => void
  clear(): void
  /** The one that servers speak to: whoever came last, as a restarted host does. */
  current(): BackendListener | undefined
  /** Tells all who watch now, in a later job. */
  tell(news: (listener: BackendListener) => void): void
  /** Does something in a later job, after the news before it. */
  later(job: () => void): void
}

export function listenersOf(): Listeners {
  let watching: readonly { readonly listener: BackendListener }[] = []
  let jobs: (() => void)[] = []

  const later = (job: () => void) => {
    if (jobs.length === 0) {
      queueMicrotask(() => {
        const due = jobs
        jobs = []
        for (const next of due) next()
      })
    }
    jobs.push(job)
  }

  return {
    later,
    add(listener) {
      const entry = { listener }
      watching = [...watching, entry]
      return () => {
        watching = watching.filter((other) => other !== entry)
      }
    },
    clear() {
      watching = []
    },
    current() {
      return watching.at(-1)?.listener
    },
    tell(news) {
      for (const entry of watching) {
        later(() => {
          if (watching.includes(entry)) unharmed(() => news(entry.listener))
        })
      }
    },
  }
}

/** What a listener throws is its own loss: news are hints, and neither the servers nor other listeners come to harm. */
export function unharmed(speak: () => void): void {
  try {
    speak()
  } catch {
    // Nobody is there to be told: the call that caused the news has long returned.
  }
}
