/**
 * The terminations in progress, one per server and shared by all callers. Each uses the shortest of its callers' grace
 * periods.
 */
import type { DestroyOptions } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { shown } from '../../src/rules/validation/problem.js'
import { unlessAborted } from '../../src/util/signals.js'
import { InFlight } from './in-flight.js'

export interface Termination {
  readonly uid: string
  /** Brings the end of the grace period forward; never postpones it. */
  shorten(graceMs: number): void
  /** Resolves once the instance no longer exists. */
  run(): Promise<void>
}

export class Terminations<T extends Termination> {
  readonly #inFlight = new InFlight<T, void>()

  has(key: string): boolean {
    return this.#inFlight.has(key)
  }

  get(key: string): T | undefined {
    return this.#inFlight.get(key)?.operation
  }

  inProgress(): readonly T[] {
    return this.#inFlight.operations()
  }

  /**
   * Runs the termination that `begin` returns, or joins the one in progress. Resolves once no instance with this uid exists.
   */
  async terminate(ref: Ref, uid: string, { graceMs, signal }: DestroyOptions, begin: () => T): Promise<void> {
    const key = keyOf(ref)
    const running = this.#inFlight.get(key)
    if (!running) {
      const termination = begin()
      return unlessAborted(
        this.#inFlight.start(key, termination, () => termination.run()),
        signal,
      )
    }
    // Names are unique: while one uid is being terminated, no instance of the server with another uid exists.
    if (running.operation.uid !== uid) return undefined
    running.operation.shorten(graceMs)
    return unlessAborted(running.done, signal)
  }

  allSettled(): Promise<void> {
    return this.#inFlight.allSettled()
  }
}

/** Throws `invalid` unless the grace period is a number ≥ 0. */
export function checkGraceMs(graceMs: number): void {
  if (!(graceMs >= 0)) throw new FleetError('invalid', `graceMs must be a number ≥ 0, but is ${shown(graceMs)}`)
}
