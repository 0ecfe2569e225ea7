/** Removes finished GameServerAllocations some time after they finished, and earlier if a namespace has too many. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { AllocationObject, FinishedState } from './allocation-object.js'

export interface FinishedAllocationsDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** Deletes the object if it is still at this revision. */
  readonly remove: (object: AllocationObject) => Promise<void>
}

type Finished = AllocationObject & { readonly finished: FinishedState }

/** Maximum number of finished objects in each namespace. */
export const maxFinished = 1_000
const sweepMs = 2_000

export class FinishedAllocations {
  readonly #deps: FinishedAllocationsDependencies
  readonly #byUid = new Map<string, Finished>()
  #cancelSweep: (() => void) | undefined
  #isStopped = false

  constructor(deps: FinishedAllocationsDependencies) {
    this.#deps = deps
  }

  has(uid: string): boolean {
    return this.#byUid.has(uid)
  }

  add(object: Finished): void {
    this.#byUid.set(object.uid, object)
    this.#schedule()
  }

  forget(uid: string): void {
    this.#byUid.delete(uid)
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelSweep?.()
  }

  #schedule(): void {
    if (this.#isStopped || this.#byUid.size === 0) return
    this.#cancelSweep ??= this.#deps.clock.after(sweepMs, () => void this.#sweep())
  }

  /** Never rejects. What cannot be removed now is tried again at the next sweep. */
  async #sweep(): Promise<void> {
    const { clock, logger, remove } = this.#deps
    for (const object of expired([...this.#byUid.values()], clock.now())) {
      if (this.#isStopped) return
      try {
        await remove(object)
        this.#byUid.delete(object.uid)
      } catch (error) {
        // The watch reports what has changed, and another host removes it if this one no longer leads.
        if (FleetError.is(error, 'conflict') || FleetError.is(error, 'not-leader')) continue
        logger.debug({ err: error, ...object.ref }, 'cannot remove a finished GameServerAllocation; will retry')
      }
    }
    this.#cancelSweep = undefined
    this.#schedule()
  }
}

/** Those whose time is over, and the oldest ones of a namespace that has more than `most`. */
export function expired(all: readonly Finished[], now: number, most = maxFinished): readonly Finished[] {
  const kept = new Map<string, number>()
  const newestFirst = all.toSorted((a, b) => b.finished.at - a.finished.at)
  return newestFirst.filter(({ ref: { namespace }, finished }) => {
    if (finished.removeAt <= now) return true
    const count = (kept.get(namespace) ?? 0) + 1
    kept.set(namespace, count)
    return count > most
  })
}
