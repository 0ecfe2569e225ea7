/**
 * Restores the spec of servers if someone edited it. A spec is the server's identity and never changes: with another uid, a match would
 * be another server. Every reader gets the original meanwhile.
 */
import { isDeepStrictEqual } from 'node:util'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import type { ObjectApi } from '../client/api.js'
import { type Fields, fieldsAt } from '../client/fields.js'
import { keyFor, type KubeObject, refOf, revisionOf } from '../client/kube-objects.js'
import type { CustomObjects } from './custom-objects.js'

interface KnownSpec {
  readonly objectUid: string | undefined
  spec: Fields
  /** Number of repairs. */
  repairs: number
  /** The object as last seen with another spec. */
  edited: KubeObject | undefined
  isRepairing: boolean
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }

export interface SpecRepairDependencies {
  readonly api: ObjectApi
  readonly objects: CustomObjects
  readonly logger: Logger
  /** Whether the fleet has made this token for this uid. */
  readonly isGenuine: (spec: Fields) => boolean
}

export class SpecRepair {
  readonly #deps: SpecRepairDependencies
  readonly #known = new Map<string, KnownSpec>()

  constructor(deps: SpecRepairDependencies) {
    this.#deps = deps
  }

  /**
   * Returns the object with the spec that it was first seen with. If it has another one, the first is restored in the background, unless it
   * had been edited before this host saw it and somebody has put it right.
   */
  withOriginalSpec(object: KubeObject): KubeObject {
    const key = keyFor(object)
    const { uid } = object.metadata
    const known = this.#known.get(key)
    if (known === undefined || known.objectUid !== uid) {
      const spec = fieldsAt(object, 'spec')
      this.#known.set(key, { objectUid: uid, spec, repairs: 0, edited: undefined, isRepairing: false })
      return object
    }
    const spec = fieldsAt(object, 'spec')
    const { isGenuine } = this.#deps
    if (isGenuine(spec) && !isGenuine(known.spec)) known.spec = spec
    const isOriginal = isDeepStrictEqual(spec, known.spec)
    known.edited = isOriginal ? undefined : object
    if (isOriginal) return object
    if (!known.isRepairing) void this.#repair(key, known)
    return { ...object, spec: known.spec }
  }

  forget(key: string): void {
    this.#known.delete(key)
  }

  forgetAll(): void {
    this.#known.clear()
  }

  /** Never rejects. Only the leader may write; another host leaves it to the leader. */
  async #repair(key: string, known: KnownSpec): Promise<void> {
    const { api, logger, objects } = this.#deps
    known.isRepairing = true
    for (let attempt = known.repairs; known.edited && this.#known.get(key) === known && !api.closed; attempt++) {
      // Back off if something keeps changing it.
      if (attempt > 0) await api.pause(pauseMs(attempt, retryLimits))
      const { edited } = known
      if (!edited) break
      try {
        await objects.patchSpec(refOf(edited), revisionOf(edited), known.spec, undefined)
        known.repairs++
        logger.warn({ server: key }, 'the spec of a GameServer was edited; restored')
        if (known.edited === edited) known.edited = undefined
      } catch (error) {
        // The watch reports what has been written meanwhile.
        if (FleetError.is(error, 'not-found') || FleetError.is(error, 'not-leader')) break
      }
    }
    known.isRepairing = false
  }
}
