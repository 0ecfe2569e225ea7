/**
 * Finds Leases of other fleets in the same group whose hosts are configured with different namespaces. If such a fleet has a
 * leader and its scope overlaps with this fleet's, this host must not lead: the same builds would have two leaders.
 */
import { statusOf } from '../client/api-errors.js'
import type { ApiCall } from '../client/api.js'
import { type KubeObject, leases, pathOf } from '../client/kube-objects.js'
import { type LeaseDependencies, observe, type ObservedLease, overlaps, type Scope, scopeOf } from './lease.js'

export interface Rival {
  readonly holder: string
  /** Elapsed ms at which the rival's lease expires unless it is renewed. */
  readonly endsAt: number
}

type ObservedRival = ObservedLease & { readonly isMissing: boolean }

export class RivalLeases {
  readonly #deps: LeaseDependencies & { readonly scope: Scope }
  /** Leases with overlapping scopes, by name. */
  readonly #observed = new Map<string, ObservedRival>()
  /** Name of the Lease in the last warning. */
  #warnedOf: string | undefined
  #warnedOfMissingPermission = false

  constructor(deps: LeaseDependencies & { readonly scope: Scope }) {
    this.#deps = deps
  }

  /**
   * Returns an actual or possible leader whose scope overlaps with this fleet's. Lists all Leases, so call it only before
   * taking the lead.
   */
  async find(options: Pick<ApiCall, 'unlimited' | 'timeoutMs' | 'signal'>): Promise<Rival | undefined> {
    const items = await this.#list(options)
    if (!items) return undefined
    this.#observe(items)
    const { clock, leaseMs } = this.#deps
    for (const [name, rival] of this.#observed) {
      const endsAt = rival.at + Math.max(leaseMs, rival.leaseMs)
      if (rival.isReleased || clock.elapsed() >= endsAt) continue
      this.#warn(name, rival)
      return { holder: rival.holder, endsAt }
    }
    this.#warnedOf = undefined
    return undefined
  }

  /** Returns undefined if this host lacks the permission to list Leases. */
  async #list(
    options: Pick<ApiCall, 'unlimited' | 'timeoutMs' | 'signal'>,
  ): Promise<readonly KubeObject[] | undefined> {
    const { api, logger, namespace } = this.#deps
    try {
      const what = `list leases in ${namespace}`
      return (await api.list({ what, method: 'GET', path: pathOf(leases, { namespace }), ...options })).items
    } catch (error) {
      if (statusOf(error) !== 403) throw error
      if (!this.#warnedOfMissingPermission) {
        logger.warn({ namespace }, 'not allowed to list leases: cannot detect leaders of overlapping fleets')
      }
      this.#warnedOfMissingPermission = true
      return undefined
    }
  }

  #observe(items: readonly KubeObject[]): void {
    const { clock, leaseMs, name: ownName, scope } = this.#deps
    const at = clock.elapsed()
    const listed = new Set<string>()
    for (const item of items) {
      const { name } = item.metadata
      const other = scopeOf(item, scope.group)
      if (name === ownName || other === undefined || !overlaps(scope, other)) continue
      listed.add(name)
      this.#observed.set(name, { ...observe(item, this.#observed.get(name), at, leaseMs), isMissing: false })
    }
    // A leader whose Lease was deleted recreates it within the lease duration, so keep the rival until then.
    for (const [name, rival] of this.#observed) {
      if (!listed.has(name) && !rival.isMissing) this.#observed.set(name, { ...rival, at, isMissing: true })
    }
  }

  #warn(lease: string, { holder }: ObservedRival): void {
    if (this.#warnedOf === lease) return
    this.#warnedOf = lease
    const { logger, namespace } = this.#deps
    logger.warn(
      { lease: `${namespace}/${lease}`, holder },
      'not leading: another leader manages some of the same namespaces; give all hosts of a fleet the same namespaces',
    )
  }
}
