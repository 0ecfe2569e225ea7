/**
 * Elects one of any number of hosts by a Lease. Whether a lease has run out is judged by when this host saw it change, never
 * by the clocks of others; and a host that could not renew its own in time leads no more, whatever the reason.
 */
import type { ElectionListener, Elector } from '../../../src/contracts/elector.js'
import { messageOf } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { Fence, type Moment } from './fence.js'
import { type Observed, observe } from './lease.js'
import { OwnLease, type OwnLeaseDependencies } from './own-lease.js'
import { type Rival, RivalLeases } from './rival-leases.js'
import { chanceOf } from '../client/watch.js'

export interface LeaseElectorOptions extends OwnLeaseDependencies {
  /** Shut but for the time of this host's lease. */
  readonly fence?: Fence
  /** Whether there is anything that only a leader can have made. Default: there is not. */
  readonly hasRun?: (signal: AbortSignal) => Promise<boolean>
}

export interface LeaseElector extends Elector {
  /** `namespace/name`: who takes part in the same is of the same fleet. */
  readonly lease: string
}

export function leaseElector(options: LeaseElectorOptions): LeaseElector {
  return Object.freeze({
    lease: keyOf(options),
    run(listener: ElectionListener) {
      const candidate = new Candidate(options, listener)
      candidate.start()
      return () => candidate.resign()
    },
  })
}

class Candidate {
  readonly #options: LeaseElectorOptions
  readonly #listener: ElectionListener
  readonly #stop = new AbortController()
  readonly #fence: Fence
  readonly #lease: OwnLease
  readonly #rivals: RivalLeases | undefined
  #observed: Observed | undefined
  /** That kept this host from leading when it last would have. */
  #rival: Rival | undefined
  /** Elapsed ms at which this host saw first that there is no Lease; -Infinity when there never was one. */
  #missingSince: number | undefined
  #leads = false
  /** Told at least once who leads. */
  #toldLeader: string | undefined
  #hasSpoken = false
  /** Ends what it leads by. */
  #cancelDeadline = () => {}
  #running: Promise<void> | undefined

  constructor(options: LeaseElectorOptions, listener: ElectionListener) {
    this.#options = options
    this.#listener = listener
    this.#fence = options.fence ?? new Fence(options.clock)
    this.#lease = new OwnLease(options)
    this.#rivals = options.reach && new RivalLeases({ ...options, reach: options.reach })
  }

  start(): void {
    this.#fence.shut()
    this.#running = this.#run()
  }

  async resign(): Promise<void> {
    this.#stop.abort()
    const led = this.#leads
    this.#leads = false
    this.#fence.shut()
    this.#cancelDeadline()
    await this.#running
    if (led) await this.#lease.giveUp()
  }

