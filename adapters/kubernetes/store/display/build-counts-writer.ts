/** Writes each build's latest counts at most once a second, and backs off after failures. */
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import type { DisplayedReadiness } from '../../../../src/contracts/store.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../../src/rules/model/wire.js'
import type { BuildCollection } from '../build-collection.js'
import type { BackgroundWork } from './background-work.js'

export interface BuildCountsWriterDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly builds: BuildCollection
  readonly work: BackgroundWork
}

const intervalMs = 1_000
const maxPauseMs = 30_000
/** A build that is still unknown after this many attempts is considered deleted. */
const maxAttemptsUnknown = 5

interface PendingCounts {
  readonly ref: Ref
  readonly status: GameServerBuild['status']
  readonly readiness: DisplayedReadiness
}

interface Failures {
  readonly inARow: number
  /** The build's revision at the time the last write ended in a conflict. */
  readonly conflictAt?: string | undefined
}

export class BuildCountsWriter {
  readonly #deps: BuildCountsWriterDependencies
  readonly #pending = new Map<string, PendingCounts>()
  /** Keys of builds whose counts are being written, or that are in the pause after a write. */
  readonly #busy = new Set<string>()
  readonly #failures = new Map<string, Failures>()
  readonly #timers = new Set<() => void>()

  constructor(deps: BuildCountsWriterDependencies) {
    this.#deps = deps
  }

  write(ref: Ref, status: GameServerBuild['status'], readiness: DisplayedReadiness): void {
    const key = keyOf(ref)
    this.#pending.set(key, { ref, status, readiness })
    if (!this.#busy.has(key)) this.#deps.work.run(this.#flush(key))
  }

  stop(): void {
    for (const cancel of this.#timers) cancel()
  }

  async #flush(key: string): Promise<void> {
    const { builds, work } = this.#deps
    const next = this.#pending.get(key)
    if (!next || work.closed) return
    this.#pending.delete(key)
    this.#busy.add(key)
    const { inARow = 0, conflictAt } = this.#failures.get(key) ?? {}
    const revision = builds.objectRevision(next.ref)
    // Until the watch reports the conflicting write, another attempt would only fail again.
    const outcome = revision === undefined || revision === conflictAt ? 'conflict' : await this.#put(next)
    if (outcome === 'done' || (revision === undefined && inARow >= maxAttemptsUnknown)) {
      this.#failures.delete(key)
    } else {
      this.#failures.set(key, { inARow: inARow + 1, ...(outcome === 'conflict' && { conflictAt: revision }) })
      if (!this.#pending.has(key)) this.#pending.set(key, next)
    }
    const pauseMs = this.#failures.has(key) ? Math.min(maxPauseMs, intervalMs * 2 ** Math.min(inARow, 10)) : intervalMs
    this.#after(pauseMs, () => {
      this.#busy.delete(key)
      if (this.#pending.has(key)) work.run(this.#flush(key))
    })
  }

  async #put({ ref, status, readiness }: PendingCounts): Promise<'done' | 'conflict' | 'failed'> {
    const { logger, builds, work } = this.#deps
    const { currentActive, currentStandingBy, currentPending, currentInitializing } = status
    const { currentStandingByReadyDesired, rollout } = status
    const counts = { currentActive, currentStandingBy, currentPending, currentInitializing }
    try {
      const all = { ...counts, currentStandingByReadyDesired, ...(rollout && { rollout }), readiness }
      return (await builds.writeCounts(ref, all)) ? 'done' : 'conflict'
    } catch (error) {
      // The new leader writes the counts itself.
      if (work.closed || FleetError.is(error, 'not-leader')) return 'done'
      logger.debug({ err: error, build: keyOf(ref) }, 'cannot write build counts; will retry')
      return 'failed'
    }
  }

  #after(ms: number, then: () => void): void {
    if (this.#deps.work.closed) return
    const cancel = this.#deps.clock.after(ms, () => {
      this.#timers.delete(cancel)
      then()
    })
    this.#timers.add(cancel)
  }
}
