/** The Kubernetes backend's elector: hosts compete for a Lease, and the leader's pod is labelled. */
import { hostname } from 'node:os'
import type { Candidacy, ElectionListener, Elector } from '../../../src/contracts/elector.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { ApiContext } from '../client/api.js'
import { type KubeMeta, pathOf, pods } from '../client/kube-objects.js'
import { Candidate, type CandidateDependencies } from './candidate.js'
import { addressIn, leaseName, type Scope, watchLease } from './lease.js'

export interface LeaseElector extends Required<Elector> {
  /** `namespace/name` of the Lease; the same on all hosts of a fleet. */
  readonly lease: string
}

export function leaseElector(deps: CandidateDependencies): LeaseElector {
  return Object.freeze({
    lease: keyOf(deps),
    run(listener: ElectionListener, { address }: Candidacy = {}) {
      const candidate = new Candidate({ ...deps, address }, listener)
      candidate.start()
      return () => candidate.resign()
    },
    follow(changed: (address: string | undefined) => void) {
      const { scope } = deps
      if (!scope) return () => {}
      // Until the watch is open again, the last leader that is known is the most likely one.
      return watchLease(deps, (lease) => changed(lease && addressIn(lease, scope)))
    },
  })
}

interface ElectorOptions extends Omit<CandidateDependencies, 'name' | 'identity' | 'announce'> {
  readonly scope: Scope
  /** Default: the host name plus a random suffix. */
  readonly identity: string | undefined
  /** Name of the pod that this host runs in, which is labelled while this host leads. */
  readonly pod: string | undefined
  /** Key of the leader label. */
  readonly label: string
  /** Reports that this host leads, about the Lease, as an Event. */
  readonly announce: (lease: Ref, message: string) => void
}

/** The elector that the backend's options describe. */
export function createElector({ pod, label, announce, ...options }: ElectorOptions): Required<Elector> {
  const { api, clock, logger, namespace, scope } = options
  const name = leaseName(scope)
  const elector = leaseElector({
    ...options,
    name,
    identity: options.identity ?? `${hostname()}-${Buffer.from(clock.randomBytes(4)).toString('hex')}`,
    announce: (message) => announce({ namespace, name }, message),
  })
  if (pod === undefined) return elector
  const place = { namespace: api.namespace ?? namespace, name: pod }
  return withLeaderLabel(elector, { api, clock, logger, label, pod: place })
}

interface LeaderLabelDependencies extends ApiContext {
  /** Key of the label. */
  readonly label: string
  /** The pod that this host runs in. */
  readonly pod: { readonly namespace: string; readonly name: string }
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }
/**
 * The label is rewritten at this interval in case someone removed it. A write that changes nothing creates no new revision.
 */
const rewriteMs = 30_000
/** A closing host waits no longer than this for the label's removal: the label disappears with the pod anyway. */
const removalTimeoutMs = 2_000

/**
 * Wraps an elector so that this host's pod is labelled while it leads, and a Service can select it. All hosts are ready, but requests reach only
 * the leader, which can serve them. Until a new leader's pod is labelled, new connections are refused.
 */
export function withLeaderLabel(elector: LeaseElector, deps: LeaderLabelDependencies): Required<Elector> {
  return Object.freeze({
    follow: (changed: (address: string | undefined) => void) => elector.follow(changed),
    run(listener: ElectionListener, candidacy?: Candidacy) {
      const label = new LeaderLabel(elector.lease, deps)
      const labelling = {
        elected() {
          label.set(true)
          listener.elected()
        },
        lost(leader?: string) {
          label.set(false)
          listener.lost(leader)
        },
        blocked: (cause: string | undefined) => listener.blocked?.(cause),
      }
      const resign = elector.run(labelling, candidacy)
      return async () => {
        label.stop()
        await resign()
        await label.remove()
      }
    },
  })
}

class LeaderLabel {
  /** Stored in an annotation next to the label, because hosts of several fleets may share a namespace. */
  readonly #lease: string
  readonly #deps: LeaderLabelDependencies
  readonly #stop = new AbortController()
  #wanted = false
  /** Whether the label has been removed from all other pods since this host was elected. */
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

  /** Removes the label from this host's pod. Call it after `stop`. Never rejects. */
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
        // If leadership has changed in the meantime, the failed write is obsolete and is not counted.
        if (wanted === this.#wanted) failures++
        const message = wanted
          ? 'cannot set the leader label; will retry'
          : 'cannot remove the leader label; will retry'
        logger.warn({ err: error, pod: `${pod.namespace}/${pod.name}` }, message)
        await api.pause(pauseMs(Math.max(1, failures), retryLimits), signal)
      }
    }
  }

  /**
   * Removes the label from this fleet's other pods: a leader that was killed or disconnected could not remove its own.
   */
  async #clearOthers(): Promise<void> {
    const { api, label, pod } = this.#deps
    const path = pathOf(pods, { namespace: pod.namespace })
    const query = { labelSelector: `${label}=true` }
    const { items } = await api.list({ what: 'list pods with the leader label', method: 'GET', path, query })
    const isOfFleet = ({ annotations }: KubeMeta) => annotations?.[leaseAnnotation(label)] === this.#lease
    const others = items.filter(({ metadata }) => metadata.name !== pod.name && isOfFleet(metadata))
    await Promise.all(others.map(({ metadata }) => this.#write(metadata.name, null)))
  }

  async #write(name: string, value: 'true' | null, timeoutMs?: number): Promise<void> {
    const { api, label, pod } = this.#deps
    const annotations = { [leaseAnnotation(label)]: value && this.#lease }
    await api.request({
      what: `label pod ${name}`,
      method: 'PATCH',
      path: pathOf(pods, { namespace: pod.namespace, name }),
      body: { metadata: { labels: { [label]: value }, annotations } },
      // A host that is no longer the leader may remove its own label.
      unfenced: value === null && name === pod.name,
      ...(timeoutMs !== undefined && { timeoutMs }),
    })
  }
}

/** Key of the annotation that names the Lease. */
function leaseAnnotation(label: string): string {
  return `${label}-lease`
}
