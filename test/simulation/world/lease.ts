/** Models the leadership lease of hosts that share a store. The first candidate gets it; it expires if its holder stops. */
import type { ElectionListener, Elector } from '../../../src/contracts/elector.js'
import type { Host } from './host.js'
import type { World } from './world.js'

/** How long after its last renewal the lease expires. */
export const leaseMs = 15_000

export class Lease {
  readonly #electors = new Map<Host, ElectionListener>()
  leader: Host | undefined
  /** Elapsed ms at which the last leader was elected. */
  electedAt = 0

  constructor(
    readonly world: World,
    readonly onElected: () => void,
  ) {}

  elector(host: Host): Elector {
    return {
      run: (listener) => {
        this.#electors.set(host, listener)
        if (!this.leader) this.#elect(host)
        else if (this.leader !== host) host.run(() => this.#depose(host, this.leader?.name))
        return () => {
          this.leave(host, 100)
          return Promise.resolve()
        }
      },
    }
  }

  /** Removes a host from the election. A crashed host does not release its lease, so the lease has to expire. */
  leave(host: Host, afterMs = leaseMs): void {
    this.#electors.delete(host)
    if (this.leader !== host) return
    this.leader = undefined
    this.world.after(afterMs, () => this.#electNext())
  }

  /** Called when a host is suspended for `ms`, during which it cannot renew its lease. */
  suspended(host: Host, ms: number): void {
    if (this.leader !== host || ms < leaseMs) return
    const { electedAt } = this
    this.world.after(leaseMs, () => {
      if (this.leader === host && this.electedAt === electedAt) this.#electNext()
    })
  }

  /** Makes the leader fail to renew and step down in time. Returns false, with no effect, if no other host can take over. */
  lose(): boolean {
    const { leader } = this
    const next = [...this.#electors.keys()].find((host) => host !== leader && host.alive && !host.suspended)
    if (!leader || leader.suspended || !next) return false
    this.leader = undefined
    leader.run(() => this.#depose(leader))
    this.world.after(this.world.between(0, 2_000), () => (this.leader ? undefined : this.#electNext(leader)))
    return true
  }

  /** Elects another host as soon as one is awake, unless the holder wakes up first. */
  #electNext(except?: Host): void {
    const { leader } = this
    if (this.#electors.size === 0 || leader?.suspended === false) return
    const next = [...this.#electors.keys()].find((host) => host !== except && host.alive && !host.suspended)
    if (!next) return void this.world.after(1_000, () => this.#electNext())
    // When the former leader wakes up, the first thing it learns is that it has lost the lease.
    leader?.runFirst(() => this.#depose(leader))
    this.#elect(next)
  }

  #elect(host: Host): void {
    this.leader = host
    this.electedAt = this.world.elapsedMs
    this.world.note(`${host.name} is elected`)
    this.onElected()
    host.run(() => {
      host.leads = true
      host.terms++
      this.#electors.get(host)?.elected()
    })
  }

  #depose(host: Host, by?: string): void {
    host.leads = false
    this.#electors.get(host)?.lost(by)
  }
}
