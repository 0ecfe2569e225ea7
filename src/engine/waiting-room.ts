/**
 * Callers who wait for a server, per build, first come first served. They count as demand; whoever was told that the time
 * is up also does for a moment longer, since he was told to ask again: what was being started for him is to be his.
 */
import type { Clock } from '../clock.js'
import { FleetError } from '../errors.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import { type Link, LinkedSet, unlinked } from './linked-set.js'

export interface Waiter {
  /** Its place in the row. */
  readonly link: Link<Waiter>
  readonly turn: number
  /** The server is the caller's now. */
  take(entry: ServerEntry): void
  fail(error: unknown): void
}

/** Callers are told to come back in a second (`Retry-After`), and take a while to do so. */
const expectedForMs = 3_000

export interface WaitOptions {
  /** Grows with each caller who comes; who comes back has the one of before, and so its place in the row. */
  readonly turn: number
  readonly waitMs: number
  /** What to say when the time is up. */
  readonly timedOut: () => FleetError
  readonly signal?: AbortSignal | undefined
}

export interface WaitingRoom {
  /** Resolves with a server that `reserve` was called for, in the tick in which it became ready. */
  wait(build: BuildEntry, options: WaitOptions, reserve: (entry: ServerEntry) => void): Promise<ServerEntry>
  /** Gives a ready server to whoever waits longest. */
  serve(entry: ServerEntry): void
  waiting(build: BuildEntry): number
  /** Those who wait, and those who are expected back. */
  demand(build: BuildEntry): number
  readonly total: number
  /** Sends the callers of one build away, or all. */
  dismiss(error: FleetError, build?: BuildEntry): void
}

/** `changed` is called when the demand for a build has changed. Of each build at most `mostExpected` are expected back. */
export function waitingRoom(clock: Clock, mostExpected: number, changed: (build: BuildEntry) => void): WaitingRoom {
  const rooms = new Map<BuildEntry, LinkedSet<Waiter>>()
  /** Who is expected back, by how to stop expecting him. */
  const expected = new Map<BuildEntry, Set<() => void>>()
  let total = 0

  const waiting = (build: BuildEntry) => rooms.get(build)?.size ?? 0

  function leave(build: BuildEntry, waiter: Waiter): void {
    const room = rooms.get(build)
    if (!room?.delete(waiter)) return
    total--
    if (room.size === 0) rooms.delete(build)
  }

  function expect(build: BuildEntry): void {
    const there = expected.get(build) ?? new Set()
    if (there.size >= mostExpected) return
    const cancel = clock.after(expectedForMs, () => {
      dropOne(build, cancel)
      changed(build)
    })
    expected.set(build, there.add(cancel))
  }

  /** By default whoever was expected first: who comes back is as good as any other who comes. */
  function dropOne(build: BuildEntry, cancel = expected.get(build)?.values().next().value): void {
    const there = expected.get(build)
    if (!there || !cancel) return
    cancel()
    there.delete(cancel)
    if (there.size === 0) expected.delete(build)
  }

  return {
    wait(build, { turn, waitMs, timedOut, signal }, reserve) {
      return new Promise<ServerEntry>((resolve, reject) => {
        const done = () => {
          cancel()
          signal?.removeEventListener('abort', aborted)
          leave(build, waiter)
        }
        const waiter: Waiter = {
          link: unlinked(),
          turn,
          take(entry) {
            reserve(entry)
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
          expect(build)
          waiter.fail(timedOut())
        })
        signal?.addEventListener('abort', aborted, { once: true })
        const room = rooms.get(build) ?? new LinkedSet<Waiter>(({ link }) => link)
        enter(room, waiter)
        dropOne(build)
        rooms.set(build, room)
        total++
        changed(build)
      })
    },

    serve(entry) {
      rooms.get(entry.build)?.first?.take(entry)
    },

    waiting,
    demand: (build) => waiting(build) + (expected.get(build)?.size ?? 0),

    get total() {
      return total
    },

    dismiss(error, build) {
      const isMeant = (of: BuildEntry) => build === undefined || of === build
      for (const [of, room] of [...rooms]) if (isMeant(of)) for (const waiter of [...room]) waiter.fail(error)
      for (const of of [...expected.keys()]) if (isMeant(of)) while (expected.has(of)) dropOne(of)
    },
  }
}

function enter(room: LinkedSet<Waiter>, waiter: Waiter): void {
  if (room.last && room.last.turn > waiter.turn) {
    for (const other of room) if (other.turn > waiter.turn) return room.addBefore(other, waiter)
  }
  room.add(waiter)
}
