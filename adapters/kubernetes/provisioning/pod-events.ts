/**
 * Reads the Kubernetes Events of single pods. Reads one pod at a time, with a pause in between, because the API server has
 * no index for events and searches all events of the namespace.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, kubeEvents, pathOf } from '../client/kube-objects.js'

export interface PodEventsInput {
  readonly ref: Ref
  readonly podUid: string
}

export interface PodEventsDependencies {
  readonly api: Pick<KubernetesApi, 'closed' | 'list' | 'pause'>
  readonly clock: Clock
  readonly logger: Logger
}

/** Pause between two reads, at least and at most. */
const minPauseMs = 250
const maxPauseMs = 10_000
/**
 * How many times as long as the read the pause after it is. Where many pods have started, the API server searches thousands of events for
 * each read, and allocations would wait for it.
 */
const pausePerRead = 4
/** The other reads wait for this one. */
const readTimeoutMs = 10_000
/** If this host may not list a namespace's events, it tries again after this time. */
const forbiddenMs = 10 * 60_000

export class PodEvents {
  readonly #deps: PodEventsDependencies
  /** Elapsed ms until which events are not read, by namespace. */
  readonly #forbiddenUntil = new Map<string, number>()
  #previous: Promise<unknown> = Promise.resolve()

  constructor(deps: PodEventsDependencies) {
    this.#deps = deps
  }

  /** Whether this host may not list events in that namespace. */
  isForbidden(namespace: string): boolean {
    return (this.#forbiddenUntil.get(namespace) ?? 0) > this.#deps.clock.elapsed()
  }

  /**
   * Resolves with the events, or with undefined if they cannot be read or if `isNeeded` returns false when the read is due.
   * Never rejects.
   */
  read(input: PodEventsInput, isNeeded: () => boolean): Promise<readonly KubeObject[] | undefined> {
    const { api, clock } = this.#deps
    return new Promise((resolve) => {
      this.#previous = this.#previous.then(async () => {
        if (api.closed || this.isForbidden(input.ref.namespace) || !isNeeded()) return resolve(undefined)
        const begun = clock.elapsed()
        resolve(await this.#read(input))
        const pauseMs = pausePerRead * (clock.elapsed() - begun)
        await api.pause(Math.min(Math.max(minPauseMs, pauseMs), maxPauseMs))
      })
    })
  }

  async #read({ ref, podUid }: PodEventsInput): Promise<readonly KubeObject[] | undefined> {
    const { api, clock, logger } = this.#deps
    const { namespace, name } = ref
    try {
      const { items } = await api.list({
        what: `list the events of pod ${name}`,
        method: 'GET',
        path: pathOf(kubeEvents, { namespace }),
        query: { fieldSelector: `involvedObject.uid=${podUid}` },
        timeoutMs: readTimeoutMs,
      })
      return items
    } catch (error) {
      const isForbidden = statusOf(error) === 403
      if (isForbidden) this.#forbiddenUntil.set(namespace, clock.elapsed() + forbiddenMs)
      const level = isForbidden ? 'warn' : 'debug'
      logger[level]({ err: error, pod: keyOf(ref) }, 'cannot read the events of a pod that has not started')
      return undefined
    }
  }
}
