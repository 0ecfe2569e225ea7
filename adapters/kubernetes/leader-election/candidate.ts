/**
 * One host's candidacy in an election. Decides whether a lease has expired by the time at which this host saw it change,
 * never by other hosts' clocks. A leader that cannot renew its lease in time stops leading.
 */
import type { ElectionListener } from '../../../src/contracts/elector.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'
import { randomFraction } from '../client/watch.js'
import { type TimePoint, WriteFence } from '../client/write-fence.js'
import {
  FollowedLease,
  type LeaseDependencies,
  observe,
  type ObservedLease,
  otherHost,
  OwnLease,
  safeShare,
} from './lease.js'
import { type Rival, RivalLeases } from './rival-leases.js'

export interface CandidateDependencies extends LeaseDependencies {
  /** Allows writes only while this host holds the lease. */
  readonly fence?: WriteFence
  /** Resolves to true if an object exists that only a leader creates, so a leader has run before. Default: false. */
  readonly hasRun?: (signal: AbortSignal) => Promise<boolean>
  /** Called when this host has become the leader, with a sentence that says who led before. */
  readonly announce?: (message: string) => void
  /** Why this host must not take the lease. Default: nothing prevents it. */
  readonly obstacle?: () => string | undefined
}

export class Candidate {
  readonly #deps: CandidateDependencies
  readonly #listener: ElectionListener
  readonly #aborter = new AbortController()
  /** Cancels the requests of the present attempt. */
  #attempt = new AbortController()
  readonly #fence: WriteFence
  readonly #lease: OwnLease
  readonly #followed: FollowedLease
  readonly #rivals: RivalLeases | undefined
  #observed: ObservedLease | undefined
  /** The overlapping fleet's leader that prevented this host from leading at the last attempt. */
  #rival: Rival | undefined
  /** Elapsed ms at which the Lease was first found missing; -Infinity if no leader can have existed. */
  #missingSince: number | undefined
  #leads = false
  /** Whether this host knows that it may write the Lease. */
  #mayWrite = false
  #hasNotified = false
  /** The leader last reported to the listener. */
  #notifiedLeader: string | undefined
  /** Cancels the timer that ends leadership. */
  #cancelDeadline = () => {}
  #running: Promise<void> | undefined
  /** Ends the current pause. */
  #wake = () => {}
  /** Elapsed ms at which the last attempt began. */
  #attemptAt = -Infinity
  /** The Lease as this host has written it last. */
  #written: KubeObject | undefined
  /** Number of attempts that failed in a row. */
  #failures = 0
  /** The last failure that was logged. */
  #logged = { cause: '', at: -Infinity }
  /** Why this host cannot lead, as last reported. */
  #cause: string | undefined
  /** The other host that was last known to lead. */
  #lastLeader: string | undefined

  constructor(deps: CandidateDependencies, listener: ElectionListener) {
    this.#deps = deps
    this.#listener = listener
    this.#fence = deps.fence ?? new WriteFence(deps.clock)
    this.#lease = new OwnLease(deps)
    this.#followed = new FollowedLease(deps)
    this.#rivals = deps.scope && new RivalLeases({ ...deps, scope: deps.scope })
  }

  start(): void {
    this.#fence.close()
    this.#running = this.#run()
  }

  async resign(): Promise<void> {
    this.#aborter.abort()
    this.#attempt.abort()
    this.#wake()
    const led = this.#leads
    this.#leads = false
    this.#fence.close()
    this.#cancelDeadline()
    this.#followed.unwatch()
    await this.#running
    if (led) await this.#lease.release(this.#written)
  }

