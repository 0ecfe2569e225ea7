/** The lease of two hosts on one store: whoever asks first has it, and it passes on when its holder is gone. */
import type { ElectionListener, Elector } from '../../contracts/elector.js'
import type { Host } from './host.js'
import type { World } from './world.js'

/** How long a holder that is not heard of keeps the lease. */
export const leaseMs = 15_000

export class Lease {
  readonly #electors = new Map<Host, ElectionListener>()
  leader: Host | undefined
  /** Elapsed ms at which the leader was elected. */
  leadsSince = 0

  constructor(
    readonly world: World,
    readonly elected: () => void,
  ) {}

  elector(host: Host): Elector {
    return {
      run: (listener) => {
        this.#electors.set(host, listener)
        if (!this.leader) this.#elect(host)
        else if (this.leader !== host) host.run(() => this.#depose(host, this.leader?.name))
        return () => {
          this.gone(host, 100)
          return Promise.resolve()
        }
      },
    }
  }

  /** It takes part no more. A host that crashed gives nothing back: its lease runs out. */
  gone(host: Host, afterMs = leaseMs): void {
    this.#electors.delete(host)
    if (this.leader !== host) return
    this.leader = undefined
    this.world.after(afterMs, () => this.#passOn())
  }

  /** It cannot renew its lease for so long. */
  asleep(host: Host, ms: number): void {
    if (this.leader !== host || ms < leaseMs) return
    const { leadsSince } = this
    this.world.after(leaseMs, () => {
      if (this.leader === host && this.leadsSince === leadsSince) this.#passOn()
    })
  }

  /** Its holder cannot reach it, knows so, and gives up in time. False when there is nobody else to have it. */
  lose(): boolean {
    const { leader } = this
    const next = [...this.#electors.keys()].find((host) => host !== leader && host.alive && !host.suspended)
    if (!leader || leader.suspended || !next) return false
    this.leader = undefined
    leader.run(() => this.#depose(leader))
    this.world.after(this.world.between(0, 2_000), () => (this.leader ? undefined : this.#passOn(leader)))
    return true
  }

  /** To one that is awake to ask for it, as soon as there is one; unless its holder is heard of again before. */
  #passOn(not?: Host): void {
    const { leader } = this
    if (this.#electors.size === 0 || leader?.suspended === false) return
    const next = [...this.#electors.keys()].find((host) => host !== not && host.alive && !host.suspended)
    if (!next) return void this.world.after(1_000, () => this.#passOn())
    // Told first of all when it wakes up, as a host that watches its own lease would be.
    leader?.runFirst(() => this.#depose(leader))
    this.#elect(next)
  }

  #elect(host: Host): void {
    this.leader = host
    this.leadsSince = this.world.elapsedMs
    this.world.note(`${host.name} is elected`)
    this.elected()
    host.run(() => {
      host.leads = true
      this.#electors.get(host)?.elected()
    })
  }

  #depose(host: Host, by?: string): void {
    host.leads = false
    this.#electors.get(host)?.lost(by)
  }
}
