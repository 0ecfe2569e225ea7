/**
 * Derives an instance from its pod: its phase (pending, running or exited), the reason, and, while its game is not running yet, whether someone
 * must act. Pure.
 */
import type { Instance } from '../../../src/contracts/backend.js'
import type { Condition } from '../client/kube-objects.js'
import {
  type ContainerStatus,
  failedInitContainerOf,
  gameStatusOf,
  type Identity,
  isUnstarted,
  type Pod,
  publicPortsOf,
} from './pod-objects.js'

/** Information that the pod itself does not contain. */
interface InstanceContext extends StartProblems {
  /** The address that players connect to. */
  readonly address: string | undefined
}

export function instanceOf(pod: Pod, identity: Identity, { address, ...problems }: InstanceContext): Instance {
  const { ref, uid, ports } = identity
  const node = pod.spec?.nodeName
  // Within the cluster's network, where the node's external address may not be reached.
  const hostIP = pod.status?.hostIP
  return {
    ref,
    uid,
    ...(address !== undefined && { address }),
    ...(hostIP !== undefined && { inside: { host: hostIP, ports: 'public' as const } }),
    ...(node !== undefined && { node }),
    ports,
    ...lifeOf(pod, identity, problems),
  }
}

type Life = Pick<Instance, 'phase' | 'exitCode' | 'interrupted' | 'reason' | 'blocked'>

function lifeOf(pod: Pod, identity: Identity, problems: StartProblems): Life {
  const exit = ownExitOf(pod, identity)
  if (exit) return exit
  // Even if a container has started in the meantime: once reported as exited, an instance stays exited.
  if (problems.refusedPorts) return { phase: 'exited', interrupted: true, reason: refusedReason(pod, problems) }
  // A deletion cannot be undone: any process still running in the pod is about to be stopped.
  if (pod.metadata?.deletionTimestamp !== undefined) {
    return { phase: 'exited', interrupted: true, reason: deletionReason(pod) }
  }
  const { phase, reason, message } = pod.status ?? {}
  if (phase === 'Failed' || phase === 'Succeeded') {
    const why = joined({ reason, message }) || joined(disruptionOf(pod))
    return { phase: 'exited', interrupted: true, reason: why || `pod ${phase.toLowerCase()} without giving a reason` }
  }
  if (gameStatusOf(pod, identity)?.state?.running) return { phase: 'running', ...sidecarFailure(pod, identity) }
  return { phase: 'pending', ...pendingReason(pod, identity, problems) }
}

/** Returns the exit of the game, or of an init container that ran before it, unless the node or a deletion caused it. */
function ownExitOf(pod: Pod, identity: Identity): Life | undefined {
  const gameExit = gameStatusOf(pod, identity)?.state?.terminated
  const init = gameExit ? undefined : failedInitContainerOf(pod)
  const exit = gameExit ?? init?.state?.terminated
  if (!exit || isByDeletion(pod, exit.finishedAt)) return undefined
  // When the node terminates a whole pod, the exit code is not the game's own.
  if (isEndedByNode(pod)) return undefined
  const exitCode = exitCodeOf(exit)
  const why = exitReason(pod, identity, exit)
  const reason = init ? `init container ${init.name ?? ''} failed${why ? `: ${why}` : ''}` : why
  return {
    phase: 'exited',
    ...(exitCode !== undefined && { exitCode }),
    ...(reason !== undefined && { reason }),
  }
}

type Exit = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>

/** containerd gives 128 where Docker gives the codes of a shell: 127 for a program that does not exist, 126 for one that cannot run. */
function exitCodeOf({ exitCode, message }: Exit): number | undefined {
  const [, why] = exitCode === 128 ? (unrunnable.exec(message?.trim() ?? '')?.slice(1) ?? []) : []
  if (why === undefined) return exitCode
  return /no such file or directory|not found/.test(why) ? 127 : 126
}

/** The exit code of a process that SIGKILL has ended. */
const killed = 137

/** The program that a runtime could not run, and why. */
const unrunnable = /exec: "([^"]*)": (.*?)(?:: unknown)?$/

function exitReason(pod: Pod, { container }: Identity, { reason, message, exitCode }: Exit): string | undefined {
  const limit = pod.spec?.containers?.find(({ name }) => name === container)?.resources?.limits?.['memory']
  if (reason === 'OOMKilled') {
    return limit === undefined
      ? 'OOMKilled: its node ran out of memory'
      : `OOMKilled: it exceeded its memory limit of ${limit}`
  }
  const [, program, why] = unrunnable.exec(message?.trim() ?? '') ?? []
  if (program !== undefined) return `cannot run ${program}: ${why}`
  if (message) return message.trim()
  // A runtime that is busy may learn of the exit before it learns of its cause.
  if (exitCode === killed && limit !== undefined)
    return `killed by SIGKILL, perhaps because it exceeded its memory limit of ${limit}`
  // Neither reason adds anything to the exit code.
  return reason === 'Error' || reason === 'Completed' || exitCode === 0 ? undefined : reason
}

