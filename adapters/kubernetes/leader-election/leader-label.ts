/**
 * Labels the leader's pod, for Services to select: all hosts are ready, and requests reach only the one that can serve them.
 * Until a new leader has its label, new connections are refused.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { ElectionListener, Elector } from '../../../src/contracts/elector.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeMeta, pathOf, pods } from '../client/kube-objects.js'
import type { LeaseElector } from './elector.js'

export interface LeaderLabelDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** Key of the label. */
  readonly label: string
  /** The one that this host runs in. */
  readonly pod: { readonly namespace: string; readonly name: string }
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }
/** It is written again at this interval, in case it was removed by hand. A write without a change makes no new revision. */
const rewriteMs = 30_000
/** A host that closes waits no longer than this: the label goes with the pod. */
const removalTimeoutMs = 2_000

/** An elector that labels this host's pod while it leads. */
export function withLeaderLabel(elector: LeaseElector, deps: LeaderLabelDependencies): Elector {
  return Object.freeze({
    run(listener: ElectionListener) {
      const label = new LeaderLabel(elector.lease, deps)
      const resign = elector.run({
        elected() {
          label.set(true)
          listener.elected()
        },
        lost(leader) {
          label.set(false)
          listener.lost(leader)
        },
      })
      return async () => {
        label.stop()
        await resign()
        await label.remove()
      }
    },
  })
}

class LeaderLabel {
  /** Written beside the label: hosts of several fleets may share a namespace. */
  readonly #lease: string
  readonly #deps: LeaderLabelDependencies
  readonly #stop = new AbortController()
  #wanted = false
  /** The label was removed from all other pods since the last election. */
  #isExclusive = false
  #cancelRewrite = () => {}
  #running: Promise<void> | undefined

  constructor(lease: string, deps: LeaderLabelDependencies) {
    this.#lease = lease
    this.#deps = deps
  }

  set(wanted: boolean): void {
    this.#wanted = wanted
    this.#isExclusive = false
    this.#cancelRewrite()
    this.#start()
  }

  stop(): void {
    this.#stop.abort()
    this.#cancelRewrite()
  }

  /** After `stop`. Never rejects. */
  async remove(): Promise<void> {
    await this.#running
    try {
      await this.#write(this.#deps.pod.name, null, removalTimeoutMs)
    } catch (error) {
      this.#deps.logger.debug({ err: error }, 'cannot remove the leader label from this pod')
    }
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  async #run(): Promise<void> {
    const { api, clock, logger, pod } = this.#deps
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted && !api.closed;) {
      const wanted = this.#wanted
      try {
        if (wanted && !this.#isExclusive) await this.#clearOthers()
        await this.#write(pod.name, wanted ? 'true' : null)
        if (wanted === this.#wanted) {
          this.#isExclusive = wanted
          if (wanted && !signal.aborted) this.#cancelRewrite = clock.after(rewriteMs, () => this.#start())
          return
        }
        failures = 0
      } catch (error) {
        if (signal.aborted || api.closed) return
        // Otherwise the failed write is obsolete: leadership has changed meanwhile.
        if (wanted === this.#wanted) failures++
        const message = wanted
          ? 'cannot set the leader label; will retry'
          : 'cannot remove the leader label; will retry'
        logger.warn({ err: error, pod: `${pod.namespace}/${pod.name}` }, message)
        await api.pause(pauseMs(Math.max(1, failures), retryLimits), signal)
      }
    }
  }

  /** A leader that was killed or disconnected could not remove its label. One without the annotation is of an older version. */
  async #clearOthers(): Promise<void> {
    const { api, label, pod } = this.#deps
    const path = pathOf(pods, { namespace: pod.namespace })
    const query = { labelSelector: `${label}=true` }
    const { items } = await api.list({ what: 'list pods with the leader label', method: 'GET', path, query })
    const isOfFleet = ({ annotations }: KubeMeta) =>
      (annotations?.[leaseAnnotation(label)] ?? this.#lease) === this.#lease
    const others = items.filter(({ metadata }) => metadata.name !== pod.name && isOfFleet(metadata))
    await Promise.all(others.map(({ metadata }) => this.#write(metadata.name, null)))
  }

  async #write(name: string, value: 'true' | null, timeoutMs?: number): Promise<void> {
    const { api, label, pod } = this.#deps
    const annotations = { [leaseAnnotation(label)]: value && this.#lease }
    await api.request({
      ...{ what: `label pod ${name}`, method: 'PATCH', path: pathOf(pods, { namespace: pod.namespace, name }) },
      body: { metadata: { labels: { [label]: value }, annotations } },
      // A host that no longer leads may remove its own label.
      unfenced: value === null && name === pod.name,
      ...(timeoutMs !== undefined && { timeoutMs }),
    })
  }
}

/** Key of the annotation that goes with the label. */
function leaseAnnotation(label: string): string {
  return `${label}-lease`
}
