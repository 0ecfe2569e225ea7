/** Reads Lease objects: the holder, when this host saw it change, and which namespaces its fleet covers. Pure. */
import { createHash } from 'node:crypto'
import { fieldsAt, numberAt, textAt } from '../client/fields.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'

/** What a fleet covers; undefined namespaces: all of the cluster. */
export interface Scope {
  readonly group: string
  readonly namespaces: readonly string[] | undefined
}

export interface ObservedLease {
  /** Empty: none. */
  readonly holder: string
  /** Changes with every renewal. */
  readonly revision: string
  /** Elapsed ms at which this host first saw this revision. */
  readonly at: number
  readonly transitions: number
  /** The longest duration seen since the last renewal: a manual edit must not shorten a lease that its holder relies on. */
  readonly leaseMs: number
  /** The holder's `renewTime`, which a manual edit leaves alone. */
  readonly renewTime: string
  /** Released by its holder, which had stopped leading before. */
  readonly isReleased: boolean
}

/** Duration of a released Lease, in seconds. Held ones last at least 2 s. */
export const releasedSeconds = 1

/** `leaseMs` is the duration of a Lease that names none. */
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
    ...{ holder, revision, at, renewTime },
    transitions: numberAt(spec, 'leaseTransitions') ?? 0,
    leaseMs: before?.renewTime === renewTime ? Math.max(before.leaseMs, ownMs) : ownMs,
    isReleased: holder === '' && seconds === releasedSeconds,
  }
}

/** The same on all hosts of a fleet. */
export function leaseName({ group, namespaces }: Scope): string {
  if (!namespaces) return group
  const hash = createHash('sha256').update(namespaces.toSorted().join(' ')).digest('hex')
  return `${group}.${hash.slice(0, 8)}`
}

/** Annotation by which other fleets recognize an overlap with this scope. */
export function scopeAnnotation({ group, namespaces }: Scope): Readonly<Record<string, string>> {
  return { [annotationKey(group)]: namespaces?.toSorted().join(',') ?? allNamespaces }
}

/**
 * The scope of the fleet that uses this Lease; undefined when it is not a fleet of this group. Leases without the annotation,
 * of older versions, show by their name only whether they cover all namespaces.
 */
export function scopeOf(lease: KubeObject, group: string): Scope | 'unknown' | undefined {
  const { name, annotations = {} } = lease.metadata
  const coversAll = name === group
  const isOfGroup = name.startsWith(`${group}.`) && /^[0-9a-f]{8}$/.test(name.slice(group.length + 1))
  if (!coversAll && !isOfGroup) return undefined
  const written = annotations[annotationKey(group)]
  if (written === undefined) return coversAll ? { group, namespaces: undefined } : 'unknown'
  return { group, namespaces: written === allNamespaces ? undefined : written.split(',') }
}

/** Whether both are known to cover a common namespace. */
export function overlaps(own: Scope, other: Scope | 'unknown'): boolean {
  if (!own.namespaces) return true
  if (other === 'unknown') return false
  return other.namespaces?.some((namespace) => own.namespaces?.includes(namespace)) ?? true
}

const allNamespaces = '*'

function annotationKey(group: string): string {
  return `${group}/namespaces`
}
