/**
 * Finds out why a pod that is on a node does not start. Most causes, such as a missing volume, a network failure or a host
 * port that another program holds, appear only in Kubernetes Events: the pod's status remains ContainerCreating.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { stringAt } from '../../../src/rules/validation/pod-template.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { kubeEvents, type KubeObject, pathOf, revisionOf } from '../client/kube-objects.js'
import type { NodePorts } from '../nodes/node-ports.js'
import type { PodCache } from '../pods/pod-cache.js'
import { isUnstarted, type PodSnapshot, publicPortsOf } from '../pods/pod-objects.js'
import {
  hasVisibleCause,
  mentionsTakenPort,
  refusedPortsIn,
  slowStartMs,
  type StartProblems,
} from '../pods/pod-status.js'
import { secretNameOf } from './pod-spec.js'

interface SlowStartsDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly pods: Pick<PodCache, 'find' | 'reevaluate'>
  readonly events: Pick<PodEvents, 'read' | 'isForbidden'>
  readonly ports: Pick<NodePorts, 'refuse' | 'suspect' | 'release' | 'isReleasing'>
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
    const { ports } = this.#deps
    const [node, publicPorts] = [pod.spec?.nodeName ?? '', publicPortsOf(identity)]
    ports.release(node, publicPorts)
    const start = this.#starts.get(podUid)
    if (!start) return
    this.#forget(podUid, start)
    const isExplained = start.events.latest !== undefined || hasVisibleCause(pod, identity)
    if (start.isSlow && !isExplained) ports.suspect(node, publicPorts)
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
      if (mentionsTakenPort(warning)) ports.suspect(node, publicPortsOf(identity))
      return
    }
    // The kubelet tries again, and succeeds if only a pod that is gone held the port.
    if (ports.isReleasing(node, refused)) return
    start.cancelTimer()
    start.refusedPorts = refused
    ports.refuse(node, refused)
    const fields = { pod: keyOf(identity.ref), node, ports: refused, event: warning }
    logger.warn(fields, 'public port held by another program on the node; replacing the server')
  }
}

interface StartEvents {
  /** The latest warning, such as `FailedMount: …`. Undefined if the start has made progress since. */
  readonly warning?: string
  /** The latest event of any type. */
  readonly latest?: string
}

/**
 * Finds out why the pod has not started. `sdkSecret` is the name of the pod's SDK secret, which is created after the pod, so that it is
 * normal for it to be missing at first.
 */
export function startEventsIn(objects: readonly KubeObject[], sdkSecret: string | undefined): StartEvents {
  const events = objects
    .toSorted((a, b) => Number(revisionOf(a)) - Number(revisionOf(b)))
    .map((object) => ({
      isWarning: stringAt(object, 'type') === 'Warning',
      reason: stringAt(object, 'reason') ?? '',
      message: stringAt(object, 'message') ?? '',
    }))
    .filter(({ message }) => sdkSecret === undefined || !message.includes(`secret "${sdkSecret}" not found`))
  const lastProgress = events.findLastIndex(({ reason }) => progress.has(reason))
  const warning = events
    .slice(lastProgress + 1)
    .findLast(({ isWarning, reason }) => isWarning && !irrelevant.has(reason))
  const latest = events.findLast(({ reason }) => !irrelevant.has(reason))
  return { ...(warning && { warning: textOf(warning) }), ...(latest && { latest: textOf(latest) }) }
}

/** Reasons of events that show that earlier obstacles are gone. */
const progress: ReadonlySet<string> = new Set(['Pulling', 'Pulled', 'Created', 'Started'])

/** Reasons of warnings that do not prevent the start of a pod that is on a node. */
const irrelevant: ReadonlySet<string> = new Set(['FailedScheduling', 'MissingClusterDNS', 'DNSConfigForming'])

/** Maximum length in characters. The middle of a longer text is omitted, because the cause is usually at the end. */
const maxLength = 500
const headLength = 160

/** Formats an event as one line. Shortens container ids, which change with each attempt. */
function textOf({ reason, message }: { readonly reason: string; readonly message: string }): string {
  const text = `${reason}: ${message}`
    .replace(/\s+/g, ' ')
    .replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/g, '$1')
    .trim()
  if (text.length <= maxLength) return text
  return `${text.slice(0, headLength)} … ${text.slice(text.length - (maxLength - headLength - 3))}`
}

interface PodEventsInput {
  readonly ref: Ref
  readonly podUid: string
}

interface PodEventsDependencies {
  readonly api: Pick<KubernetesApi, 'closed' | 'list' | 'pause'>
  readonly clock: Clock
  readonly logger: Logger
}

/** Pause between two reads, at least and at most. */
const minPauseMs = 250
const maxPauseMs = 10_000
/**
 * How many times as long as the read the pause after it is. Where many pods have started, the API server searches thousands of events for
 * each read, and allocations would wait for it.
 */
const pausePerRead = 4
/** The other reads wait for this one. */
const readTimeoutMs = 10_000
/** If this host may not list a namespace's events, it tries again after this time. */
const forbiddenMs = 10 * 60_000

/**
 * Reads the Kubernetes Events of single pods. Reads one pod at a time, with a pause in between, because the API server has
 * no index for events and searches all events of the namespace.
 */
export class PodEvents {
  readonly #deps: PodEventsDependencies
  /** Elapsed ms until which events are not read, by namespace. */
  readonly #forbiddenUntil = new Map<string, number>()
  #previous: Promise<unknown> = Promise.resolve()

  constructor(deps: PodEventsDependencies) {
    this.#deps = deps
  }

  /** Whether this host may not list events in that namespace. */
  isForbidden(namespace: string): boolean {
    return (this.#forbiddenUntil.get(namespace) ?? 0) > this.#deps.clock.elapsed()
  }

  /**
   * Resolves with the events, or with undefined if they cannot be read or if `isNeeded` returns false when the read is due.
   * Never rejects.
   */
  read(input: PodEventsInput, isNeeded: () => boolean): Promise<readonly KubeObject[] | undefined> {
    const { api, clock } = this.#deps
    return new Promise((resolve) => {
      this.#previous = this.#previous.then(async () => {
        if (api.closed || this.isForbidden(input.ref.namespace) || !isNeeded()) return resolve(undefined)
        const begun = clock.elapsed()
        resolve(await this.#read(input))
        const pauseMs = pausePerRead * (clock.elapsed() - begun)
        await api.pause(Math.min(Math.max(minPauseMs, pauseMs), maxPauseMs))
      })
    })
  }

  async #read({ ref, podUid }: PodEventsInput): Promise<readonly KubeObject[] | undefined> {
    const { api, clock, logger } = this.#deps
    const { namespace, name } = ref
    try {
      const { items } = await api.list({
        what: `list the events of pod ${name}`,
        method: 'GET',
        path: pathOf(kubeEvents, { namespace }),
        query: { fieldSelector: `involvedObject.uid=${podUid}` },
        timeoutMs: readTimeoutMs,
      })
      return items
    } catch (error) {
      const isForbidden = statusOf(error) === 403
      if (isForbidden) this.#forbiddenUntil.set(namespace, clock.elapsed() + forbiddenMs)
      const level = isForbidden ? 'warn' : 'debug'
      logger[level]({ err: error, pod: keyOf(ref) }, 'cannot read the events of a pod that has not started')
      return undefined
    }
  }
}
