/**
 * Other Leases of the fleet's group: those of hosts that were told other namespaces. While one of them is held by a host that is
 * in one of the same namespaces, two would lead the builds there.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiCall } from '../client/api-call.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, leases, pathOf } from '../client/kube-objects.js'
import { type Observed, observe, overlaps, type Reach, reachOf } from './lease.js'

export interface RivalLeasesOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly namespace: string
  /** Of this host's own Lease. */
  readonly name: string
  readonly reach: Reach
  readonly leaseMs: number
}

export interface Rival {
  readonly holder: string
  /** Elapsed ms at which it leads no more, unless it is seen to renew its lease. */
  readonly endsAt: number
}

type Seen = Observed & { readonly isMissing: boolean }

export class RivalLeases {
  readonly #options: RivalLeasesOptions
  /** Those with a namespace of this host's, by their names. */
  readonly #seen = new Map<string, Seen>()
  /** Name of the Lease that was told of last. */
  #told: string | undefined
  #isRefused = false

  constructor(options: RivalLeasesOptions) {
    this.#options = options
  }

  /** One that leads, or may for all that this host has seen. To be asked only by who would lead: it lists all Leases there. */
  async look(call: Pick<ApiCall, 'urgent' | 'limitMs' | 'signal'>): Promise<Rival | undefined> {
    const { api, clock, logger, namespace } = this.#options
    let items: readonly KubeObject[]
    try {
      const what = `list the leases in ${namespace}`
      items = (await api.list({ what, method: 'GET', path: pathOf(leases, { namespace }), ...call })).items
    } catch (error) {
      if (statusOf(error) !== 403) throw error
      const message = `this host may not list leases in ${namespace}: hosts that were told other namespaces could lead beside it`
      if (!this.#isRefused) logger.warn({}, message)
      this.#isRefused = true
      return undefined
    }
    this.#note(items)
    for (const [name, seen] of this.#seen) {
      const endsAt = seen.at + Math.max(this.#options.leaseMs, seen.leaseMs)
      if (seen.isGivenUp || clock.elapsed() >= endsAt) continue
      this.#tell(name, seen)
      return { holder: seen.holder, endsAt }
    }
    this.#told = undefined
    return undefined
  }

  #note(items: readonly KubeObject[]): void {
    const { clock, leaseMs, name: own, reach } = this.#options
    const at = clock.elapsed()
    const listed = new Set<string>()
    for (const item of items) {
      const { name } = item.metadata
      const other = reachOf(item, reach.group)
      if (name === own || other === undefined || !overlaps(reach, other)) continue
      listed.add(name)
      this.#seen.set(name, { ...observe(item, this.#seen.get(name), at, leaseMs), isMissing: false })
    }
    // Whoever leads makes one that was deleted again, within its lease.
    for (const [name, seen] of this.#seen) {
      if (!listed.has(name) && !seen.isMissing) this.#seen.set(name, { ...seen, at, isMissing: true })
    }
  }

  #tell(lease: string, { holder }: Seen): void {
    if (this.#told === lease) return
    this.#told = lease
    const { logger, namespace } = this.#options
    const who = holder === '' ? 'another host' : holder
    const message = `this host waits to lead: by the lease ${namespace}/${lease} ${who} leads a fleet in other namespaces, some of which are this host's`
    logger.warn({ lease, holder }, message)
  }
}
