/** Explains why a pod's game is not running yet and whether someone must act. Pure. */
import type { Instance } from '../../../src/contracts/backend.js'
import { gameStatusOf, isUnstarted } from './container-status.js'
import { mentionsHostPorts, templateHostPorts } from './host-ports.js'
import type { Identity } from './labels.js'
import type { Pod } from './pod-objects.js'

/** A pod that has been on a node for this long without starting may need attention. */
export const slowStartMs = 60_000

/** Problems that prevent the start but do not appear in the pod's own status. */
export interface StartProblems {
  /** Why the API server repeatedly rejected its SDK secret. */
  readonly secretError?: string | undefined
  /** Whether the pod has been on its node for at least `slowStartMs`. */
  readonly isSlow?: boolean
}

/** Waiting reasons that are part of a normal start. */
const transient: ReadonlySet<string> = new Set(['PodInitializing', 'ContainerCreating', ''])

export function pendingReason(
  pod: Pod,
  identity: Identity,
  problems: StartProblems,
): Pick<Instance, 'reason' | 'blocked'> {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False') {
    const why = scheduled.message ?? scheduled.reason ?? 'the scheduler gives no reason'
    return {
      blocked: true,
      reason: `cannot be scheduled: ${why}${hostPortHint(why, templateHostPorts(pod, identity))}`,
    }
  }
  const node = pod.spec?.nodeName
  if (node === undefined) return { reason: 'waiting to be scheduled' }
  const isWaiting = isUnstarted(pod)
  if (isWaiting && problems.secretError !== undefined) {
    return { blocked: true, reason: `cannot create its SDK secret: ${problems.secretError}` }
  }
  const stuck = stuckContainer(pod, identity)
  if (stuck !== undefined) return { blocked: true, reason: stuck }
  if (isWaiting && problems.isSlow) return { blocked: true, reason: slowStart(identity, node) }
  return { reason: `starting on ${node}` }
}

function stuckContainer(pod: Pod, identity: Identity): string | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  const game = gameStatusOf(pod, identity)
  for (const { name, state } of [...initContainerStatuses, ...(game ? [game] : []), ...containerStatuses]) {
    const { reason = '', message } = state?.waiting ?? {}
    if (transient.has(reason)) continue
    return `container ${name ?? ''} cannot start: ${[reason, message].filter(Boolean).join(': ')}`
  }
  return undefined
}

function slowStart({ ref: { namespace, name } }: Identity, node: string): string {
  const seconds = slowStartMs / 1_000
  const causes = 'usual causes are a missing volume, the pod network, or a large image'
  return `no container started on ${node} within ${seconds} s; ${causes}: see kubectl describe pod -n ${namespace} ${name}`
}

function hostPortHint(schedulerMessage: string, ports: readonly number[]): string {
  if (ports.length === 0 || !mentionsHostPorts(schedulerMessage)) return ''
  const requested = `host port${ports.length > 1 ? 's' : ''} ${ports.join(', ')}`
  return ` (the template requests ${requested}, which only one pod per node can use)`
}
