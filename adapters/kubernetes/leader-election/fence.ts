/**
 * Whether this host may change what is the fleet's, told by the clock and asked for just before a call is sent. A process that
 * was suspended reads its answers before its timers fire: none of them can be relied on to have stopped it.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'

/** By both clocks: that of a machine that sleeps stands still on some systems, and that on the wall may be put back. */
export interface Moment {
  readonly elapsed: number
  readonly now: number
}

export class Fence {
  readonly #clock: Clock
  /** Undefined: nobody has asked for a lease, and whoever decides who leads does so elsewhere. */
  #end: Moment | undefined
  #onPassed = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  moment(): Moment {
    return { elapsed: this.#clock.elapsed(), now: this.#clock.now() }
  }

  /** How much is left of `ms` that began then. */
  leftMs(begun: Moment, ms: number): number {
    const { elapsed, now } = this.moment()
    return ms - Math.max(elapsed - begun.elapsed, now - begun.now)
  }

  /** `passed` is called by the call that comes too late. */
  open(begun: Moment, ms: number, passed: () => void): void {
    this.#end = { elapsed: begun.elapsed + ms, now: begun.now + ms }
    this.#onPassed = passed
  }

  shut(): void {
    this.#end = { elapsed: -Infinity, now: -Infinity }
    this.#onPassed = () => {}
  }

  /** Why this host may change nothing now; undefined when it may. */
  refusal(): FleetError | undefined {
    if (!this.#end) return undefined
    if (this.#clock.elapsed() < this.#end.elapsed && this.#clock.now() < this.#end.now) return undefined
    const passed = this.#onPassed
    this.shut()
    passed()
    return new FleetError('not-leader', 'this host does not lead the fleet: its lease has run out')
  }
}
