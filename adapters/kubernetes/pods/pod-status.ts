/** Reads what a pod says of itself: whether its game waits, runs or has ended, and why. Pure. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { Identity } from './labels.js'
import type { ContainerStatus, Pod, PodCondition } from './pod-objects.js'

/** After this long on its node without a start, a pod may need somebody's help. */
export const lateMs = 60_000

/** What holds it up and is not to be read of the pod. */
export interface HoldUp {
  /** Why its configuration could not be written, again and again. */
  readonly unwritten?: string | undefined
  /** It has had its node for `lateMs`. */
  readonly isLate?: boolean
}

/** What is to be known besides what it says itself. */
export interface PodFacts extends HoldUp {
  /** Of its node: where players connect. */
  readonly address: string | undefined
}

export function instanceOf(pod: Pod, identity: Identity, { address, ...holdUp }: PodFacts): Instance {
  const { ref, uid, ports } = identity
  const node = pod.spec?.nodeName
  const known = {
    ref,
    uid,
    ...(address !== undefined && { address }),
    ...(node !== undefined && { node }),
    ports,
  }
  return { ...known, ...lifeOf(pod, identity, holdUp) }
}

type Life = Pick<Instance, 'phase' | 'exitCode' | 'interrupted' | 'reason' | 'blocked'>

function lifeOf(pod: Pod, identity: Identity, holdUp: HoldUp): Life {
  const own = ownEndOf(pod, identity)
  if (own) return own
  // Nothing takes a deletion back: whatever still runs of it is on its way out.
  if (pod.metadata?.deletionTimestamp !== undefined)
    return { phase: 'exited', interrupted: true, reason: deletedBy(pod) }
  const { phase, reason, message } = pod.status ?? {}
  if (phase === 'Failed' || phase === 'Succeeded') {
    const told = wordsOf({ reason, message }) || wordsOf(disruptionOf(pod))
    return { phase: 'exited', interrupted: true, reason: told || 'its pod has ended without a word' }
  }
  const game = statusOf(pod, identity)
  if (game?.state?.running) return { phase: 'running', ...ailingOf(pod, identity) }
  return { phase: 'pending', ...waitOf(pod, identity, holdUp) }
}

/** The game's process, or what had to run before it, has ended by itself. */
function ownEndOf(pod: Pod, identity: Identity): Life | undefined {
  const game = statusOf(pod, identity)
  const end = game?.state?.terminated ?? failedInit(pod)?.state?.terminated
  if (!end || isByDeletion(pod, end.finishedAt)) return undefined
  // The node gives no code of its own when it ends a whole pod: that is no end of the game's.
  if (isEndedByNode(pod)) return undefined
  const { exitCode } = end
  const init = game?.state?.terminated ? undefined : failedInit(pod)?.name
  const reason = endReason(pod, identity, end)
  const told = init === undefined ? reason : `its init container ${init} has failed${reason ? `: ${reason}` : ''}`
  return {
    phase: 'exited',
    ...(exitCode !== undefined && { exitCode }),
    ...(told !== undefined && { reason: told }),
  }
}

type End = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>

function endReason(pod: Pod, { container }: Identity, { reason, message, exitCode }: End): string | undefined {
  if (reason === 'OOMKilled') {
    const limit = pod.spec?.containers?.find(({ name }) => name === container)?.resources?.limits?.['memory']
    return `it was killed for using more memory than ${limit === undefined ? 'there is' : `its limit of ${limit}`}`
  }
  const [, program, why] = /exec: "([^"]*)": (.*?)(?:: unknown)?$/.exec(message?.trim() ?? '') ?? []
  if (program !== undefined) return `cannot run ${program}: ${why}`
  if (message) return message.trim()
  // These two say no more than the code does.
  return reason === 'Error' || reason === 'Completed' || exitCode === 0 ? undefined : reason
}

/** Of clusters since 1.26: who makes an end of the pod, and why. */
function disruptionOf({ status }: Pod): PodCondition | undefined {
  return status?.conditions?.find((condition) => condition.type === 'DisruptionTarget' && condition.status === 'True')
}

function wordsOf(told: Pick<PodCondition, 'reason' | 'message'> = {}): string {
  return [told.reason, told.message].filter((word) => word !== undefined && word !== '').join(': ')
}

/** Evicted for want of room, preempted, taken down with its node, or lost with it. */
function isEndedByNode(pod: Pod): boolean {
  const { phase, reason } = pod.status ?? {}
  if (phase !== 'Failed' || reason === 'DeadlineExceeded') return false
  return reason !== undefined || disruptionOf(pod) !== undefined
}

function isByDeletion({ metadata }: Pod, finishedAt: string | undefined): boolean {
  if (metadata?.deletionTimestamp === undefined) return false
  const graceMs = (metadata.deletionGracePeriodSeconds ?? 0) * 1000
  const askedAt = Date.parse(metadata.deletionTimestamp) - graceMs
  // The cluster's times are whole seconds: one that ended in the very second of its deletion did so by it.
  return finishedAt === undefined || Date.parse(finishedAt) >= askedAt
}

