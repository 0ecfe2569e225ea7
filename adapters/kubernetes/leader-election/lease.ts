/** Reads Lease objects: their holder, when this host saw them change, and which namespaces their fleet covers. Pure. */
import { createHash } from 'node:crypto'
import { fieldsAt, numberAt, textAt } from '../client/fields.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'

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
  /** Whether its holder has released it. */
  readonly isReleased: boolean
}

/** Duration that marks a Lease as released, in seconds. Held leases last at least 2 s. */
export const releasedSeconds = 1

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
  const spec = fieldsAt(lease, 'spec')
  const holder = textAt(spec, 'holderIdentity') ?? ''
  const seconds = numberAt(spec, 'leaseDurationSeconds')
  const renewTime = textAt(spec, 'renewTime') ?? ''
  const ownMs = seconds === undefined ? leaseMs : seconds * 1_000
  return {
    holder,
    revision,
    at,
    renewTime,
    transitions: numberAt(spec, 'leaseTransitions') ?? 0,
    leaseMs: before?.renewTime === renewTime ? Math.max(before.leaseMs, ownMs) : ownMs,
    acquiredAt: textAt(spec, 'acquireTime') ?? '',
    isReleased: isReleased(lease),
  }
}

/** Whether the holder has released the Lease, having already stopped leading. */
export function isReleased(lease: KubeObject): boolean {
  const spec = fieldsAt(lease, 'spec')
  const holder = textAt(spec, 'holderIdentity') ?? ''
  return holder === '' && numberAt(spec, 'leaseDurationSeconds') === releasedSeconds
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

/** The annotation by which other fleets detect that their scope overlaps with this one. */
export function scopeAnnotation({ group, namespaces }: Scope): Readonly<Record<string, string>> {
  return { [annotationKey(group)]: namespaces?.toSorted().join(',') ?? allNamespaces }
}

/** The annotation by which the leader tells the other hosts where it receives the calls that they forward. */
export function addressAnnotation({ group }: Scope, address: string): Readonly<Record<string, string>> {
  return { [addressKey(group)]: address }
}

/** The leader's address. Undefined if the Lease is not held or its holder has none. */
export function addressIn(lease: KubeObject, { group }: Scope): string | undefined {
  const holder = textAt(fieldsAt(lease, 'spec'), 'holderIdentity') ?? ''
  return holder === '' ? undefined : lease.metadata.annotations?.[addressKey(group)]
}

/**
 * The scope of the fleet that uses this Lease, or undefined if the Lease does not belong to a fleet in this group. A Lease whose
 * annotation somebody has removed counts as covering all namespaces.
 */
export function scopeOf(lease: KubeObject, group: string): Scope | undefined {
  const { name, annotations = {} } = lease.metadata
  const isHashed = name.startsWith(`${group}.`) && /^[0-9a-f]{8}$/.test(name.slice(group.length + 1))
  if (name !== group && !isHashed) return undefined
  const { [annotationKey(group)]: written = allNamespaces } = annotations
  return { group, namespaces: written === allNamespaces ? undefined : written.split(',') }
}

/** Whether both scopes have a namespace in common. */
export function overlaps(own: Scope, other: Scope): boolean {
  if (!own.namespaces) return true
  return other.namespaces?.some((namespace) => own.namespaces?.includes(namespace)) ?? true
}

const allNamespaces = '*'

function addressKey(group: string): string {
  return `${group}/address`
}

function annotationKey(group: string): string {
  return `${group}/namespaces`
}
