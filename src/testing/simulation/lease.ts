/** The lease of two hosts on one store: whoever asks first has it, and it passes on when its holder is gone. */
import type { ElectionListener, Elector } from '../../elector.js'
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
        if (!this.leader) this.#elect()
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
    if (this.#electors.size > 0) this.world.after(afterMs, () => (this.leader ? undefined : this.#elect()))
  }

  /** It cannot renew its lease for so long. */
  asleep(host: Host, ms: number): void {
    if (this.leader !== host || ms < leaseMs) return
    this.world.after(leaseMs, () => {
      if (this.leader !== host || this.#electors.size < 2) return
      // Told first of all when it wakes up, as a host that watches its own lease would be.
      host.runFirst(() => this.#depose(host))
      this.#elect(host)
    })
  }

  #elect(not?: Host): void {
    const [next] = [...this.#electors].filter(([host]) => host !== not && host.alive)
    if (!next) return
    const [host] = next
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
