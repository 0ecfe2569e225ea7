/**
 * Marks the pod of the host that leads by a label, for Services to select: every host is ready, and calls and heartbeats reach the
 * one that can answer them. Who leads is decided elsewhere; while a label is late, new connections reach nobody.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { ElectionListener, Elector } from '../../../src/contracts/elector.js'
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import type { KubernetesApi } from '../client/api.js'
import type { LeaseElector } from './elector.js'
import { type KubeMeta, pathOf, pods } from '../client/kube-objects.js'

export interface LeaderLabelOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly label: string
  /** That this host runs in. */
  readonly pod: { readonly namespace: string; readonly name: string }
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }
/** After which it is written again: somebody may have taken it off by hand. Where nothing has changed that is no revision. */
const againMs = 30_000
/** Whoever leaves does not wait for longer: the label goes with the pod. */
const leaveMs = 2_000

export function labelling(elector: LeaseElector, options: LeaderLabelOptions): Elector {
  return Object.freeze({
    run(listener: ElectionListener) {
      const label = new LeaderLabel(elector.lease, options)
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
        await label.leave()
      }
    },
  })
}

class LeaderLabel {
  /** Stands beside the label: hosts of several fleets may be in one namespace. */
  readonly #lease: string
  readonly #options: LeaderLabelOptions
  readonly #stop = new AbortController()
  #wanted = false
  /** Others were looked for since this host was last told who leads. */
  #isAlone = false
  #cancelAgain = () => {}
  #running: Promise<void> | undefined

  constructor(lease: string, options: LeaderLabelOptions) {
    this.#lease = lease
    this.#options = options
  }

  set(wanted: boolean): void {
    this.#wanted = wanted
    this.#isAlone = false
    this.#cancelAgain()
    this.#start()
  }

  stop(): void {
    this.#stop.abort()
    this.#cancelAgain()
  }

  /** Once it is stopped. */
  async leave(): Promise<void> {
    await this.#running
    try {
      await this.#write(this.#options.pod.name, null, leaveMs)
    } catch (error) {
      this.#options.logger.debug({ error: messageOf(error) }, 'the label of the leader was left on this pod')
    }
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  async #run(): Promise<void> {
    const { api, clock, logger, pod } = this.#options
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted && !api.closed;) {
      const wanted = this.#wanted
      try {
        if (wanted && !this.#isAlone) await this.#clearOthers()
        await this.#write(pod.name, wanted ? 'true' : null)
        if (wanted === this.#wanted) {
          this.#isAlone = wanted
          if (wanted && !signal.aborted) this.#cancelAgain = clock.after(againMs, () => this.#start())
          return
        }
        failures = 0
      } catch (error) {
        if (signal.aborted || api.closed) return
        // Another word has come meanwhile: what failed was about the last one.
        if (wanted === this.#wanted) failures++
        const where = `pod ${pod.namespace}/${pod.name}`
        logger.warn(
          { error: messageOf(error) },
          `the label of the leader could not be ${wanted ? 'put on' : 'taken off'} ${where}`,
        )
        await api.pause(pauseMs(Math.max(1, failures), retryLimits), signal)
      }
    }
  }

  /** A leader that was killed or cut off could not take its own away. One that names no Lease is of an older version. */
  async #clearOthers(): Promise<void> {
    const { api, label, pod } = this.#options
    const path = pathOf(pods, { namespace: pod.namespace })
    const query = { labelSelector: `${label}=true` }
    const { items } = await api.list({ what: 'list the pods of leaders', method: 'GET', path, query })
    const isOfFleet = ({ annotations }: KubeMeta) => (annotations?.[leaseOf(label)] ?? this.#lease) === this.#lease
    const others = items.filter(({ metadata }) => metadata.name !== pod.name && isOfFleet(metadata))
    await Promise.all(others.map(({ metadata }) => this.#write(metadata.name, null)))
  }

  async #write(name: string, value: 'true' | null, limitMs?: number): Promise<void> {
    const { api, label, pod } = this.#options
    const annotations = { [leaseOf(label)]: value && this.#lease }
    await api.request({
      ...{ what: `label pod ${name}`, method: 'PATCH', path: pathOf(pods, { namespace: pod.namespace, name }) },
      body: { metadata: { labels: { [label]: value }, annotations } },
      // Its own pod any host may step back from.
      unfenced: value === null && name === pod.name,
      ...(limitMs !== undefined && { limitMs }),
    })
  }
}

/** The annotation that goes with the label. */
function leaseOf(label: string): string {
  return `${label}-lease`
}