  async #run(): Promise<void> {
    const { api, clock, leaseMs, logger } = this.#options
    const { signal } = this.#stop
    while (!signal.aborted && !api.closed) {
      try {
        await this.#round()
      } catch (error) {
        if (signal.aborted) return
        const what = this.#leads ? 'the lease could not be renewed' : 'the lease could not be had'
        logger.warn({ error: messageOf(error) }, what)
        // Whoever waits to hear whether this host leads hears that it does not.
        if (!this.#hasSpoken) this.#lose(undefined)
      }
      // A leader renews thrice within its lease. The others look as often, but not all at once.
      const pauseMs = this.#leads ? leaseMs / 4 : (leaseMs / 5) * (0.8 + 0.4 * chanceOf(clock))
      await api.pause(Math.min(pauseMs, this.#untilRunOutMs()), signal)
    }
  }

  /** Looks at the lease, and takes or renews it when that is this host's to do. */
  async #round(): Promise<void> {
    const { clock, identity, leaseMs } = this.#options
    const lease = await this.#lease.read(this.#stop.signal)
    this.#rival = undefined
    if (lease === undefined) return this.#replace()
    this.#missingSince = undefined
    const observed = (this.#observed = observe(lease, this.#observed, clock.elapsed(), leaseMs))
    if (this.#leads && observed.holder === identity) {
      await this.#renew(observed)
      return
    }
    if (!this.#leads && this.#isFree(observed)) await this.#take(observed)
    else this.#lose(nobodyIf(observed.holder, identity))
  }

  /** Whatever it says: somebody may have written that by hand, and whoever led until then does not know it yet. */
  #isFree(observed: Observed): boolean {
    if (observed.isGivenUp || this.#lease.isUntouched(observed)) return true
    return this.#options.clock.elapsed() - observed.at >= this.#longestLeaseMs()
  }

  /**
   * There is no Lease. Who leads may make another one and go on. The others do not know whether anybody leads: whoever did
   * has made another one, or has noticed that it leads no more, once a lease has passed.
   */
  async #replace(): Promise<void> {
    const { clock, hasRun } = this.#options
    if (this.#leads) {
      // Somebody else was faster, and leads.
      if (!(await this.#renew(undefined))) this.#lose(undefined)
      return
    }
    if (this.#missingSince === undefined) {
      const mayBeLed = this.#observed !== undefined || (await hasRun?.(this.#stop.signal))
      this.#missingSince = mayBeLed ? clock.elapsed() : -Infinity
    }
    if (clock.elapsed() >= this.#missingSince + this.#longestLeaseMs()) await this.#take(undefined)
    else if (!this.#hasSpoken) this.#lose(undefined)
  }

  async #renew(observed: Observed | undefined): Promise<boolean> {
    const begun = await this.#write(observed)
    if (begun) this.#win(begun)
    return begun !== undefined
  }

  /** Hosts of two leases may ask for them at once: whoever has its own looks at the others' once more before it leads. */
  async #take(observed: Observed | undefined): Promise<void> {
    if (await this.#isHeldOff()) return
    const begun = await this.#write(observed)
    if (!begun) return
    let mayLead = false
    try {
      mayLead = !(await this.#isHeldOff())
    } finally {
      if (!mayLead) await this.#lease.giveUp()
    }
    if (mayLead) this.#win(begun)
  }

  async #isHeldOff(): Promise<boolean> {
    const call = { urgent: true, limitMs: this.#lease.callTimeoutMs, signal: this.#stop.signal }
    this.#rival = await this.#rivals?.look(call)
    if (this.#rival) this.#lose(nobodyIf(this.#rival.holder, this.#options.identity))
    return this.#rival !== undefined
  }

  /** The moment from which it is this host's. Undefined when another one was faster. */
  async #write(observed: Observed | undefined): Promise<Moment | undefined> {
    const { clock, leaseMs } = this.#options
    // It runs from before it was asked for: nobody can have seen it earlier.
    const begun = this.#fence.moment()
    const lease = await this.#lease.write(observed, this.#stop.signal)
    if (!lease) return undefined
    this.#observed = observe(lease, this.#observed, clock.elapsed(), leaseMs)
    return begun
  }

  #win(begun: Moment): void {
    const { clock, leaseMs } = this.#options
    if (this.#stop.signal.aborted) return
    const safeMs = leaseMs * safeShare
    const leftMs = this.#fence.leftMs(begun, safeMs)
    this.#cancelDeadline()
    const lose = () => this.#lose(undefined)
    if (leftMs <= 0) return lose()
    this.#cancelDeadline = clock.after(leftMs, lose)
    this.#fence.open(begun, safeMs, lose)
    if (this.#leads) return
    this.#leads = true
    this.#hasSpoken = true
    this.#toldLeader = undefined
    this.#listener.elected()
  }

  #lose(leader: string | undefined): void {
    const isNew = this.#leads || !this.#hasSpoken || (leader !== undefined && leader !== this.#toldLeader)
    if (!isNew || this.#stop.signal.aborted) return
    this.#leads = false
    this.#hasSpoken = true
    this.#toldLeader = leader
    this.#fence.shut()
    this.#cancelDeadline()
    this.#listener.lost(leader)
  }

  #untilRunOutMs(): number {
    const observed = this.#observed
    if (this.#leads) return Infinity
    const since = this.#missingSince ?? observed?.at
    const end = this.#rival ? this.#rival.endsAt : since !== undefined ? since + this.#longestLeaseMs() : undefined
    return end === undefined ? Infinity : Math.max(50, end - this.#options.clock.elapsed())
  }

  /** Of this host, or of the one that was seen to lead. */
  #longestLeaseMs(): number {
    return Math.max(this.#options.leaseMs, this.#observed?.leaseMs ?? 0)
  }
}

/** This host itself does not lead, whatever is written there. */
function nobodyIf(holder: string, identity: string): string | undefined {
  return holder === '' || holder === identity ? undefined : holder
}

/** A leader stops before others may take over: its own clock may run a little slower than theirs. */
const safeShare = 0.9
