/** What a Lease says: who leads, since when this host knows it, and which namespaces the leader is in. Pure. */
import { createHash } from 'node:crypto'
import { fieldsAt, numberAt, textAt } from '../store/custom-resources.js'
import { type KubeObject, revisionOf } from '../client/kube-objects.js'

/** What a fleet is in: all of the cluster's namespaces when they are undefined. */
export interface Reach {
  readonly group: string
  readonly namespaces: readonly string[] | undefined
}

export interface Observed {
  /** Empty when it names nobody. */
  readonly holder: string
  /** Changes with every renewal. */
  readonly revision: string
  /** Elapsed ms at which this host saw it first. */
  readonly at: number
  readonly transitions: number
  /** The longest that was seen since a host wrote it last: an edit by hand makes nobody's lease shorter. */
  readonly leaseMs: number
  /** When a host wrote it last, in its own words: an edit by hand leaves them as they are. */
  readonly renewed: string
  /** By the host that held it, which had stopped before. */
  readonly isGivenUp: boolean
}

/** In seconds; of a Lease that is given up, and of no other, since a lease takes at least 2 s. */
export const givenUpSeconds = 1

/** Whoever says nothing of how long its lease is has one of `leaseMs`. */
export function observe(lease: KubeObject, before: Observed | undefined, at: number, leaseMs: number): Observed {
  const revision = revisionOf(lease)
  if (before?.revision === revision) return before
  const spec = fieldsAt(lease, 'spec')
  const holder = textAt(spec, 'holderIdentity') ?? ''
  const seconds = numberAt(spec, 'leaseDurationSeconds')
  const renewed = textAt(spec, 'renewTime') ?? ''
  const ownMs = seconds === undefined ? leaseMs : seconds * 1_000
  return {
    ...{ holder, revision, at, renewed },
    transitions: numberAt(spec, 'leaseTransitions') ?? 0,
    leaseMs: before?.renewed === renewed ? Math.max(before.leaseMs, ownMs) : ownMs,
    isGivenUp: holder === '' && seconds === givenUpSeconds,
  }
}

/** Of the fleet in these namespaces; all of its hosts are told the same. */
export function leaseName({ group, namespaces }: Reach): string {
  if (!namespaces) return group
  const hash = createHash('sha256').update(namespaces.toSorted().join(' ')).digest('hex')
  return `${group}.${hash.slice(0, 8)}`
}

/** On the Lease: for hosts in other namespaces to know whether the fleet that it is of is in any of theirs. */
export function reachAnnotation({ group, namespaces }: Reach): Readonly<Record<string, string>> {
  return { [annotationOf(group)]: namespaces?.toSorted().join(',') ?? everywhere }
}

/** Undefined: that of another group, or of no fleet. Of an older host all that is known is whether it is in all namespaces. */
export function reachOf(lease: KubeObject, group: string): Reach | 'unknown' | undefined {
  const { name, annotations = {} } = lease.metadata
  const isOfAll = name === group
  if (!isOfAll && !(name.startsWith(`${group}.`) && /^[0-9a-f]{8}$/.test(name.slice(group.length + 1))))
    return undefined
  const written = annotations[annotationOf(group)]
  if (written === undefined) return isOfAll ? { group, namespaces: undefined } : 'unknown'
  return { group, namespaces: written === everywhere ? undefined : written.split(',') }
}

/** Whether there is a namespace that is known to be in both. */
export function overlaps(own: Reach, other: Reach | 'unknown'): boolean {
  // Wherever the other is, this one is there as well.
  if (!own.namespaces) return true
  if (other === 'unknown') return false
  return other.namespaces?.some((namespace) => own.namespaces?.includes(namespace)) ?? true
}

const everywhere = '*'

function annotationOf(group: string): string {
  return `${group}/namespaces`
}
