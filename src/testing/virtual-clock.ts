/**
 * A Clock for tests: time passes only when the test advances the clock, and random bytes come from a seed. Pass the same clock
 * to `createFleet` and `memoryBackend` to simulate an hour in milliseconds, reproducibly.
 *
 * All pending promise jobs run between two timers. The clock does not wait for real I/O.
 */
import { AssertionError } from 'node:assert'
import { backgroundClock, type Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'

export interface VirtualClockOptions {
  /** Initial wall-clock time, in ms since 1970. Default: 2025-01-01T00:00:00Z. */
  readonly now?: number
  /** Seed for `randomBytes`. Default 1. */
  readonly seed?: number
}

export interface VirtualClock extends Clock {
  /** Number of timers that have neither fired nor been cancelled. */
  readonly pending: number
  /**
   * Advances the clock by `ms` and fires all timers that become due, including timers set meanwhile. Pending promise jobs run
   * before and after each timer. Concurrent calls run one after another. If a timer throws, rejects with its error.
   */
  advance(ms: number): Promise<void>
  /** Runs everything that is due without advancing the clock: promise jobs, immediates and timers that are due now. */
  settle(): Promise<void>
  /** Advances the clock from timer to timer until the condition holds. Rejects after `limitMs` of clock time (default 60 s). */
  until(condition: () => boolean | Promise<boolean>, limitMs?: number): Promise<void>
  /**
   * Advances the clock from timer to timer until the promise settles, and settles as it does: for a call that waits, such as
   * `await clock.run(fleet.allocate(request, { waitMs: 10_000 }))`. The promise must not wait for another call that advances this clock.
   * Rejects after `limitMs` of clock time (default one hour), or if no timer is left.
   */
  run<T>(promise: PromiseLike<T>, limitMs?: number): Promise<T>
  /** Changes only the wall-clock time, as when an operator sets the clock. Timers are not affected. */
  jumpWall(ms: number): void
  /** Simulates a machine that sleeps for `ms`: timers that become due meanwhile fire after it wakes up. */
  suspend(ms: number): Promise<void>
}

/** In real time: less than test runners give a test by default. */
const stillMs = 4_000

/** The maximum delay. For a longer one, `setTimeout` would fire immediately, so this clock rejects it. */
const maxTimerMs = 2 ** 31 - 1

/** If more timers than this fire without time passing, they set each other in an endless loop. */
const maxWithoutDelay = 100_000

export function virtualClock(options: VirtualClockOptions = {}): VirtualClock {
  const startedAt = options.now ?? Date.UTC(2025, 0, 1)
  const random = seededRandom(options.seed ?? 1)
  const time = new VirtualTime()
  let wallJumpMs = 0
  return {
    now: () => startedAt + wallJumpMs + time.elapsedMs,
    elapsed: () => time.elapsedMs,
    get pending() {
      return time.pending
    },
    after: (ms, fn) => time.after(ms, fn),
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
    advance: (ms) => time.inTurn(() => time.runUntil(time.elapsedMs + duration(ms))),
    settle: () => time.inTurn(() => time.runUntil(time.elapsedMs)),
    until: (condition, limitMs = 60_000) => time.inTurn(() => time.runUntilTrue(condition, limitMs)),
    async run(promise, limitMs = 3_600_000) {
      let isSettled = false
      const settled = () => void (isSettled = true)
      promise.then(settled, settled)
      await time.inTurn(() => time.runUntilTrue(() => isSettled, limitMs, 'the promise has not settled'))
      return promise
    },
    jumpWall(ms) {
      wallJumpMs += ms
    },
    suspend: (ms) =>
      time.inTurn(() => {
        time.elapsedMs += duration(ms)
        return time.runUntil(time.elapsedMs)
      }),
  }
}

let hasWarned = false

/** The elapsed time and the timers that depend on it. */
class VirtualTime {
  elapsedMs = 0
  pending = 0
  readonly #timers = new TimerHeap()
  #order = 0
  /** Settles when the current call ends. The next call waits for it, since only one call at a time may advance the clock. */
  #running: Promise<unknown> = Promise.resolve()
  #isMoving = false
  /** Cancels the warning, which comes if timers wait and the clock stays where it is. */
  #cancelWarning: (() => void) | undefined

  after(ms: number, fn: () => void): () => void {
    if (!(ms <= maxTimerMs)) throw new FleetError('invalid', `a timer must be at most ${maxTimerMs} ms, got ${ms}`)
    const { elapsedMs } = this
    const timer: Timer = { setMs: elapsedMs, dueMs: elapsedMs + Math.max(0, ms), order: this.#order++, fn }
    this.#timers.push(timer)
    this.pending++
    if (!this.#isMoving && ms > 0) this.#cancelWarning ??= backgroundClock.after(stillMs, () => this.#warn())
    return () => {
      if (!timer.fn) return
      timer.fn = undefined
      this.pending--
    }
  }

  inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#isMoving = true
    this.#cancelWarning?.()
    this.#cancelWarning = undefined
    const mine = this.#running.then(work)
    const result = mine.finally(() => void (this.#last === result && (this.#isMoving = false)))
    this.#last = result
    // The caller handles a rejection of `result`. The next call only waits until `result` settles.
    this.#running = result.catch(() => {})
    return result
  }

  #last: Promise<unknown> | undefined

  /** Once in a process: the clock of a test that has ended stands still, too. */
  #warn(): void {
    if (hasWarned || this.pending === 0) return
    hasWarned = true
    process.emitWarning(
      `a virtual clock has stood still for ${stillMs / 1_000} s, and timers wait for it (${this.pending}): ` +
        'advance it, or await clock.run(promise) instead of the promise',
      { type: 'VirtualClockWarning' },
    )
  }

  async runUntil(targetMs: number): Promise<void> {
    const timers = this.#timers
    let withoutDelay = 0
    await allPromises()
    for (let timer = timers.peek(); timer && timer.dueMs <= targetMs; timer = timers.peek()) {
      withoutDelay = timer.dueMs > timer.setMs ? 0 : withoutDelay + 1
      if (withoutDelay > maxWithoutDelay) {
        throw new FleetError('internal', `endless loop: ${maxWithoutDelay} timers set each other without a delay`)
      }
      this.elapsedMs = Math.max(this.elapsedMs, timer.dueMs)
      this.#fire(timer)
      await allPromises()
    }
    this.elapsedMs = Math.max(this.elapsedMs, targetMs)
  }

  async runUntilTrue(
    condition: () => boolean | Promise<boolean>,
    limitMs: number,
    failure = 'the condition did not hold',
  ): Promise<void> {
    const endMs = this.elapsedMs + limitMs
    await this.runUntil(this.elapsedMs)
    while (!(await condition())) {
      const next = this.#timers.peek()
      if (!next || next.dueMs > endMs) {
        const why = next ? `not within ${limitMs} ms` : `and no timer is left`
        throw new AssertionError({ message: `${failure}, ${why}` })
      }
      await this.runUntil(Math.max(this.elapsedMs, next.dueMs))
    }
  }

  #fire(timer: Timer): void {
    const { fn } = timer
    this.#timers.pop()
    timer.fn = undefined
    this.pending--
    fn?.()
  }
}

function duration(ms: number): number {
  if (ms >= 0 && ms < Infinity) return ms
  throw new FleetError('invalid', `time can only advance, got ${ms} ms`)
}

/** Captured when the module loads, so that a test runner's fake timers do not affect this clock. */
const turn = setImmediate
const maxTurns = 1_000
/** Number of event loop turns that virtual clocks are waiting for. Tracked so that clocks do not wait for each other. */
let turnsAwaited = 0

/** Waits until all promise jobs have run, and all immediates except those set by virtual clocks. */
async function allPromises(): Promise<void> {
  for (let turns = 0; turns < maxTurns; turns++) {
    turnsAwaited++
    await new Promise<void>((resolve) => turn(resolve))
    turnsAwaited--
    const immediates = process.getActiveResourcesInfo().filter((resource) => resource === 'Immediate').length
    if (immediates <= turnsAwaited) return
  }
}

// A priority queue of timers: earliest first, and in the order in which they were set if they are due at the same time.

interface Timer {
  /** When the timer was set and when it is due, on the clock's `elapsed` scale. */
  readonly setMs: number
  readonly dueMs: number
  readonly order: number
  /** Undefined once the timer is cancelled. The heap drops a cancelled timer when it reaches the top. */
  fn: (() => void) | undefined
}

/** Uses a binary heap, since thousands of servers have thousands of timers. */
export class TimerHeap {
  readonly #timers: Timer[] = []

  push(timer: Timer): void {
    const timers = this.#timers
    let at = timers.length
    timers.push(timer)
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = timers[parentAt]
      if (!parent || isBefore(parent, timer)) break
      timers[at] = parent
      at = parentAt
    }
    timers[at] = timer
  }

  /** Returns the earliest timer that was not cancelled. */
  peek(): Timer | undefined {
    while (this.#timers[0] && !this.#timers[0].fn) this.pop()
    return this.#timers[0]
  }

  pop(): void {
    const timers = this.#timers
    const last = timers.pop()
    if (!last || timers.length === 0) return
    let at = 0
    for (;;) {
      const left = timers[2 * at + 1]
      const right = timers[2 * at + 2]
      const childAt = left && right && isBefore(right, left) ? 2 * at + 2 : 2 * at + 1
      const child = timers[childAt]
      if (!child || isBefore(last, child)) break
      timers[at] = child
      at = childAt
    }
    timers[at] = last
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order)
}

/** The mulberry32 generator: uniform numbers from 0 (inclusive) to 1 (exclusive). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
