/**
 * Elects one of any number of hosts by a Lease. Whether a lease has run out is judged by when this host saw it change, never
 * by the clocks of others; and a host that could not renew its own in time leads no more, whatever the reason.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '../../src/clock.js'
import type { ElectionListener, Elector } from '../../src/elector.js'
import { FleetError, messageOf } from '../../src/errors.js'
import type { Logger } from '../../src/logger.js'
import { isObject } from '../../src/rules/problem.js'
import type { KubernetesApi } from './api.js'
import { Fence, type Moment } from './fence.js'
import { headOf } from './fleet-resources.js'
import { type KubeObject, leases, pathOf, revisionOf } from './kube-objects.js'
import { chanceOf } from './watch.js'

export interface LeaseElectorOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly namespace: string
  /** Of the Lease. */
  readonly name: string
  /** Names this host, for others to say who leads. No two hosts may have the same. */
  readonly identity: string
  /** After which a leader that is not heard of leads no more. Others take over within it, and a second. */
  readonly leaseMs: number
  /** Shut but for the time of this host's lease. */
  readonly fence?: Fence
  /** Whether there is anything that only a leader can have made. Default: there is not. */
  readonly hasRun?: (signal: AbortSignal) => Promise<boolean>
}

interface Observed {
  readonly holder: string
  /** Changes with every renewal. */
  readonly revision: string
  /** Elapsed ms at which this host saw it first. */
  readonly at: number
  readonly transitions: number
  readonly leaseMs: number
}

export function leaseElector(options: LeaseElectorOptions): Elector {
  return Object.freeze({
    run(listener: ElectionListener) {
      const candidate = new Candidate(options, listener)
      candidate.start()
      return () => candidate.resign()
    },
  })
}

/** Of the fleet in these namespaces; all of its hosts are told the same. */
export function leaseName(group: string, namespaces: readonly string[] | undefined): string {
  if (!namespaces) return group
  const hash = createHash('sha256')
    .update([...namespaces].sort().join(' '))
    .digest('hex')
  return `${group}.${hash.slice(0, 8)}`
}