function deletedBy(pod: Pod): string {
  const { status } = pod
  if (status?.reason === 'NodeLost') return `its node is lost: ${status.message ?? 'it does not answer'}`
  const disruption = disruptionOf(pod)
  if (disruption) return `its pod is deleted: ${wordsOf(disruption)}`
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  return ready?.reason === 'NodeNotReady' || ready?.status === 'Unknown'
    ? 'its node does not answer, and its pod is deleted'
    : 'its pod is deleted'
}

function ailingOf(pod: Pod, identity: Identity): Pick<Life, 'reason'> {
  const ended = pod.status?.containerStatuses?.find(
    ({ name, state }) => name !== identity.container && (state?.terminated?.exitCode ?? 0) !== 0,
  )
  if (!ended) return {}
  return { reason: `its container ${ended.name ?? ''} has exited with ${ended.state?.terminated?.exitCode}` }
}

/** These go by without anybody's help. */
const passing: ReadonlySet<string> = new Set(['PodInitializing', 'ContainerCreating', ''])

function waitOf(pod: Pod, identity: Identity, holdUp: HoldUp): Pick<Life, 'reason' | 'blocked'> {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False') {
    const told = scheduled.message ?? scheduled.reason ?? 'nobody says why'
    return { blocked: true, reason: `it cannot be scheduled: ${told}${portHint(told, fixedPorts(pod, identity))}` }
  }
  const node = pod.spec?.nodeName
  if (node === undefined) return { reason: 'it waits for a node' }
  const isHeldUp = isUnstarted(pod)
  if (isHeldUp && holdUp.unwritten !== undefined) {
    return { blocked: true, reason: `its configuration cannot be written: ${holdUp.unwritten}` }
  }
  const game = statusOf(pod, identity)
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(game ? [game] : [])]
  const waits = [...statuses, ...(pod.status?.containerStatuses ?? [])]
  for (const { name, state } of waits) {
    const { reason = '', message } = state?.waiting ?? {}
    if (passing.has(reason)) continue
    return {
      blocked: true,
      reason: `its container ${name ?? ''} cannot start: ${[reason, message].filter(Boolean).join(': ')}`,
    }
  }
  if (isHeldUp && holdUp.isLate) return { blocked: true, reason: latenessOf(identity, node) }
  return { reason: `it is being started on ${node}` }
}

function latenessOf({ ref: { namespace, name } }: Identity, node: string): string {
  const may = 'which may be for want of a volume or the network, or for a large image'
  const where = `kubectl describe pod -n ${namespace} ${name} says why`
  return `nothing of it has started on ${node} for ${lateMs / 1_000} s, ${may}: ${where}`
}

function portHint(told: string, ports: readonly number[]): string {
  if (ports.length === 0 || !told.includes(withoutPorts)) return ''
  const named = `port${ports.length > 1 ? 's' : ''} ${ports.join(', ')}`
  return ` (its template asks for ${named} of the node, which only one pod of a node can have)`
}

function statusOf({ status }: Pod, { container }: Identity): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === container)
}

function failedInit({ status }: Pod): ContainerStatus | undefined {
  if (status?.phase !== 'Failed') return undefined
  return status.initContainerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0)
}

/** Nothing of it has run yet, and nothing will without its configuration. */
export function isUnstarted({ status }: Pod): boolean {
  if (status?.phase !== undefined && status.phase !== 'Pending') return false
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  return all.every(({ state }) => !state?.running && !state?.terminated)
}

/** Numbers of its node that its template asks for itself: no others can be given instead. */
export function fixedPorts({ spec }: Pod, { ports }: Identity): readonly number[] {
  // An init container that goes on beside the others is counted by the scheduler as they are.
  const beside = spec?.initContainers?.filter(({ restartPolicy }) => restartPolicy === 'Always') ?? []
  const asked = [...(spec?.containers ?? []), ...beside].flatMap((container) => container.ports ?? [])
  const given = new Set(ports.map((port) => port.public))
  return [...new Set(asked.flatMap(({ hostPort }) => hostPort ?? []))].filter((port) => !given.has(port))
}

/** Another pod, of this fleet or not, has one of its ports on every node that it could be on, whatever else there is room for. */
export function lacksPorts({ status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return false
  // The scheduler counts each node once in what it says first; what comes after the stop is of other matters.
  const [, all, reasons = ''] =
    /^0\/(\d+) nodes are available: (.*?)(?:\.(?: |$)|$)/s.exec(scheduled.message ?? '') ?? []
  const lacking = countOf(reasons, new RegExp(`(\\d+) node\\(s\\) ${withoutPorts}`, 'g'))
  return lacking > 0 && lacking + countOf(reasons, never) >= Number(all)
}

/** The scheduler's words. */
const withoutPorts = "didn't have free ports"

/** On these it could not be with any ports. */
const never =
  /(\d+) node\(s\) (?:didn't match (?:node selector|Pod's node affinity|the requested)|had (?:untolerated )?taint|were unschedulable)/g

function countOf(text: string, pattern: RegExp): number {
  let sum = 0
  for (const [, count] of text.matchAll(pattern)) sum += Number(count)
  return sum
}
