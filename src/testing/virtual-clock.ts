/**
 * A Clock for tests: time stands still until the test moves it, and a seed decides what is drawn. Give the same one to
 * `createFleet` and to `memoryBackend`, and an hour of a fleet passes in milliseconds, the same way each time.
 *
 * Between any two timers it lets all promises settle, so code that awaits sees a consistent world. It cannot know of real
 * I/O: work that waits for a socket or a disk is not waited for.
 */
import { AssertionError } from 'node:assert'
import type { Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import { seededRandom } from './random.js'
import { type Timer, TimerHeap } from './timer-heap.js'

export interface VirtualClockOptions {
  /** Wall time at the start, in ms since 1970. Default: 2025-01-01T00:00:00Z. */
  readonly now?: number
  /** Decides what `randomBytes` draws. Default 1. */
  readonly seed?: number
}

export interface VirtualClock extends Clock {
  /** Timers set and neither fired nor cancelled. */
  readonly pending: number
  /**
   * Lets `ms` pass: fires what comes due in the order of time, also timers set meanwhile, with all promises settled
   * before and after each. Calls at the same time run one after another. Rejects with what a timer threw.
   */
  advance(ms: number): Promise<void>
  /** Lets everything happen that needs no time: promises, immediates, timers due now. */
  settle(): Promise<void>
  /** Goes from timer to timer until the condition holds; rejects when `limitMs` (default 60 s) have passed without. */
  until(condition: () => boolean | Promise<boolean>, limitMs?: number): Promise<void>
  /** Moves the wall time alone, as when an operator sets the clock. No timer notices. */
  jumpWall(ms: number): void
  /** As when the machine sleeps: `ms` pass at once, and timers that came due meanwhile fire late, after it woke up. */
  suspend(ms: number): Promise<void>
}

/** setTimeout fires at once beyond it, so a clock that took more would hide a bug. */
const longestTimerMs = 2 ** 31 - 1

/** More timers than this that set each other without any wait do so without end. */
const mostWithoutWait = 100_000

export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  const startedAt = options.now ?? Date.UTC(2025, 0, 1)
  const random = seededRandom(options.seed ?? 1)
  const timers = new TimerHeap()
  let elapsedMs = 0
  let wallJumpMs = 0
  let order = 0
  let pending = 0
  /** The call under way: a next one waits for it, so that time never runs twice at once. */
  let running: Promise<unknown> = Promise.resolve()

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = running.then(work)
    // The caller has `result` and its rejection; the next in turn only waits for the end.
    running = result.catch(() => {})
    return result
  }

  const fire = (timer: Timer): void => {
    const { fn } = timer
    timers.pop()
    timer.fn = undefined
    pending--
    fn?.()
  }

  const runUntil = async (targetMs: number): Promise<void> => {
    let withoutWait = 0
    await allPromises()
    for (let timer = timers.peek(); timer && timer.dueMs <= targetMs; timer = timers.peek()) {
      withoutWait = timer.dueMs > timer.setMs ? 0 : withoutWait + 1
      if (withoutWait > mostWithoutWait) {
        throw new FleetError('internal', `${mostWithoutWait} timers set each other without any wait between`)
      }
      elapsedMs = Math.max(elapsedMs, timer.dueMs)
      fire(timer)
      await allPromises()
    }
    elapsedMs = Math.max(elapsedMs, targetMs)
  }

  const runUntilTrue = async (condition: () => boolean | Promise<boolean>, limitMs: number): Promise<void> => {
    const endMs = elapsedMs + limitMs
    await runUntil(elapsedMs)
    while (!(await condition())) {
      const next = timers.peek()
      if (!next || next.dueMs > endMs) {
        const why = next ? `not within ${limitMs} ms` : `nor can it, with no timer left`
        throw new AssertionError({ message: `the condition did not come true, ${why}`, stackStartFn: runUntilTrue })
      }
      await runUntil(Math.max(elapsedMs, next.dueMs))
    }
  }

  return {
    now: () => startedAt + wallJumpMs + elapsedMs,
    elapsed: () => elapsedMs,
    get pending() {
      return pending
    },
    after(ms, fn) {
      if (!(ms <= longestTimerMs)) {
        throw new FleetError('invalid', `a timer can wait 0 to ${longestTimerMs} ms, but ${ms} were asked for`)
      }
      const timer: Timer = { setMs: elapsedMs, dueMs: elapsedMs + Math.max(0, ms), order: order++, fn }
      timers.push(timer)
      pending++
      return () => {
        if (!timer.fn) return
        timer.fn = undefined
        pending--
      }
    },
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
    advance: (ms) => inTurn(() => runUntil(elapsedMs + duration(ms))),
    settle: () => inTurn(() => runUntil(elapsedMs)),
    until: (condition, limitMs = 60_000) => inTurn(() => runUntilTrue(condition, limitMs)),
    jumpWall(ms) {
      wallJumpMs += ms
    },
    suspend: (ms) =>
      inTurn(() => {
        elapsedMs += duration(ms)
        return runUntil(elapsedMs)
      }),
  }
}

function duration(ms: number): number {
  if (ms >= 0 && ms < Infinity) return ms
  throw new FleetError('invalid', `time can only pass forward, but ${ms} ms were asked for`)
}

/** Taken now, so that a test runner's fake timers do not stop this clock. */
const turn = setImmediate
const mostTurns = 1_000
/** Turns that virtual clocks wait for: one clock's waiting must not keep another one waiting. */
let turnsAwaited = 0

/** A turn of the event loop runs every promise job there is; more turns follow while others' immediates wait. */
async function allPromises(): Promise<void> {
  for (let turns = 0; turns < mostTurns; turns++) {
    turnsAwaited++
    await new Promise<void>((resolve) => turn(resolve))
    turnsAwaited--
    const immediates = process.getActiveResourcesInfo().filter((resource) => resource === 'Immediate').length
    if (immediates <= turnsAwaited) return
  }
}
