/**
 * Labels pods as active, so that node autoscalers and PodDisruptionBudgets protect them from eviction, and removes the labels when a
 * game has ended its match and waits for the next one. The labels are written in
 * the background, so that they do not slow down allocations: in a pause between allocations, a few at a time. Those that have waited
 * for `maxDelayMs` are written without a pause.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import {
  buildKeyOf,
  evictAnnotation,
  type Names,
  type PodSnapshot,
  protectionOf,
  unprotectedOf,
} from './pod-objects.js'

interface ActiveLabelsDependencies {
  readonly api: Pick<KubernetesApi, 'request' | 'closed' | 'priorityPauseMs'>
  readonly clock: Clock
  readonly logger: Logger
  readonly names: Names
  readonly pods: { find(ref: Ref): PodSnapshot | undefined }
}

interface Request {
  readonly ref: Ref
  readonly podUid: string
  /** Whether the pod is to be labelled, or the label is to be removed. */
  readonly isActive: boolean
  readonly dueAt: number
  readonly failures: number
  /** Not before this time. */
  readonly retryAt: number
}

interface Written {
  readonly ref: Ref
  /** Undefined if the call has failed or is in progress. */
  readonly isActive: boolean | undefined
}

/** How long a label may wait for a pause between allocations. */
export const maxDelayMs = 3_000
/** If no allocation has been written for this long, labels are written. */
const quietMs = 100
const maxConcurrent = 8
/** About 3 s after the first attempt: then it is no longer a matter of a moment. */
const warnAtFailures = 6
const retryLimits = { initialMs: 100, maxMs: 10_000 }

export class ActiveLabels {
  readonly #deps: ActiveLabelsDependencies
  /** Requests that are not being carried out, by pod uid. */
  readonly #queue = new Map<string, Request>()
  /** What is being written, by pod uid. */
  readonly #writing = new Map<string, Request>()
  /** What was written last to pods whose labels have been removed. The cache may still show an earlier version. */
  readonly #written = new Map<string, Written>()
  readonly #idle = new Set<() => void>()
  #isFlushing = false
  #cancelTimer: (() => void) | undefined
  /** Elapsed ms. */
  #timerAt = 0
  /** How many are remembered until those that do not exist any more are forgotten. */
  #maxRemembered = 1_000

  constructor(deps: ActiveLabelsDependencies) {
    this.#deps = deps
  }

