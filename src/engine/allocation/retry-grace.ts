/**
 * Callers who were told to ask again, and will: for a moment they still count as demand, so that the server that is being
 * started for each is there when he comes back.
 */
import type { Clock } from '../../contracts/clock.js'
import type { BuildEntry } from '../state/entries.js'

/** `Retry-After` is a second, and it takes a while to come back. */
export const retryGraceMs = 3_000

/** By the keys of their sessions. */
export interface RetryGrace {
  /** For 3 s. Nobody is added where there are as many already as may wait. */
  add(build: BuildEntry, session: string): void
  /** He is back, or has got his server. */
  remove(build: BuildEntry, session: string): void
  /** Of one build, or of all. */
  clear(build?: BuildEntry): void
  count(build: BuildEntry): number
}

/** `gone` is called when somebody did not come back in time. */
export function retryGrace(clock: Clock, most: number, gone: (build: BuildEntry) => void): RetryGrace {
  /** How to stop expecting each. */
  const builds = new Map<BuildEntry, Map<string, () => void>>()
  let total = 0

  function remove(build: BuildEntry, session: string): void {
    const callers = builds.get(build)
    const cancel = callers?.get(session)
    if (!callers || !cancel) return
    cancel()
    callers.delete(session)
    total--
    if (callers.size === 0) builds.delete(build)
  }

  return {
    add(build, session) {
      remove(build, session)
      if (total >= most) return
      const cancel = clock.after(retryGraceMs, () => {
        remove(build, session)
        gone(build)
      })
      const callers = builds.get(build) ?? new Map<string, () => void>()
      builds.set(build, callers.set(session, cancel))
      total++
    },
    remove,
    clear(build) {
      for (const [of, callers] of [...builds]) {
        if (build === undefined || of === build) for (const session of [...callers.keys()]) remove(of, session)
      }
    },
    count: (build) => builds.get(build)?.size ?? 0,
  }
}
