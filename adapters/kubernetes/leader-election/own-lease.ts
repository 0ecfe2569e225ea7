/** Reads, writes and releases the Lease that the hosts of one fleet use to elect their leader. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubernetesApi } from '../client/api.js'
import { statusOf } from '../client/api-errors.js'
import { randomFraction } from '../client/jitter.js'
import { type KubeObject, leases, pathOf, revisionOf, typeMetaOf } from '../client/kube-objects.js'
import { addressAnnotation, type ObservedLease, releasedSeconds, type Scope, scopeAnnotation } from './lease.js'

export interface OwnLeaseDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly namespace: string
  /** Name of the Lease. */
  readonly name: string
  /** Name of this host, unique within the fleet. */
  readonly identity: string
  /**
   * A leader that has not renewed the Lease for this long is no longer the leader; another host takes over at most a second
   * later.
   */
  readonly leaseMs: number
  /** Default: no other fleet can overlap with this one. */
  readonly scope?: Scope
  /** Where this host receives forwarded calls while it leads. */
  readonly address?: string | undefined
}

export class OwnLease {
  readonly #deps: OwnLeaseDependencies
  /** The `renewTime` of this host's last write. Undefined if that had no effect, for certain. */
  #renewTime: string | undefined

  constructor(deps: OwnLeaseDependencies) {
    this.#deps = deps
  }

  /** Short enough for a second attempt within one lease duration. */
  get readTimeoutMs(): number {
    return this.#deps.leaseMs / 2
  }

  /** Whether this host was the last to write the Lease. */
  isOwnWrite({ holder, renewTime }: ObservedLease): boolean {
    return holder === this.#deps.identity && renewTime === this.#renewTime
  }

