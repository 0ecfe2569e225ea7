/**
 * The condition `Ready` of GameServerBuilds, for `kubectl wait`. The fleet writes it for people and never acts on it: it remembers only since
 * when it has been so.
 */
import { isDeepStrictEqual } from 'node:util'
import type { DisplayedReadiness } from '../../../src/contracts/store.js'
import { type BuildSpec, keyOf } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { fieldsAt, rfc3339, textAt } from '../client/fields.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'
import { isNewer } from './known-builds.js'

export interface ReadyCondition {
  readonly type: 'Ready'
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
  readonly lastTransitionTime: string
  /** The generation of the spec that the condition is about. `kubectl wait` waits for the latest one. Absent until it is known. */
  readonly observedGeneration?: number
}

interface Seen {
  readonly revision: string
  readonly generation: number | undefined
  readonly status: string | undefined
  readonly since: string | undefined
  readonly observedGeneration: number | undefined
}

export class ReadyConditions {
  /** The latest state of each build. */
  readonly #seen = new Map<string, Seen>()

  see(object: KubeObject): void {
    const { namespace, name, generation } = object.metadata
    if (namespace === undefined) return
    const key = keyOf({ namespace, name })
    const revision = revisionOf(object)
    const before = this.#seen.get(key)
    if (before && !isNewer(revision, before.revision)) return
    const conditions = fieldsAt(object, 'status')['conditions']
    const found: unknown = Array.isArray(conditions) ? conditions.find((one) => isReady(one)) : undefined
    const ready = isObject(found) ? found : {}
    const observed = ready['observedGeneration']
    this.#seen.set(key, {
      revision,
      generation,
      status: textAt(ready, 'status'),
      since: textAt(ready, 'lastTransitionTime'),
      observedGeneration: typeof observed === 'number' ? observed : undefined,
    })
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }

  forgetAll(): void {
    this.#seen.clear()
  }

  /** The condition to write to a build with the spec `current`. */
  conditionOf(
    key: string,
    { ready, reason, message, spec }: DisplayedReadiness,
    current: BuildSpec,
    now: number,
  ): ReadyCondition {
    const seen = this.#seen.get(key)
    const status = ready ? 'True' : 'False'
    const observedGeneration = isDeepStrictEqual(spec, current) ? seen?.generation : seen?.observedGeneration
    return {
      type: 'Ready',
      status,
      reason,
      message,
      lastTransitionTime: (seen?.status === status ? seen.since : undefined) ?? rfc3339(now),
      ...(observedGeneration !== undefined && { observedGeneration }),
    }
  }
}

function isReady(condition: unknown): boolean {
  return isObject(condition) && condition['type'] === 'Ready'
}
