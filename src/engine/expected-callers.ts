/**
 * Callers who were told to ask again, and will: for a moment they still count as demand, so that the server that is being
 * started for each is there when he comes back.
 */
import type { Clock } from '../clock.js'
import type { BuildEntry } from './entries.js'

/** `Retry-After` is a second, and it takes a while to come back. */
const longestMs = 3_000

export interface ExpectedCallers {
  /** For so long, at most 3 s. Nobody is added where there are as many already as may wait. */
  add(build: BuildEntry, sessionID: string, ms: number): void
  /** He is back, or has got his server. */
  remove(build: BuildEntry, sessionID: string): void
  /** Of one build, or of all. */
  clear(build?: BuildEntry): void
  count(build: BuildEntry): number
}

/** `gone` is called when somebody did not come back in time. */
export function expectedCallers(clock: Clock, most: number, gone: (build: BuildEntry) => void): ExpectedCallers {
  /** By session: how to stop expecting him. */
  const builds = new Map<BuildEntry, Map<string, () => void>>()
  let total = 0

  function remove(build: BuildEntry, sessionID: string): void {
    const callers = builds.get(build)
    const cancel = callers?.get(sessionID)
    if (!callers || !cancel) return
    cancel()
    callers.delete(sessionID)
    total--
    if (callers.size === 0) builds.delete(build)
  }

  return {
    add(build, sessionID, ms) {
      remove(build, sessionID)
      if (total >= most) return
      const cancel = clock.after(Math.min(ms, longestMs), () => {
        remove(build, sessionID)
        gone(build)
      })
      const callers = builds.get(build) ?? new Map<string, () => void>()
      builds.set(build, callers.set(sessionID, cancel))
      total++
    },
    remove,
    clear(build) {
      for (const [of, callers] of [...builds]) {
        if (build === undefined || of === build) for (const sessionID of [...callers.keys()]) remove(of, sessionID)
      }
    },
    count: (build) => builds.get(build)?.size ?? 0,
  }
}