  /** Returns undefined if the Lease does not exist. */
  async read(signal?: AbortSignal): Promise<KubeObject | undefined> {
    const { api, namespace, name } = this.#deps
    const path = pathOf(leases, { namespace, name })
    try {
      const what = `get lease ${namespace}/${name}`
      return await api.object({ what, method: 'GET', path, ...callFlags, timeoutMs: this.readTimeoutMs, signal })
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  /**
   * Takes or renews the Lease by compare-and-swap. Returns undefined if it was written or deleted meanwhile. A slow API server may use
   * the whole lease duration: giving up earlier would waste a write that is about to succeed.
   */
  async write(observed: ObservedLease | undefined, signal: AbortSignal): Promise<KubeObject | undefined> {
    const { api, clock, namespace, name, identity, leaseMs } = this.#deps
    // Hosts that wait for the same lease to end write at the same millisecond. The microseconds tell their writes apart.
    const micros = String(Math.floor(1_000 * randomFraction(clock))).padStart(3, '0')
    const now = new Date(clock.now()).toISOString().replace('Z', `${micros}Z`)
    const isRenewal = observed?.holder === identity
    this.#renewTime = now
    const body = this.#object(observed?.revision, {
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(releasedSeconds, Math.ceil(leaseMs / 1_000)),
      renewTime: now,
      ...(!isRenewal && { acquireTime: now }),
      leaseTransitions: (observed?.transitions ?? -1) + (isRenewal ? 0 : 1),
    })
    let sent = 0
    try {
      return await this.#writeTwice(signal, (each) => {
        sent++
        return api.object({
          what: `${observed ? 'update' : 'create'} lease ${namespace}/${name}`,
          method: observed ? 'PUT' : 'POST',
          path: pathOf(leases, observed ? { namespace, name } : { namespace }),
          body,
          ...callFlags,
          timeoutMs: leaseMs,
          signal: each,
        })
      })
    } catch (error) {
      const isDeleted = observed !== undefined && FleetError.is(error, 'not-found')
      if (!isDeleted && !FleetError.is(error, 'conflict')) throw error
      // Of two, one may have had its effect, and the other is refused because of that.
      if (sent === 1) this.#renewTime = undefined
      return undefined
    }
  }

  /**
   * Whether this host may write the Lease. Rejects if not, so that it could never lead. False: the API server did not say. Nothing is written.
   */
  async checkRights({ revision }: ObservedLease, signal: AbortSignal): Promise<boolean> {
    const { api, namespace, name, identity } = this.#deps
    const what = `update lease ${namespace}/${name}`
    const path = pathOf(leases, { namespace, name })
    const body = this.#object(revision, { holderIdentity: identity })
    const call = { what, method: 'PUT', path, query: { dryRun: 'All' }, body, ...callFlags } as const
    try {
      await api.object({ ...call, timeoutMs: this.readTimeoutMs, signal })
      return true
    } catch (error) {
      if (statusOf(error) === 403) throw error
      // The leader renewed the Lease meanwhile. The API server checks rights before revisions, so this host has them.
      return statusOf(error) === 409
    }
  }

  /**
   * Sends the same write again, on another connection, if there is no answer after a quarter of the lease: the first connection may be
   * dead. Both are conditional on the same revision, so at most one has an effect. Resolves with the one that succeeds.
   */
  async #writeTwice(signal: AbortSignal, write: (signal: AbortSignal) => Promise<KubeObject>): Promise<KubeObject> {
    const settled = new AbortController()
    const end = () => settled.abort()
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    const first = write(settled.signal)
    const second = this.#isSlow(first).then((isSlow) => (isSlow ? write(settled.signal) : first))
    try {
      return await Promise.race([Promise.any([first, second]), refusalOf(first), refusalOf(second)])
    } catch (error) {
      if (isRefusal(error)) throw error
      // Both have failed.
      return await first
    } finally {
      end()
      signal.removeEventListener('abort', end)
    }
  }

  /** Resolves with whether this write has no result yet after a quarter of the lease. */
  async #isSlow(write: Promise<unknown>): Promise<boolean> {
    const answered = new AbortController()
    const stop = () => answered.abort()
    write.then(stop, stop)
    await this.#deps.api.pause(this.#deps.leaseMs / 4, answered.signal)
    return !answered.signal.aborted
  }

  /**
   * Does nothing if another host holds the Lease. Never rejects: a lease that is not released simply expires. `last` is the Lease as
   * this host has written it last; without it, or if somebody has written it since, the Lease is read first.
   */
  async release(last?: KubeObject): Promise<void> {
    const { logger, leaseMs } = this.#deps
    try {
      if (last && (await this.#isReleasedFrom(last))) return
      const lease = await this.read()
      if (lease) await this.#releaseFrom(lease)
    } catch (error) {
      logger.info({ err: error, expiresInMs: leaseMs }, 'cannot release the leader lease; it will expire')
    }
  }

  /** Returns false if somebody else has written the Lease since. */
  async #isReleasedFrom(last: KubeObject): Promise<boolean> {
    try {
      await this.#releaseFrom(last)
      return true
    } catch (error) {
      if (isRefusal(error)) return false
      throw error
    }
  }

  async #releaseFrom(lease: KubeObject): Promise<void> {
    const { api, namespace, name, identity } = this.#deps
    const spec = isObject(lease['spec']) ? lease['spec'] : {}
    if (spec['holderIdentity'] !== identity) return
    const released = { ...spec, holderIdentity: '', leaseDurationSeconds: releasedSeconds }
    const body = this.#object(revisionOf(lease), released, false)
    const path = pathOf(leases, { namespace, name })
    const what = `release lease ${namespace}/${name}`
    await api.object({ what, method: 'PUT', path, body, ...callFlags, timeoutMs: this.readTimeoutMs })
  }

  #object(resourceVersion: string | undefined, spec: object, isHeld = true): object {
    const { namespace, name, scope, address } = this.#deps
    const metadata = {
      namespace,
      name,
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(scope && {
        annotations: {
          ...scopeAnnotation(scope),
          ...(isHeld && address !== undefined && addressAnnotation(scope, address)),
        },
      }),
    }
    return { ...typeMetaOf(leases), metadata, spec }
  }
}

/**
 * Rejects once the write is refused because the Lease is another one by now, and settles in no other way. The other attempt has had its
 * effect then, or will never have one, so waiting for its answer gains nothing.
 */
function refusalOf(write: Promise<unknown>): Promise<never> {
  return new Promise((_, reject) => {
    write.catch((error: unknown) => {
      if (isRefusal(error)) reject(error)
    })
  })
}

function isRefusal(error: unknown): boolean {
  return FleetError.is(error, 'conflict') || FleetError.is(error, 'not-found')
}

/** Lease calls never wait in a queue, and every host may make them, not only the leader. */
const callFlags = { unlimited: true, unfenced: true } as const