/** The condition, set since Kubernetes 1.26, that says what is about to terminate the pod and why. */
function disruptionOf({ status }: Pod): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === 'DisruptionTarget' && condition.status === 'True')
}

function joined({ reason, message }: Pick<Condition, 'reason' | 'message'> = {}): string {
  return [reason, message].filter((text) => text !== undefined && text !== '').join(': ')
}

/** Whether the pod was evicted, preempted, or terminated together with its node. */
function isEndedByNode(pod: Pod): boolean {
  const { phase, reason } = pod.status ?? {}
  if (phase !== 'Failed' || reason === 'DeadlineExceeded') return false
  return reason !== undefined || disruptionOf(pod) !== undefined
}

function isByDeletion({ metadata }: Pod, finishedAt: string | undefined): boolean {
  if (metadata?.deletionTimestamp === undefined) return false
  const graceMs = (metadata.deletionGracePeriodSeconds ?? 0) * 1000
  const requestedAt = Date.parse(metadata.deletionTimestamp) - graceMs
  // Timestamps have a resolution of one second: an exit in the same second as the deletion counts as caused by it.
  return finishedAt === undefined || Date.parse(finishedAt) >= requestedAt
}

function deletionReason(pod: Pod): string {
  const { status } = pod
  if (status?.reason === 'NodeLost') return `node lost: ${status.message ?? 'it does not respond'}`
  const disruption = disruptionOf(pod)
  if (disruption) return `pod deleted: ${joined(disruption)}`
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  const isNodeSilent = ready?.reason === 'NodeNotReady' || ready?.status === 'Unknown'
  return isNodeSilent ? 'pod deleted because its node does not respond' : 'pod deleted'
}

/** The failure of another container in the pod while the game is running. */
function sidecarFailure(pod: Pod, identity: Identity): Pick<Life, 'reason'> {
  const failed = pod.status?.containerStatuses?.find(
    ({ name, state }) => name !== identity.container && (state?.terminated?.exitCode ?? 0) !== 0,
  )
  if (!failed) return {}
  return { reason: `container ${failed.name ?? ''} exited with code ${failed.state?.terminated?.exitCode}` }
}

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

/** Explains why a pod's game is not running yet and whether someone must act. Pure. */
function pendingReason(pod: Pod, identity: Identity, problems: StartProblems): Pick<Instance, 'reason' | 'blocked'> {
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
function refusedReason({ spec }: Pod, { refusedPorts = [], warning = '' }: StartProblems): string {
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

/** Host ports that the template itself requests. The fleet cannot choose others instead. */
export function templateHostPorts({ spec }: Pod, identity: Identity): readonly number[] {
  // The scheduler also counts ports of sidecars, which are init containers with restart policy `Always`.
  const sidecars = spec?.initContainers?.filter(({ restartPolicy }) => restartPolicy === 'Always') ?? []
  const requested = [...(spec?.containers ?? []), ...sidecars].flatMap((container) => container.ports ?? [])
  const allocated = new Set(publicPortsOf(identity))
  return [...new Set(requested.flatMap(({ hostPort }) => hostPort ?? []))].filter((port) => !allocated.has(port))
}

/** Whether, on every node that the pod could be scheduled to, other pods already use one of its host ports. */
export function isBlockedByHostPorts({ status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return false
  // The message's first sentence counts each node once; later sentences are about preemption.
  const [, nodes, reasons = ''] =
    /^0\/(\d+) nodes are available: (.*?)(?:\.(?: |$)|$)/s.exec(scheduled.message ?? '') ?? []
  const withoutFreePorts = countOf(reasons, new RegExp(`(\\d+) node\\(s\\) ${noFreePorts}`, 'g'))
  return withoutFreePorts > 0 && withoutFreePorts + countOf(reasons, otherwiseExcluded) >= Number(nodes)
}

function mentionsHostPorts(schedulerMessage: string): boolean {
  return schedulerMessage.includes(noFreePorts)
}

/** Whether an event says that another program holds a port or an address of the pod. */
export function mentionsTakenPort(event: string): boolean {
  return /port is already allocated|address already in use|ports are not available|cannot open hostport/i.test(event)
}

/** The public ports that, according to an event of the pod, another program on its node holds. */
export function refusedPortsIn(event: string, identity: Identity): readonly number[] {
  if (!mentionsTakenPort(event)) return []
  const isNamed = (port: number) => new RegExp(`(?<![-\\w.])${port}(?!\\w)`).test(event)
  return publicPortsOf(identity).filter(isNamed)
}

/** Text in the scheduler's message. */
const noFreePorts = "didn't have free ports"

/** Nodes excluded for reasons other than the requested ports. */
const otherwiseExcluded =
  /(\d+) node\(s\) (?:didn't match (?:node selector|Pod's node affinity|the requested)|had (?:untolerated )?taint|were unschedulable)/g

function countOf(text: string, pattern: RegExp): number {
  let sum = 0
  for (const [, count] of text.matchAll(pattern)) sum += Number(count)
  return sum
}