class Candidate {
  readonly #options: LeaseElectorOptions
  readonly #listener: ElectionListener
  readonly #stop = new AbortController()
  readonly #fence: Fence
  #observed: Observed | undefined
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
    if (led) await this.#release()
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
    const { clock, identity } = this.#options
    const lease = await this.#read()
    if (lease === undefined) return this.#replace()
    this.#missingSince = undefined
    const observed = this.#observe(lease)
    const isOver = observed.holder === '' || clock.elapsed() - observed.at >= observed.leaseMs
    if (observed.holder === identity || isOver) await this.#write(observed)
    else this.#lose(observed.holder)
  }

  /**
   * There is no Lease. Who leads may make another one and go on. The others do not know whether anybody leads: whoever did
   * has made another one, or has noticed that it leads no more, once a lease has passed.
   */
  async #replace(): Promise<void> {
    const { clock, hasRun } = this.#options
    if (this.#leads) {
      // Somebody else was faster, and leads.
      if (!(await this.#write(undefined))) this.#lose(undefined)
      return
    }
    if (this.#missingSince === undefined) {
      const mayBeLed = this.#observed !== undefined || (await hasRun?.(this.#stop.signal))
      this.#missingSince = mayBeLed ? clock.elapsed() : -Infinity
    }
    if (clock.elapsed() >= this.#missingSince + this.#longestLeaseMs()) await this.#write(undefined)
    else if (!this.#hasSpoken) this.#lose(undefined)
  }

  #observe(lease: KubeObject): Observed {
    const revision = revisionOf(lease)
    if (this.#observed?.revision === revision) return this.#observed
    const spec = isObject(lease['spec']) ? lease['spec'] : {}
    const { holderIdentity, leaseTransitions, leaseDurationSeconds } = spec
    this.#observed = {
      holder: typeof holderIdentity === 'string' ? holderIdentity : '',
      revision,
      at: this.#options.clock.elapsed(),
      transitions: typeof leaseTransitions === 'number' ? leaseTransitions : 0,
      leaseMs: typeof leaseDurationSeconds === 'number' ? leaseDurationSeconds * 1_000 : this.#options.leaseMs,
    }
    return this.#observed
  }

  /** Upon what was observed, so that of two that want it one gets it. False for the other. */
  async #write(observed: Observed | undefined): Promise<boolean> {
    const { api, clock, namespace, name, identity, leaseMs } = this.#options
    const now = new Date(clock.now()).toISOString().replace('Z', '000Z')
    const isRenewal = observed?.holder === identity
    const begun = this.#fence.moment()
    const body = {
      ...headOf(leases),
      metadata: { namespace, name, ...(observed && { resourceVersion: observed.revision }) },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: Math.max(1, Math.ceil(leaseMs / 1_000)),
        renewTime: now,
        ...(!isRenewal && { acquireTime: now }),
        leaseTransitions: (observed?.transitions ?? -1) + (isRenewal ? 0 : 1),
      },
    }
    const at = observed ? { namespace, name } : { namespace }
    try {
      const lease = await api.object({
        what: `${observed ? 'write' : 'create'} lease ${namespace}/${name}`,
        method: observed ? 'PUT' : 'POST',
        path: pathOf(leases, at),
        body,
        ...apart,
        limitMs: this.#callMs(),
        signal: this.#stop.signal,
      })
      this.#observe(lease)
      // It runs from before it was asked for: nobody can have seen it earlier.
      this.#win(begun)
      return true
    } catch (error) {
      // The next look tells who.
      if (FleetError.is(error, 'conflict')) return false
      throw error
    }
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

  async #release(): Promise<void> {
    const { api, namespace, name, identity, logger } = this.#options
    const { leaseMs } = this.#options
    try {
      const path = pathOf(leases, { namespace, name })
      const call = { path, ...apart, limitMs: this.#callMs() }
      const lease = await api.object({ what: `read lease ${namespace}/${name}`, method: 'GET', ...call })
      const spec = isObject(lease['spec']) ? lease['spec'] : {}
      if (spec['holderIdentity'] !== identity) return
      const body = {
        ...headOf(leases),
        metadata: { namespace, name, resourceVersion: revisionOf(lease) },
        spec: { ...spec, holderIdentity: '', leaseDurationSeconds: 1 },
      }
      await api.object({ what: `give up lease ${namespace}/${name}`, method: 'PUT', body, ...call })
    } catch (error) {
      // It runs out by itself.
      logger.info({ error: messageOf(error) }, `the lease could not be given up; it runs out in ${leaseMs / 1_000} s`)
    }
  }

  async #read(): Promise<KubeObject | undefined> {
    const { api, namespace, name } = this.#options
    const call = { path: pathOf(leases, { namespace, name }), ...apart, limitMs: this.#callMs() }
    try {
      const what = `read lease ${namespace}/${name}`
      return await api.object({ what, method: 'GET', ...call, signal: this.#stop.signal })
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  /** Several tries must fit into a lease. */
  #callMs(): number {
    return this.#options.leaseMs / 4
  }

  #untilRunOutMs(): number {
    const observed = this.#observed
    if (this.#leads) return Infinity
    const missing = this.#missingSince
    const end = missing === undefined ? observed && observed.at + observed.leaseMs : missing + this.#longestLeaseMs()
    return end === undefined ? Infinity : Math.max(50, end - this.#options.clock.elapsed())
  }

  /** Of this host, or of the one that was seen to lead. */
  #longestLeaseMs(): number {
    return Math.max(this.#options.leaseMs, this.#observed?.leaseMs ?? 0)
  }
}

/** Calls about the lease wait for no other, and are made by every host. */
const apart = { urgent: true, unfenced: true } as const
/** A leader stops before others may take over: its own clock may run a little slower than theirs. */
const safeShare = 0.9
