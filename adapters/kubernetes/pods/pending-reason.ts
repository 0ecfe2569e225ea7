/** Explains why a pod's game is not running yet and whether someone must act. Pure. */
import type { Instance } from '../../../src/contracts/backend.js'
import { gameStatusOf, isUnstarted } from './container-status.js'
import { mentionsHostPorts, mentionsTakenPort, templateHostPorts } from './host-ports.js'
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
  /** The warning in the pod's Kubernetes Events that explains why it has not started yet. */
  readonly warning?: string | undefined
  /** The latest of the pod's Kubernetes Events, of any type. */
  readonly latestEvent?: string | undefined
  /** Whether this host may not list Kubernetes Events. */
  readonly lacksEvents?: boolean
  /** Public ports of the pod that another program on its node holds. The pod can never start. */
  readonly refusedPorts?: readonly number[] | undefined
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
  if (!isWaiting) return { reason: `starting on ${node}` }
  if (problems.warning !== undefined && mentionsTakenPort(problems.warning)) {
    const hint = templatePortHint(templateHostPorts(pod, identity))
    return { blocked: true, reason: `cannot start on ${node}: ${problems.warning}${hint}` }
  }
  if (problems.isSlow) return { blocked: true, reason: slowStart(identity, node, problems) }
  if (problems.warning !== undefined) return { reason: `not started on ${node} yet: ${problems.warning}` }
  return { reason: `starting on ${node}` }
}

/** Why a pod with `refusedPorts` has ended. */
export function refusedReason({ spec }: Pod, { refusedPorts = [], warning = '' }: StartProblems): string {
  const what = refusedPorts.length > 1 ? 'public ports' : 'public port'
  return `another program on ${spec?.nodeName ?? 'its node'} holds ${what} ${refusedPorts.join(', ')}: ${warning}`
}

/** Whether the pod's own status says why a container cannot start. */
export function hasVisibleCause(pod: Pod, identity: Identity): boolean {
  return stuckContainer(pod, identity) !== undefined
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

function slowStart({ ref: { namespace, name } }: Identity, node: string, problems: StartProblems): string {
  const { warning, latestEvent, lacksEvents } = problems
  const text = `no container started on ${node} within ${slowStartMs / 1_000} s`
  if (warning !== undefined) return `${text}: ${warning}`
  if (latestEvent !== undefined) return `${text}; latest event: ${latestEvent}`
  const causes = 'usual causes are a missing volume, the pod network, or a large image'
  const command = `see kubectl describe pod -n ${namespace} ${name}`
  const right = `; to show the cause here, allow this host to list events in namespace ${namespace}`
  return `${text}; ${causes}: ${command}${lacksEvents ? right : ''}`
}

function hostPortHint(schedulerMessage: string, ports: readonly number[]): string {
  return mentionsHostPorts(schedulerMessage) ? templatePortHint(ports) : ''
}

function templatePortHint(ports: readonly number[]): string {
  if (ports.length === 0) return ''
  const requested = `host port${ports.length > 1 ? 's' : ''} ${ports.join(', ')}`
  return ` (the template requests ${requested}, which only one pod per node can use)`
}
