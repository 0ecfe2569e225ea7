/** The Lease by which the hosts of one fleet know who leads: read, written upon what was seen, and given up. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubernetesApi } from '../client/api.js'
import { headOf } from '../store/custom-resources.js'
import { type KubeObject, leases, pathOf, revisionOf } from '../client/kube-objects.js'
import { givenUpSeconds, type Observed, type Reach, reachAnnotation } from './lease.js'

export interface OwnLeaseDependencies {
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
  /** What the fleet is in. Default: there is no other fleet whose hosts might lead the same. */
  readonly reach?: Reach
}

export class OwnLease {
  readonly #parts: OwnLeaseDependencies
  /** The time that this host has last written, or tried to. */
  #renewed: string | undefined

  constructor(parts: OwnLeaseDependencies) {
    this.#parts = parts
  }

  /** Several tries must fit into a lease. */
  get callTimeoutMs(): number {
    return this.#parts.leaseMs / 4
  }

  /** Nobody else has written it since this host did. */
  isUntouched({ holder, renewed }: Observed): boolean {
    return holder === this.#parts.identity && renewed === this.#renewed
  }

  /** Undefined when there is none. */
  async read(signal?: AbortSignal): Promise<KubeObject | undefined> {
    const { api, namespace, name } = this.#parts
    const path = pathOf(leases, { namespace, name })
    try {
      const what = `read lease ${namespace}/${name}`
      return await api.object({ what, method: 'GET', path, ...apart, limitMs: this.callTimeoutMs, signal })
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  /** Upon what was observed, so that of two that want it one gets it. Undefined for the other. */
  async write(observed: Observed | undefined, signal: AbortSignal): Promise<KubeObject | undefined> {
    const { api, clock, namespace, name, identity, leaseMs } = this.#parts
    const now = new Date(clock.now()).toISOString().replace('Z', '000Z')
    const isRenewal = observed?.holder === identity
    this.#renewed = now
    const body = this.#object(observed?.revision, {
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(givenUpSeconds, Math.ceil(leaseMs / 1_000)),
      renewTime: now,
      ...(!isRenewal && { acquireTime: now }),
      leaseTransitions: (observed?.transitions ?? -1) + (isRenewal ? 0 : 1),
    })
    const at = observed ? { namespace, name } : { namespace }
    try {
      return await api.object({
        what: `${observed ? 'write' : 'create'} lease ${namespace}/${name}`,
        method: observed ? 'PUT' : 'POST',
        path: pathOf(leases, at),
        body,
        ...apart,
        limitMs: this.callTimeoutMs,
        signal,
      })
    } catch (error) {
      // The next look tells who.
      if (FleetError.is(error, 'conflict')) return undefined
      throw error
    }
  }

  /** If it is this host's. A failure is told and no more: the lease runs out by itself. */
  async giveUp(): Promise<void> {
    const { api, namespace, name, identity, logger, leaseMs } = this.#parts
    try {
      const lease = await this.read()
      const spec = isObject(lease?.['spec']) ? lease['spec'] : {}
      if (lease === undefined || spec['holderIdentity'] !== identity) return
      const given = { ...spec, holderIdentity: '', leaseDurationSeconds: givenUpSeconds }
      const body = this.#object(revisionOf(lease), given)
      const path = pathOf(leases, { namespace, name })
      const what = `give up lease ${namespace}/${name}`
      await api.object({ what, method: 'PUT', path, body, ...apart, limitMs: this.callTimeoutMs })
    } catch (error) {
      logger.info({ error: messageOf(error) }, `the lease could not be given up; it runs out in ${leaseMs / 1_000} s`)
    }
  }

  #object(resourceVersion: string | undefined, spec: object): object {
    const { namespace, name, reach } = this.#parts
    const metadata = {
      ...{ namespace, name, ...(resourceVersion !== undefined && { resourceVersion }) },
      ...(reach && { annotations: reachAnnotation(reach) }),
    }
    return { ...headOf(leases), metadata, spec }
  }
}

/** Calls about the lease wait for no other, and are made by every host. */
const apart = { urgent: true, unfenced: true } as const
