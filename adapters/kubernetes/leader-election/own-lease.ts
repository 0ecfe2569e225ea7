/** Reads, writes and releases the Lease that the hosts of one fleet use to elect their leader. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, leases, pathOf, revisionOf, typeMetaOf } from '../client/kube-objects.js'
import { type ObservedLease, releasedSeconds, type Scope, scopeAnnotation } from './lease.js'

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
}

export class OwnLease {
  readonly #deps: OwnLeaseDependencies
  /** The `renewTime` of this host's last write, whether or not it succeeded. */
  #renewTime: string | undefined

  constructor(deps: OwnLeaseDependencies) {
    this.#deps = deps
  }

  /** Short enough for several attempts within one lease duration. */
  get callTimeoutMs(): number {
    return this.#deps.leaseMs / 4
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
      return await api.object({ what, method: 'GET', path, ...callFlags, timeoutMs: this.callTimeoutMs, signal })
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  /** Takes or renews the Lease by compare-and-swap. Returns undefined if it was written or deleted meanwhile. */
  async write(observed: ObservedLease | undefined, signal: AbortSignal): Promise<KubeObject | undefined> {
    const { api, clock, namespace, name, identity, leaseMs } = this.#deps
    const now = new Date(clock.now()).toISOString().replace('Z', '000Z')
    const isRenewal = observed?.holder === identity
    this.#renewTime = now
    const body = this.#object(observed?.revision, {
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(releasedSeconds, Math.ceil(leaseMs / 1_000)),
      renewTime: now,
      ...(!isRenewal && { acquireTime: now }),
      leaseTransitions: (observed?.transitions ?? -1) + (isRenewal ? 0 : 1),
    })
    try {
      return await api.object({
        what: `${observed ? 'update' : 'create'} lease ${namespace}/${name}`,
        method: observed ? 'PUT' : 'POST',
        path: pathOf(leases, observed ? { namespace, name } : { namespace }),
        body,
        ...callFlags,
        timeoutMs: this.callTimeoutMs,
        signal,
      })
    } catch (error) {
      const isDeleted = observed !== undefined && FleetError.is(error, 'not-found')
      if (isDeleted || FleetError.is(error, 'conflict')) return undefined
      throw error
    }
  }

  /** Does nothing if another host holds the Lease. Never rejects: a lease that is not released simply expires. */
  async release(): Promise<void> {
    const { api, namespace, name, identity, logger, leaseMs } = this.#deps
    try {
      const lease = await this.read()
      const spec = isObject(lease?.['spec']) ? lease['spec'] : {}
      if (lease === undefined || spec['holderIdentity'] !== identity) return
      const released = { ...spec, holderIdentity: '', leaseDurationSeconds: releasedSeconds }
      const body = this.#object(revisionOf(lease), released)
      const path = pathOf(leases, { namespace, name })
      const what = `release lease ${namespace}/${name}`
      await api.object({ what, method: 'PUT', path, body, ...callFlags, timeoutMs: this.callTimeoutMs })
    } catch (error) {
      logger.info({ err: error, expiresInMs: leaseMs }, 'cannot release the leader lease; it will expire')
    }
  }

  #object(resourceVersion: string | undefined, spec: object): object {
    const { namespace, name, scope } = this.#deps
    const metadata = {
      ...{ namespace, name, ...(resourceVersion !== undefined && { resourceVersion }) },
      ...(scope && { annotations: scopeAnnotation(scope) }),
    }
    return { ...typeMetaOf(leases), metadata, spec }
  }
}

/** Lease calls never wait in a queue, and every host may make them, not only the leader. */
const callFlags = { unlimited: true, unfenced: true } as const
