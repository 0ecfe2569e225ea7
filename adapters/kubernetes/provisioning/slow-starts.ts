/**
 * Finds out why a pod that is on a node does not start. Most causes, such as a missing volume, a network failure or a host
 * port that another program holds, appear only in Kubernetes Events: the pod's status remains ContainerCreating.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { NodePorts } from '../nodes/node-ports.js'
import { isUnstarted } from '../pods/container-status.js'
import { mentionsTakenPort, refusedPortsIn } from '../pods/host-ports.js'
import type { Identity } from '../pods/labels.js'
import { hasVisibleCause, slowStartMs, type StartProblems } from '../pods/pending-reason.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'
import type { PodEvents } from './pod-events.js'
import { secretNameOf } from './sdk-files.js'
import { type StartEvents, startEventsIn } from './start-events.js'

export interface SlowStartsDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly pods: Pick<PodCache, 'find' | 'reevaluate'>
  readonly events: Pick<PodEvents, 'read' | 'isForbidden'>
  readonly ports: Pick<NodePorts, 'refuse' | 'suspect'>
  /** Whether this host leads the fleet. The others do not read events. */
  readonly isLeading: () => boolean
}

/** How long after this host first sees a pod on its node the pod is checked, if it has not started, and its events are read. */
const checksAtMs = [5_000, 15_000, 30_000, slowStartMs]
/** Interval of further checks. */
const recheckMs = 60_000

/** The start of one pod. */
interface Start {
  readonly ref: Ref
  readonly startedAt: number
  cancelTimer: () => void
  isReading: boolean
  isSlow: boolean
  events: StartEvents
  /** Public ports of the pod that another program on the node holds: it can never start. */
  refusedPorts: readonly number[]
}

export class SlowStarts {
  readonly #deps: SlowStartsDependencies
  /** The starts in progress, by pod uid. Those with refused ports are kept until the pod is deleted. */
  readonly #starts = new Map<string, Start>()

  constructor(deps: SlowStartsDependencies) {
    this.#deps = deps
  }

  problemsOf(podUid: string): StartProblems {
    const start = this.#starts.get(podUid)
    if (!start) return {}
    const { ref, isSlow, events, refusedPorts } = start
    return {
      isSlow,
      warning: events.warning,
      latestEvent: events.latest,
      lacksEvents: this.#deps.events.isForbidden(ref.namespace),
      ...(refusedPorts.length > 0 && { refusedPorts }),
    }
  }

  podChanged({ pod, podUid, identity }: PodSnapshot): void {
    const start = this.#starts.get(podUid)
    if (!isUnstarted(pod)) {
      if (start?.refusedPorts.length === 0) this.#forget(podUid, start)
      return
    }
    if (start || pod.spec?.nodeName === undefined) return
    const { clock } = this.#deps
    const begun: Start = {
      ref: identity.ref,
      startedAt: clock.elapsed(),
      cancelTimer: () => {},
      isReading: false,
      isSlow: false,
      events: {},
      refusedPorts: [],
    }
    this.#starts.set(podUid, begun)
    this.#scheduleCheck(podUid, begun)
  }

  /** Call when the pod is deleted. */
  gone({ podUid, pod, identity }: PodSnapshot): void {
    const start = this.#starts.get(podUid)
    if (!start) return
    this.#forget(podUid, start)
    const isExplained = start.events.latest !== undefined || hasVisibleCause(pod, identity)
    if (start.isSlow && !isExplained) this.#deps.ports.suspect(pod.spec?.nodeName ?? '', portsOf(identity))
  }

  stop(): void {
    for (const [podUid, start] of this.#starts) this.#forget(podUid, start)
  }

  #forget(podUid: string, start: Start): void {
    start.cancelTimer()
    this.#starts.delete(podUid)
  }

  #scheduleCheck(podUid: string, start: Start): void {
    const { clock } = this.#deps
    const elapsedMs = clock.elapsed() - start.startedAt
    const nextMs = checksAtMs.find((at) => at > elapsedMs) ?? elapsedMs + recheckMs
    start.cancelTimer = clock.after(nextMs - elapsedMs, () => void this.#check(podUid, start))
  }

  async #check(podUid: string, start: Start): Promise<void> {
    const { clock, pods, events, isLeading } = this.#deps
    this.#scheduleCheck(podUid, start)
    if (!start.isSlow && clock.elapsed() - start.startedAt >= slowStartMs) {
      start.isSlow = true
      pods.reevaluate(start.ref)
    }
    if (start.isReading) return
    start.isReading = true
    const current = () => {
      const snapshot = pods.find(start.ref)
      return snapshot?.podUid === podUid && this.#starts.get(podUid) === start ? snapshot : undefined
    }
    const isNeeded = () => {
      const snapshot = current()
      return snapshot !== undefined && isLeading() && !hasVisibleCause(snapshot.pod, snapshot.identity)
    }
    const objects = await events.read({ podUid, ref: start.ref }, isNeeded)
    start.isReading = false
    const snapshot = current()
    if (!snapshot) return
    if (objects) this.#apply(snapshot, start, startEventsIn(objects, secretNameOf(snapshot.pod)))
    // Also if the events cannot be read: the message then names the missing permission.
    pods.reevaluate(start.ref)
  }

  #apply({ pod, identity }: PodSnapshot, start: Start, events: StartEvents): void {
    const { logger, ports } = this.#deps
    const { warning = '' } = events
    const node = pod.spec?.nodeName ?? ''
    start.events = events
    const refused = refusedPortsIn(warning, identity)
    if (refused.length === 0) {
      if (mentionsTakenPort(warning)) ports.suspect(node, portsOf(identity))
      return
    }
    start.cancelTimer()
    start.refusedPorts = refused
    ports.refuse(node, refused)
    const fields = { pod: keyOf(identity.ref), node, ports: refused, event: warning }
    logger.warn(fields, 'public port held by another program on the node; replacing the server')
  }
}

function portsOf({ ports }: Identity): readonly number[] {
  return ports.map((port) => port.public)
}
