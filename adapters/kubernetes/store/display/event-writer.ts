/** Creates Kubernetes Events at a limited rate; without the limit, a failing build would flood the cluster with them. */
import type { Clock } from '../../../../src/contracts/clock.js'
import { keyOf } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../client/api.js'
import { rfc3339 } from '../../client/fields.js'
import { kubeEvents, pathOf } from '../../client/kube-objects.js'
import type { BackgroundWork } from './background-work.js'
import type { KubeEvent } from './kube-event.js'

export interface EventWriterDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly work: BackgroundWork
}

const limits = { burst: 50, perSecond: 5 }
/** For each object, so that one failing build leaves room for Events about others. */
const objectLimits = { burst: 20, perSecond: 1 }
/** For what happens in every healthy fleet. Such Events have a limit of their own, and leave the ones above to failures. */
const routineLimits = { burst: 20, perSecond: 1 }
/** For each build, failures of the same kind are reported at most once in this time. */
const repetitionMs = 60_000
const repeatedReasons: ReadonlySet<string> = new Set(['ServerStartFailed', 'ServerLate', 'ReconcileFailed'])

export class EventWriter {
  readonly #deps: EventWriterDependencies
  /** Elapsed ms of the last event for each combination of build and kind of failure. */
  readonly #lastFailures = new Map<string, number>()
  readonly #all: TokenBucket
  readonly #routine: TokenBucket
  readonly #byObject = new Map<string, TokenBucket>()
  #count = 0

  constructor(deps: EventWriterDependencies) {
    this.#deps = deps
    const now = deps.clock.elapsed()
    this.#all = new TokenBucket(limits, now)
    this.#routine = new TokenBucket(routineLimits, now)
  }

  /** `isRoutine`: it tells what happens in every healthy fleet. */
  write(event: KubeEvent, isRoutine = false): void {
    const { work, clock } = this.#deps
    if (work.closed || this.#isRepetition(event)) return
    const now = clock.elapsed()
    const hasRoom = isRoutine ? this.#routine.take(now) : this.#takeFromBoth(event, now)
    if (hasRoom) work.run(this.#create(event))
  }

  /** Asks for the limit of all first: buckets of objects are then as few as the Events that were written lately. */
  #takeFromBoth(event: KubeEvent, now: number): boolean {
    return this.#all.has(now) && this.#ofObject(event, now).take(now) && this.#all.take(now)
  }

  #ofObject({ object: { kind, namespace, name } }: KubeEvent, now: number): TokenBucket {
    const key = `${kind} ${namespace}/${name}`
    const known = this.#byObject.get(key)
    if (known) return known
    for (const [old, bucket] of this.#byObject) if (bucket.isFull(now)) this.#byObject.delete(old)
    const bucket = new TokenBucket(objectLimits, now)
    this.#byObject.set(key, bucket)
    return bucket
  }

  /** A single cause may make all servers of a build fail repeatedly. */
  #isRepetition({ reason, object }: KubeEvent): boolean {
    if (!repeatedReasons.has(reason)) return false
    const key = `${reason} ${keyOf(object)}`
    const now = this.#deps.clock.elapsed()
    for (const [old, at] of this.#lastFailures) if (now - at >= repetitionMs) this.#lastFailures.delete(old)
    if (this.#lastFailures.has(key)) return true
    this.#lastFailures.set(key, now)
    return false
  }

  async #create({
    type,
    reason,
    message,
    at,
    object,
    byAnyHost = false,
  }: KubeEvent & { byAnyHost?: boolean }): Promise<void> {
    const { namespace, name } = object
    const time = rfc3339(at).replace(/\.\d+Z$/, 'Z')
    const suffix = `${Math.floor(at).toString(16)}${(this.#count++ % 4096).toString(16).padStart(3, '0')}`
    const body = {
      metadata: { namespace, name: `${name}.${suffix}` },
      involvedObject: object,
      type,
      reason,
      message: message.slice(0, 1_000),
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
      source: { component: 'gamekeeper' },
    }
    await this.#deps.api.request({
      what: `create an event for ${namespace}/${name}`,
      method: 'POST',
      path: pathOf(kubeEvents, { namespace }),
      body,
      unfenced: byAnyHost,
    })
  }
}

interface Limits {
  readonly burst: number
  readonly perSecond: number
}

class TokenBucket {
  readonly #limits: Limits
  #tokens: number
  #refilledAt: number

  constructor(limits: Limits, now: number) {
    this.#limits = limits
    this.#tokens = limits.burst
    this.#refilledAt = now
  }

  /** `now` in elapsed ms, as below. */
  has(now: number): boolean {
    this.#refill(now)
    return this.#tokens >= 1
  }

  take(now: number): boolean {
    if (!this.has(now)) return false
    this.#tokens--
    return true
  }

  isFull(now: number): boolean {
    this.#refill(now)
    return this.#tokens === this.#limits.burst
  }

  #refill(now: number): void {
    const { burst, perSecond } = this.#limits
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1_000) * perSecond)
    this.#refilledAt = now
  }
}
