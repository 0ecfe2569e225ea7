/** Callers who wait for a server, per build, first come first served. They count as demand; whoever is sent away is expected back. */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { RetryGrace } from './retry-grace.js'
import { type Link, LinkedSet, unlinked } from '../state/linked-set.js'

export interface Waiter {
  /** Its place in the row. */
  readonly link: Link<Waiter>
  readonly turn: number
  readonly session: string
  /** The server is the caller's now; undefined: he has one already. */
  take(entry: ServerEntry | undefined): void
  fail(error: unknown): void
}

export interface WaitOptions {
  /** The key of his session. */
  readonly session: string
  /** Grows with each caller who comes; who comes back has the one of before, and so its place in the row. */
  readonly turn: number
  readonly waitMs: number
  /** What to say when the time is up. */
  readonly timedOut: () => FleetError
  readonly signal?: AbortSignal | undefined
}

export interface WaitQueue {
  /**
   * Resolves with a server that `reserve` was called for, in the tick in which it became ready; or with undefined once the
   * session has one. A session waits once.
   */
  wait(build: BuildEntry, options: WaitOptions, reserve: (entry: ServerEntry) => void): Promise<ServerEntry | undefined>
  /** Gives a ready server to whoever waits longest. */
  serve(entry: ServerEntry): void
  /** The session of that key has a server: another host gave it that. Whoever waits for one waits no more. */
  served(session: string): void
  waiting(build: BuildEntry): number
  readonly total: number
  /** Sends the callers of one build away, or all. */
  dismiss(error: FleetError, build?: BuildEntry): void
}

/** `changed` is called when somebody has come or left. */
export function waitQueue(clock: Clock, expected: RetryGrace, changed: (build: BuildEntry) => void): WaitQueue {
  const rooms = new Map<BuildEntry, LinkedSet<Waiter>>()
  const bySession = new Map<string, Waiter>()

  function leave(build: BuildEntry, waiter: Waiter): void {
    const room = rooms.get(build)
    if (!room?.delete(waiter)) return
    bySession.delete(waiter.session)
    if (room.size === 0) rooms.delete(build)
  }

  return {
    wait(build, { session, turn, waitMs, timedOut, signal }, reserve) {
      return new Promise<ServerEntry | undefined>((resolve, reject) => {
        const done = () => {
          cancel()
          signal?.removeEventListener('abort', aborted)
          leave(build, waiter)
        }
        const waiter: Waiter = {
          link: unlinked(),
          session,
          turn,
          take(entry) {
            if (entry) reserve(entry)
            done()
            changed(build)
            resolve(entry)
          },
          fail(error) {
            done()
            // A turn later: another call for the same session may take its place, and wants the server it asked for.
            clock.after(0, () => changed(build))
            reject(error)
          },
        }
        const aborted = () =>
          waiter.fail(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
        const cancel = clock.after(waitMs, () => {
          expected.add(build, session)
          waiter.fail(timedOut())
        })
        signal?.addEventListener('abort', aborted, { once: true })
        const room = rooms.get(build) ?? new LinkedSet<Waiter>(({ link }) => link)
        enter(room, waiter)
        expected.remove(build, session)
        rooms.set(build, room)
        bySession.set(session, waiter)
        changed(build)
      })
    },

    serve(entry) {
      rooms.get(entry.build)?.first?.take(entry)
    },

    served(session) {
      bySession.get(session)?.take(undefined)
    },

    waiting: (build) => rooms.get(build)?.size ?? 0,

    get total() {
      return bySession.size
    },

    dismiss(error, build) {
      for (const [of, room] of [...rooms]) {
        if (build === undefined || of === build) for (const waiter of [...room]) waiter.fail(error)
      }
      expected.clear(build)
    },
  }
}

function enter(room: LinkedSet<Waiter>, waiter: Waiter): void {
  if (room.last && room.last.turn > waiter.turn) {
    for (const other of room) if (other.turn > waiter.turn) return room.addBefore(other, waiter)
  }
  room.add(waiter)
}
