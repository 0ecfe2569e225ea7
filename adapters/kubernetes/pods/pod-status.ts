/** Derives an instance from its pod: its phase (pending, running or exited) and the reason. Pure. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { Condition } from '../client/api-shapes.js'
import { failedInitContainerOf, gameStatusOf } from './container-status.js'
import type { Identity } from './labels.js'
import { pendingReason, refusedReason, type StartProblems } from './pending-reason.js'
import type { ContainerStatus, Pod } from './pod-objects.js'

/** Information that the pod itself does not contain. */
export interface InstanceContext extends StartProblems {
  /** The address that players connect to. */
  readonly address: string | undefined
}

export function instanceOf(pod: Pod, identity: Identity, { address, ...problems }: InstanceContext): Instance {
  const { ref, uid, ports } = identity
  const node = pod.spec?.nodeName
  return {
    ref,
    uid,
    ...(address !== undefined && { address }),
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
