/** The endings under way: one for each server, whoever asks for it, as fast as the one with the least patience wants it. */
import type { DestroyOptions } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import type { Creations } from './creations.js'
import { PodEnding } from './pod-ending.js'
import type { PodCache } from '../pods/pod-cache.js'

export interface EndingsDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly creations: Creations
  readonly clock: Clock
  /** Longest wait for a pod to be gone, beyond its grace period. */
  readonly limitMs: number
}

interface Underway {
  readonly ref: Ref
  readonly uid: string
  readonly ending: PodEnding
  readonly done: Promise<void>
}

export class Endings {
  readonly #parts: EndingsDependencies
  readonly #underway = new Map<string, Underway>()

  constructor(parts: EndingsDependencies) {
    this.#parts = parts
  }

  has(key: string): boolean {
    return this.#underway.has(key)
  }

  /** Resolves when there is none of that uid any more. */
  async end(ref: Ref, uid: string, { graceMs, signal }: DestroyOptions): Promise<void> {
    const { api, pods, clock, limitMs } = this.#parts
    const key = keyOf(ref)
    const same = this.#underway.get(key)
    if (same) {
      // One of another uid cannot be there as well.
      if (same.uid !== uid) return
      same.ending.shorten(graceMs, pods.find(ref))
      return unlessAborted(same.done, signal)
    }
    const ending = new PodEnding({ api, pods, clock, graceMs, limitMs })
    const done = this.#carryOut(ref, uid, ending)
    this.#underway.set(key, { ref, uid, ending, done })
    const over = () => void this.#underway.delete(key)
    done.then(over, over)
    await unlessAborted(done, signal)
  }

  /** This host is leaving: nobody waits any more for a pod that is deleted to be gone. */
  leave(): void {
    for (const { ending, ref } of this.#underway.values()) ending.leave(this.#parts.pods.find(ref))
  }

  /** Nor for the answer to a call that is under way. */
  cut(): void {
    for (const { ending } of this.#underway.values()) ending.cut()
  }

  /** Settles when all have that are under way now. */
  async allOver(): Promise<void> {
    await Promise.allSettled([...this.#underway.values()].map(({ done }) => done))
  }

  async #carryOut(ref: Ref, uid: string, ending: PodEnding): Promise<void> {
    const { pods, creations } = this.#parts
    await creations.over(keyOf(ref))
    creations.forgetRefused(ref, uid)
    // Also one that came to be without an answer, before anything was told of it.
    const seen = pods.find(ref) ?? (await pods.ask(ref, undefined))
    if (seen?.identity.uid === uid) await ending.run(seen)
  }
}