  /**
   * Labels the pod in the background, or removes its labels. Does nothing if it is so already, or has ended. Replaces an earlier request
   * for the pod. Failures are retried.
   */
  request(snapshot: PodSnapshot, isActive = true): void {
    const { podUid, identity } = snapshot
    const last = this.#queue.get(podUid) ?? this.#writing.get(podUid)
    if ((last?.isActive ?? this.#isLabelled(snapshot)) === isActive) return
    const now = this.#deps.clock.elapsed()
    const request = { ref: identity.ref, podUid, isActive, dueAt: now + maxDelayMs, failures: 0, retryAt: now }
    this.#queue.set(podUid, request)
    // In a burst, the timer of an earlier request serves this one, too.
    if (!this.#cancelTimer || now + this.#waitMs(request) < this.#timerAt) this.#wake()
  }

  /**
   * Tries once to write all labels now. Resolves when that has succeeded or failed. Requests made after this call are written immediately.
   */
  flush(): Promise<void> {
    this.#isFlushing = true
    this.#wake()
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idle.add(resolve))
  }

  /** Drops all requests. */
  stop(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#queue.clear()
    this.#notifyIdle()
  }

  get #isIdle(): boolean {
    return this.#writing.size + this.#queue.size === 0
  }

  #wake(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    let nextMs = Infinity
    for (const [podUid, request] of this.#queue) {
      // The end of one of the writes in progress calls this again.
      if (this.#writing.size >= maxConcurrent) return
      if (this.#writing.has(podUid)) continue
      const waitMs = this.#waitMs(request)
      if (waitMs > 0) {
        nextMs = Math.min(nextMs, waitMs)
        continue
      }
      this.#queue.delete(podUid)
      this.#writing.set(podUid, request)
      void this.#run(request)
    }
    if (nextMs === Infinity) return
    this.#timerAt = this.#deps.clock.elapsed() + nextMs
    this.#cancelTimer = this.#deps.clock.after(nextMs, () => this.#wake())
  }

  #waitMs({ dueAt, retryAt }: Request): number {
    if (this.#isFlushing) return 0
    const { api, clock } = this.#deps
    const now = clock.elapsed()
    return Math.max(retryAt - now, Math.min(quietMs - api.priorityPauseMs, dueAt - now))
  }

  /** Never rejects. */
  async #run(request: Request): Promise<void> {
    try {
      await this.#write(request)
    } catch (error) {
      this.#failed(request, error)
    }
    this.#writing.delete(request.podUid)
    this.#wake()
    if (this.#isIdle) this.#notifyIdle()
  }

  async #write(request: Request): Promise<void> {
    const { ref, podUid, isActive } = request
    const { api, names, pods } = this.#deps
    const snapshot = pods.find(ref)
    if (snapshot?.podUid !== podUid || isEnding(snapshot)) return void this.#written.delete(podUid)
    if (this.#isLabelled(snapshot) === isActive) return
    const mustRemember = !isActive || this.#written.has(podUid)
    if (mustRemember) this.#remember(podUid, { ref, isActive: undefined })
    const labels = isActive ? protectionOf(names) : unprotectedOf(names, snapshot.pod.metadata?.annotations ?? {})
    const metadata = { uid: podUid, ...labels }
    try {
      const what = `label pod ${ref.name} as ${isActive ? 'active' : 'idle'}`
      const group = buildKeyOf(names, snapshot)
      await api.request({ what, method: 'PATCH', path: pathOf(podType, ref), body: { metadata }, group })
      if (mustRemember) this.#remember(podUid, { ref, isActive })
    } catch (error) {
      const status = statusOf(error)
      // The pod was deleted, or replaced by another pod.
      if (status !== 404 && status !== 409) throw error
    }
  }

  #failed(request: Request, error: unknown): void {
    const { api, clock, logger } = this.#deps
    // The next leader requests the labels of all its matches again.
    if (api.closed || this.#isFlushing || FleetError.is(error, 'not-leader')) return
    const failures = request.failures + 1
    const level = failures === warnAtFailures ? 'warn' : 'debug'
    logger[level](
      { err: error, pod: keyOf(request.ref), failures },
      request.isActive
        ? 'pod not labelled as active, so it is not protected from eviction; will retry'
        : 'pod still labelled as active, although its match has ended; will retry',
    )
    const retryAt = clock.elapsed() + pauseMs(failures, retryLimits)
    // A later request for the pod replaces this one.
    if (!this.#queue.has(request.podUid)) this.#queue.set(request.podUid, { ...request, failures, retryAt })
  }

  /** Forgets pods that do not exist any more. */
  #remember(podUid: string, written: Written): void {
    this.#written.set(podUid, written)
    if (this.#written.size < this.#maxRemembered) return
    for (const [uid, { ref }] of this.#written) {
      if (this.#deps.pods.find(ref)?.podUid !== uid) this.#written.delete(uid)
    }
    this.#maxRemembered = Math.max(1_000, 2 * this.#written.size)
  }

  /** Undefined if that is not known. */
  #isLabelled({ pod, podUid }: PodSnapshot): boolean | undefined {
    const written = this.#written.get(podUid)
    if (written) return written.isActive
    const { labels = {}, annotations = {} } = pod.metadata ?? {}
    return labels[this.#deps.names.active] === 'true' && annotations[evictAnnotation] === 'false'
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle) resolve()
    this.#idle.clear()
  }
}

function isEnding({ pod, instance }: PodSnapshot): boolean {
  return pod.metadata?.deletionTimestamp !== undefined || instance.phase === 'exited'
}
