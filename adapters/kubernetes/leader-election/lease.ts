/** The Lease that the hosts of one fleet use to elect their leader: what it says, and how it is read, written, released and followed. */
import { createHash } from 'node:crypto'
import { FleetError } from '../../../src/contracts/errors.js'
import { objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { eitherSignal } from '../../../src/util/signals.js'
import { foundOrUndefined, statusOf } from '../client/api-errors.js'
import type { ApiContext } from '../client/api.js'
import { type KubeObject, leases, numberAt, pathOf, revisionOf, typeMetaOf } from '../client/kube-objects.js'
import { randomFraction, watchCollection } from '../client/watch.js'

/** The API group and namespaces that a fleet covers. Undefined namespaces mean all in the cluster. */
export interface Scope {
  readonly group: string
  readonly namespaces: readonly string[] | undefined
}

export interface ObservedLease {
  /** Identity of the holder; empty if there is none. */
  readonly holder: string
  /** Changes whenever the Lease is renewed. */
  readonly revision: string
  /** Elapsed ms at which this host first saw this revision. */
  readonly at: number
  readonly transitions: number
  /** The longest duration seen since the last renewal: a manual edit must not shorten a lease that its holder relies on. */
  readonly leaseMs: number
  /** The `renewTime` written by the holder; manual edits normally leave it unchanged. */
  readonly renewTime: string
  /** When its holder took it, as the holder wrote it; empty if unknown. */
  readonly acquiredAt: string
  /** Whether its holder has released it, having already stopped leading. */
  readonly isReleased: boolean
}

/** Duration that marks a Lease as released, in seconds. Held leases last at least 2 s. */
const releasedSeconds = 1

/**
 * A leader stops at this share of its lease, because its clock may run slower than those of the hosts waiting to take over.
 */
export const safeShare = 0.9

/** `leaseMs` is the duration to assume for a Lease that specifies none. */
export function observe(
  lease: KubeObject,
  before: ObservedLease | undefined,
  at: number,
  leaseMs: number,
): ObservedLease {
  const revision = revisionOf(lease)
  if (before?.revision === revision) return before
  const spec = objectAt(lease, 'spec')
  const holder = stringAt(spec, 'holderIdentity') ?? ''
  const seconds = numberAt(spec, 'leaseDurationSeconds')
  const renewTime = stringAt(spec, 'renewTime') ?? ''
  const ownMs = seconds === undefined ? leaseMs : seconds * 1_000
  return {
    holder,
    revision,
    at,
    renewTime,
    transitions: numberAt(spec, 'leaseTransitions') ?? 0,
    leaseMs: before?.renewTime === renewTime ? Math.max(before.leaseMs, ownMs) : ownMs,
    acquiredAt: stringAt(spec, 'acquireTime') ?? '',
    isReleased: holder === '' && seconds === releasedSeconds,
  }
}

/** Undefined if the Lease names no holder, or names this host although it may not lead. */
export function otherHost(holder: string, identity: string): string | undefined {
  return holder === '' || holder === identity ? undefined : holder
}

/** Name of the fleet's Lease; the same on all of its hosts. */
export function leaseName({ group, namespaces }: Scope): string {
  if (!namespaces) return group
  const hash = createHash('sha256').update(namespaces.toSorted().join(' ')).digest('hex')
  return `${group}.${hash.slice(0, 8)}`
}

/** The leader's address. Undefined if the Lease is not held or its holder has none. */
export function addressIn(lease: KubeObject, scope: Pick<Scope, 'group'>): string | undefined {
  const holder = stringAt(objectAt(lease, 'spec'), 'holderIdentity') ?? ''
  return holder === '' ? undefined : lease.metadata.annotations?.[addressKey(scope)]
}

/**
 * The scope of the fleet that uses this Lease, or undefined if the Lease does not belong to a fleet in this group. A Lease whose
 * annotation somebody has removed counts as covering all namespaces.
 */
export function scopeOf(lease: KubeObject, group: string): Scope | undefined {
  const { name, annotations = {} } = lease.metadata
  const isHashed = name.startsWith(`${group}.`) && /^[0-9a-f]{8}$/.test(name.slice(group.length + 1))
  if (name !== group && !isHashed) return undefined
  const { [scopeKey({ group })]: written = allNamespaces } = annotations
  return { group, namespaces: written === allNamespaces ? undefined : written.split(',') }
}

/** Whether both scopes have a namespace in common. */
export function overlaps(own: Scope, other: Scope): boolean {
  if (!own.namespaces) return true
  return other.namespaces?.some((namespace) => own.namespaces?.includes(namespace)) ?? true
}

const allNamespaces = '*'

/** The annotation by which the leader tells the other hosts where it receives the calls that they forward. */
function addressKey({ group }: Pick<Scope, 'group'>): string {
  return `${group}/address`
}

/** The annotation by which other fleets detect that their scope overlaps with this one. */
function scopeKey({ group }: Pick<Scope, 'group'>): string {
  return `${group}/namespaces`
}

export interface LeaseDependencies extends ApiContext {
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

/** Reads, writes and releases the Lease that the hosts of one fleet use to elect their leader. */
export class OwnLease {
  readonly #deps: LeaseDependencies
  /** The `renewTime` of this host's last write. Undefined if that had no effect, for certain. */
  #renewTime: string | undefined

  constructor(deps: LeaseDependencies) {
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
    const what = `get lease ${namespace}/${name}`
    return foundOrUndefined(
      api.object({ what, method: 'GET', path, ...callFlags, timeoutMs: this.readTimeoutMs, signal }),
    )
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
    const { signal: settled, abort, release } = eitherSignal(signal, undefined)
    const first = write(settled)
    const second = this.#isSlow(first).then((isSlow) => (isSlow ? write(settled) : first))
    try {
      return await Promise.race([Promise.any([first, second]), refusalOf(first), refusalOf(second)])
    } catch (error) {
      if (isRefusal(error)) throw error
      // Both have failed.
      return await first
    } finally {
      abort()
      release()
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
    const spec = objectAt(lease, 'spec')
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
          [scopeKey(scope)]: scope.namespaces?.toSorted().join(',') ?? allNamespaces,
          ...(isHeld && address !== undefined && { [addressKey(scope)]: address }),
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

/** A host whose credentials were revoked learns it from its next request: a watch that is open goes on until it ends. */
const readAgainMs = 30_000

/** How a host that does not lead follows the Lease: it watches it, and reads it whenever the watch is not enough. */
export class FollowedLease {
  readonly #deps: LeaseDependencies
  #stop: (() => void) | undefined
  /** Whether the watch reports each change of the Lease, so that it need not be read. */
  #isOpen = false
  #mustRead = true
  /** Elapsed ms at which the Lease was last read successfully. */
  #readAt = -Infinity

  constructor(deps: LeaseDependencies) {
    this.#deps = deps
  }

  get isWatching(): boolean {
    return this.#stop !== undefined
  }

  /** Ms until the Lease must be read; 0 if it must be read now. */
  get msUntilRead(): number {
    if (!this.#isOpen || this.#mustRead) return 0
    return Math.max(0, this.#readAt + readAgainMs - this.#deps.clock.elapsed())
  }

  /** `seen` is called with each change; undefined: the Lease does not exist. */
  watch(seen: (lease: KubeObject | undefined) => void): void {
    this.#stop ??= watchLease(this.#deps, seen, (isFollowing) => (this.#isOpen = isFollowing))
  }

  unwatch(): void {
    this.#stop?.()
    this.#stop = undefined
    this.#isOpen = false
  }

  /** The Lease must be read although the watch is open: it was deleted, or the last attempt failed. */
  readNext(): void {
    this.#mustRead = true
  }

  async read(read: () => Promise<KubeObject | undefined>): Promise<KubeObject | undefined> {
    // Before the request, so that a deletion meanwhile is not missed.
    this.#mustRead = false
    const lease = await read()
    this.#readAt = this.#deps.clock.elapsed()
    return lease
  }

  /** The watch has reported the Lease. */
  seen(): void {
    this.#mustRead = false
  }
}

/**
 * Watches a Lease until the returned function is called, so that a host that does not lead needs no requests to learn that the leader is alive.
 * Gives up if this host may not watch Leases; it then finds out by polling. `seen` gets undefined if the Lease does not exist; `following` hears
 * whether changes are reported from now on.
 */
export function watchLease(
  deps: LeaseDependencies,
  seen: (lease: KubeObject | undefined) => void,
  following: (isFollowing: boolean) => void = () => {},
): () => void {
  const { logger, namespace, name } = deps
  const query = { fieldSelector: `metadata.name=${name}` }
  const stop = watchCollection(
    { ...deps, what: 'the leader lease', path: pathOf(leases, { namespace }), query },
    {
      listed: (objects) => seen(objects.find(({ metadata }) => metadata.name === name)),
      changed: seen,
      deleted: () => seen(undefined),
      followed: () => following(true),
      broken: (error) => {
        following(false)
        if (statusOf(error) !== 403) return
        stop()
        logger.warn({ namespace }, 'not allowed to watch leases: takes over later when the leader shuts down')
      },
    },
  )
  return stop
}