  async #run(): Promise<void> {
    const { api, clock } = this.#deps
    const { signal } = this.#aborter
    while (!signal.aborted && !api.closed) {
      // Set before the check, so that a release during the check is not missed.
      const waker = new AbortController()
      this.#wake = () => waker.abort()
      const attempt = (this.#attempt = new AbortController())
      this.#attemptAt = clock.elapsed()
      try {
        await this.#checkLease()
        this.#failures = 0
        this.#block(this.#leads ? undefined : this.#deps.obstacle?.())
      } catch (error) {
        if (signal.aborted) return
        const cause: unknown = attempt.signal.reason ?? error
        this.#failed(cause)
        this.#block(messageOf(cause))
        this.#followed.readNext()
        // A caller may be awaiting the first result, so report that this host is not the leader.
        if (!this.#hasNotified) this.#lose(undefined)
      }
      if (signal.aborted) return
      await api.pause(this.#pauseMs(), waker.signal)
    }
  }

  /** Logs the failure when its cause changes, and once a minute. */
  #failed(error: unknown): void {
    const { clock, logger } = this.#deps
    this.#failures++
    const message = `cannot ${this.#leads ? 'renew' : 'acquire'} the leader lease`
    const cause = `${message}: ${messageOf(error)}`
    if (cause === this.#logged.cause && clock.elapsed() < this.#logged.at + logMs) return
    this.#logged = { cause, at: clock.elapsed() }
    logger.warn({ err: error, failures: this.#failures }, message)
  }

  #block(cause: string | undefined): void {
    if (cause !== this.#cause) this.#listener.blocked?.(cause)
    this.#cause = cause
  }

  /** Takes over what the watch reports, which may be older than what this host has read or written. */
  #see(lease: KubeObject | undefined): void {
    const { clock, identity, leaseMs } = this.#deps
    if (this.#leads || !this.#followed.isWatching) return
    if (!lease) {
      this.#followed.readNext()
      return this.#wake()
    }
    const before = this.#observed
    if (before && Number(revisionOf(lease)) <= Number(before.revision)) return
    this.#missingSince = undefined
    this.#followed.seen()
    const observed = (this.#observed = observe(lease, before, clock.elapsed(), leaseMs))
    this.#lose(otherHost(observed.holder, identity))
    if (observed.isReleased) this.#wake()
  }

  /**
   * A leader makes at least three attempts per lease; one that was slow is followed by the next at once. The others take the lease
   * when it ends, and back off if that fails. Unless they watch it, they read it five times per lease, spread out by jitter; if they do,
   * every 30 s.
   */
  #pauseMs(): number {
    const { clock, leaseMs } = this.#deps
    if (this.#leads) return Math.max(0, this.#attemptAt + leaseMs / 4 - clock.elapsed())
    const jitter = 0.8 + 0.4 * randomFraction(clock)
    if (this.#failures > 0) return pauseMs(this.#failures, { initialMs: leaseMs / 20, maxMs: leaseMs }) * jitter
    const { msUntilRead } = this.#followed
    const isPolling = msUntilRead === 0 || this.#rival !== undefined
    return Math.min(isPolling ? (leaseMs / 5) * jitter : msUntilRead, this.#msUntilFree())
  }

  async #checkLease(): Promise<void> {
    const { clock, identity, leaseMs } = this.#deps
    if (await this.#checkWatched()) return
    // One conditional write renews the lease. The Lease is read if that fails, for example because someone edited it.
    const isHeld = this.#leads && this.#observed?.holder === identity
    if (isHeld && this.#failures === 0 && (await this.#renew(this.#observed))) return
    const lease = await this.#followed.read(() => this.#lease.read(this.#attempt.signal))
    this.#rival = undefined
    if (lease === undefined) return this.#createMissing()
    this.#missingSince = undefined
    const observed = (this.#observed = observe(lease, this.#observed, clock.elapsed(), leaseMs))
    if (this.#leads && observed.holder === identity) {
      await this.#renew(observed)
      return
    }
    if (!this.#leads && this.#isFree(observed)) return void (await this.#take(observed))
    this.#mayWrite ||= await this.#lease.checkRights(observed, this.#attempt.signal)
    this.#lose(otherHost(observed.holder, identity))
  }

  /**
   * Decides by what the watch has reported. A lease that the leader has renewed nevertheless cannot be taken, since the write is
   * conditional. Returns false if the Lease must be read.
   */
  async #checkWatched(): Promise<boolean> {
    // Until it is known that this host may write the Lease, it has to ask.
    if (this.#leads || !this.#mayWrite || this.#followed.msUntilRead === 0) return false
    if (this.#observed === undefined || this.#observed.holder === this.#deps.identity) return false
    this.#rival = undefined
    return !this.#isFree(this.#observed) || (await this.#take(this.#observed))
  }

  /**
   * Whether the lease may be taken. A lease that was not released must expire first, even if it names no holder: someone may
   * have edited it while its holder is still leading.
   */
  #isFree(observed: ObservedLease): boolean {
    if (observed.isReleased || this.#lease.isOwnWrite(observed)) return true
    return this.#deps.clock.elapsed() - observed.at >= this.#longestLeaseMs()
  }

  /**
   * Handles a missing Lease. A leader may recreate it and continue. Other hosts wait for one lease duration: by then, any
   * leader has either recreated it or noticed that it lost leadership.
   */
  async #createMissing(): Promise<void> {
    const { clock, hasRun } = this.#deps
    if (this.#leads) {
      // If another host created the Lease first, that host leads.
      if (!(await this.#renew(undefined))) this.#lose(undefined)
      return
    }
    if (this.#missingSince === undefined) {
      const mayHaveLeader = this.#observed !== undefined || (await hasRun?.(this.#attempt.signal))
      this.#missingSince = mayHaveLeader ? clock.elapsed() : -Infinity
    }
    if (clock.elapsed() >= this.#missingSince + this.#longestLeaseMs()) {
      await this.#take(undefined)
      return
    }
    if (!this.#hasNotified) this.#lose(undefined)
  }

  async #renew(observed: ObservedLease | undefined): Promise<boolean> {
    const start = await this.#write(observed)
    if (start) this.#win(start)
    return start !== undefined
  }

  /**
   * Checks for rivals again after the write, because two hosts may take overlapping leases simultaneously. Returns false if somebody else
   * has written the Lease.
   */
  async #take(observed: ObservedLease | undefined): Promise<boolean> {
    const obstacle = this.#deps.obstacle?.()
    if (obstacle !== undefined) throw new FleetError('unavailable', obstacle)
    if (await this.#hasRival()) return true
    const start = await this.#write(observed)
    if (!start) return false
    let mayLead = false
    try {
      mayLead = !(await this.#hasRival())
    } finally {
      if (!mayLead) await this.#lease.release(this.#written)
    }
    if (mayLead) this.#win(start)
    return true
  }

  async #hasRival(): Promise<boolean> {
    const options = { unlimited: true, timeoutMs: this.#lease.readTimeoutMs, signal: this.#attempt.signal }
    this.#rival = await this.#rivals?.find(options)
    if (this.#rival) this.#lose(otherHost(this.#rival.holder, this.#deps.identity))
    return this.#rival !== undefined
  }

  /** Returns when the lease started, or undefined if another host wrote it first. */
  async #write(observed: ObservedLease | undefined): Promise<TimePoint | undefined> {
    const { clock, leaseMs } = this.#deps
    // Taken before the request, so that it is earlier than any host can see the write.
    const start = this.#fence.timePoint()
    const lease = await this.#lease.write(observed, this.#attempt.signal)
    if (!lease) return undefined
    this.#written = lease
    this.#mayWrite = true
    this.#observed = observe(lease, this.#observed, clock.elapsed(), leaseMs)
    return start
  }

  #win(start: TimePoint): void {
    const { clock, leaseMs } = this.#deps
    if (this.#aborter.signal.aborted) return
    const safeMs = leaseMs * safeShare
    const remainingMs = this.#fence.remainingMs(start, safeMs)
    this.#cancelDeadline()
    // Nobody else can take the Lease now, so the next attempt comes soon.
    if (remainingMs <= 0 || this.#deps.obstacle?.() !== undefined) {
      this.#followed.readNext()
      return this.#lose(undefined)
    }
    const expire = () => this.#expire()
    this.#cancelDeadline = clock.after(remainingMs, expire)
    this.#fence.open(start, safeMs, expire)
    this.#followed.unwatch()
    if (this.#leads) return
    this.#leads = true
    this.#hasNotified = true
    this.#notifiedLeader = undefined
    this.#announce()
    this.#listener.elected()
  }

  #logLeader(leader: string | undefined): void {
    if (leader === undefined || leader === this.#lastLeader) return
    this.#lastLeader = leader
    const { namespace, name, logger } = this.#deps
    const since = this.#rival ? undefined : this.#observed?.acquiredAt
    logger.info({ leader, ...(since && { since }), lease: `${namespace}/${name}` }, 'another host leads the fleet')
  }

  #announce(): void {
    const { announce, identity } = this.#deps
    const before = this.#lastLeader
    this.#lastLeader = undefined
    announce?.(`${identity} leads the fleet${before === undefined ? '' : `, after ${before}`}`)
  }

  /** Gives up leadership, and aborts the attempt in progress: its result would come too late. The next attempt follows as on any host. */
  #expire(): void {
    this.#lose(undefined)
    this.#attempt.abort(new FleetError('unavailable', 'the Kubernetes API did not answer before the lease ended'))
  }

  #lose(leader: string | undefined): void {
    const isNew = this.#leads || !this.#hasNotified || (leader !== undefined && leader !== this.#notifiedLeader)
    if (!isNew || this.#aborter.signal.aborted) return
    this.#leads = false
    this.#hasNotified = true
    this.#notifiedLeader = leader
    this.#fence.close()
    this.#cancelDeadline()
    this.#followed.watch((lease) => this.#see(lease))
    this.#logLeader(leader)
    this.#listener.lost(leader)
  }

  #msUntilFree(): number {
    if (this.#leads) return Infinity
    const since = this.#missingSince ?? this.#observed?.at
    const end = this.#rival ? this.#rival.endsAt : since !== undefined ? since + this.#longestLeaseMs() : undefined
    return end === undefined ? Infinity : Math.max(50, end - this.#deps.clock.elapsed())
  }

  /** The longer of this host's lease duration and the observed one. */
  #longestLeaseMs(): number {
    return Math.max(this.#deps.leaseMs, this.#observed?.leaseMs ?? 0)
  }
}

/** A failure that persists is logged this often. */
const logMs = 60_000
