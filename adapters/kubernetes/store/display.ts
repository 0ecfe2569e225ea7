/**
 * Writes what `kubectl get` and `kubectl describe` show in addition to the records: build counts and Events. The fleet never
 * reads this data back and never waits for the writes.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { FleetEvent } from '../../../src/contracts/events.js'
import type { DisplayedReadiness, StoreDisplay } from '../../../src/contracts/store.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import type { ApiContext, KubernetesApi } from '../client/api.js'
import { type OwnerReference, type ResourceType, typeMetaOf } from '../client/kube-objects.js'
import type { BuildCollection } from './build-collection.js'
import type { FleetResources } from './custom-collection.js'
import {
  BackgroundWork,
  EventWriter,
  type InvolvedObject,
  isRoutine,
  type KubeEvent,
  kubeEventOf,
  type ObjectLookup,
} from './kube-events.js'
import type { ServerCollection } from './server-collection.js'

interface ClusterDisplayDependencies extends ApiContext {
  readonly builds: BuildCollection
  readonly resources: FleetResources
  readonly ownerOfServer: (ref: Ref) => OwnerReference | undefined
  readonly messages: Pick<ServerCollection, 'setMessage' | 'writeMessage'>
}

export class ClusterDisplay implements StoreDisplay {
  readonly #clock: Clock
  readonly #work: BackgroundWork
  readonly #counts: BuildCountsWriter
  readonly #events: EventWriter
  readonly #messages: ServerMessages
  readonly #objects: ObjectLookup

  constructor(deps: ClusterDisplayDependencies) {
    const { api, clock, logger, builds, resources, ownerOfServer, messages } = deps
    const work = new BackgroundWork(logger)
    this.#clock = clock
    this.#work = work
    this.#counts = new BuildCountsWriter(deps, work)
    this.#events = new EventWriter(deps, work)
    this.#messages = new ServerMessages({ api, clock, work, messages })
    this.#objects = {
      build: (ref) => involvedObject(resources.builds, ref, builds.owner(ref)),
      server: (ref) => involvedObject(resources.servers, ref, ownerOfServer(ref)),
    }
  }

  build(ref: Ref, status: GameServerBuild['status'], readiness: DisplayedReadiness): void {
    this.#counts.write(ref, status, readiness)
  }

  server(ref: Ref, message: string | undefined): void {
    this.#messages.show(ref, message)
  }

  event(event: FleetEvent): void {
    const kubeEvent = kubeEventOf(event, this.#objects)
    if (kubeEvent) this.#events.write(kubeEvent, isRoutine(event))
  }

  /** Shows what happens now. */
  show(event: Omit<KubeEvent, 'at'>): void {
    this.#events.write({ ...event, at: this.#clock.now() })
  }

  async close(): Promise<void> {
    this.#work.close()
    this.#counts.stop()
    this.#messages.stop()
    await this.#work.settled()
  }
}

export function involvedObject(
  resource: ResourceType,
  { namespace, name }: Ref,
  owner: OwnerReference | undefined,
): InvolvedObject {
  return { ...typeMetaOf(resource), namespace, name, ...(owner && { uid: owner.uid }) }
}

const intervalMs = 1_000
const retryLimits = { initialMs: intervalMs, maxMs: 30_000 }
/** A build that is still unknown after this many attempts is considered deleted. */
const maxAttemptsUnknown = 5

interface PendingCounts {
  readonly ref: Ref
  readonly status: GameServerBuild['status']
  readonly readiness: DisplayedReadiness
}

interface Failures {
  readonly inARow: number
  /** The build's revision at the time the last write ended in a conflict. */
  readonly conflictAt?: string | undefined
}

/** Writes each build's latest counts at most once a second, and backs off after failures. */
class BuildCountsWriter {
  readonly #deps: ClusterDisplayDependencies
  readonly #work: BackgroundWork
  readonly #pending = new Map<string, PendingCounts>()
  /** Keys of builds whose counts are being written, or that are in the pause after a write. */
  readonly #busy = new Set<string>()
  readonly #failures = new Map<string, Failures>()
  readonly #timers = new Set<() => void>()

  constructor(deps: ClusterDisplayDependencies, work: BackgroundWork) {
    this.#deps = deps
    this.#work = work
  }

  write(ref: Ref, status: GameServerBuild['status'], readiness: DisplayedReadiness): void {
    const key = keyOf(ref)
    this.#pending.set(key, { ref, status, readiness })
    if (!this.#busy.has(key)) this.#work.run(this.#flush(key))
  }

  stop(): void {
    for (const cancel of this.#timers) cancel()
  }

  async #flush(key: string): Promise<void> {
    const { builds } = this.#deps
    const work = this.#work
    const next = this.#pending.get(key)
    if (!next || work.closed) return
    this.#pending.delete(key)
    this.#busy.add(key)
    const { inARow = 0, conflictAt } = this.#failures.get(key) ?? {}
    const revision = builds.objectRevision(next.ref)
    // Until the watch reports the conflicting write, another attempt would only fail again.
    const outcome = revision === undefined || revision === conflictAt ? 'conflict' : await this.#put(next)
    if (outcome === 'done' || (revision === undefined && inARow >= maxAttemptsUnknown)) {
      this.#failures.delete(key)
    } else {
      this.#failures.set(key, { inARow: inARow + 1, ...(outcome === 'conflict' && { conflictAt: revision }) })
      if (!this.#pending.has(key)) this.#pending.set(key, next)
    }
    this.#after(this.#failures.has(key) ? pauseMs(inARow + 1, retryLimits) : intervalMs, () => {
      this.#busy.delete(key)
      if (this.#pending.has(key)) work.run(this.#flush(key))
    })
  }

  async #put({ ref, status, readiness }: PendingCounts): Promise<'done' | 'conflict' | 'failed'> {
    const { logger, builds } = this.#deps
    const { currentActive, currentStandingBy, currentPending, currentInitializing } = status
    const { currentStandingByReadyDesired, rollout } = status
    const counts = { currentActive, currentStandingBy, currentPending, currentInitializing }
    try {
      const all = { ...counts, currentStandingByReadyDesired, ...(rollout && { rollout }), readiness }
      return (await builds.writeCounts(ref, all)) ? 'done' : 'conflict'
    } catch (error) {
      // The new leader writes the counts itself.
      if (this.#work.closed || FleetError.is(error, 'not-leader')) return 'done'
      logger.debug({ err: error, build: keyOf(ref) }, 'cannot write build counts; will retry')
      return 'failed'
    }
  }

  #after(ms: number, then: () => void): void {
    if (this.#work.closed) return
    const cancel = this.#deps.clock.after(ms, () => {
      this.#timers.delete(cancel)
      then()
    })
    this.#timers.add(cancel)
  }
}

interface ServerMessagesDependencies {
  readonly api: Pick<KubernetesApi, 'pause'>
  readonly clock: Clock
  readonly work: BackgroundWork
  readonly messages: Pick<ServerCollection, 'setMessage' | 'writeMessage'>
}

const maxLength = 500
const betweenMs = 200
/** How long a message waits before it is written. By then, most servers have started. */
const delayMs = 1_500
/** A server whose message changes more often than this shows some of them only. */
const maxWaiting = 1_000

interface WaitingMessage {
  readonly ref: Ref
  /** Elapsed ms at which the message is written. */
  readonly dueAt: number
}

/**
 * Shows in `kubectl describe gs` why a server is still Pending, at a limited rate. Not for servers that start within a second or two, as
 * most do: two requests for each of them would say no more than that they were starting.
 */
export class ServerMessages {
  readonly #deps: ServerMessagesDependencies
  /** Servers whose messages are not written yet. */
  readonly #waiting = new Map<string, WaitingMessage>()
  readonly #closing = new AbortController()
  #isRunning = false

  constructor(deps: ServerMessagesDependencies) {
    this.#deps = deps
  }

  /** Undefined: no reason is known any more. */
  show(ref: Ref, message: string | undefined): void {
    const key = keyOf(ref)
    if (this.#closing.signal.aborted) return
    const isNews = this.#deps.messages.setMessage(ref, message === undefined ? undefined : cut(message))
    if (!isNews || (this.#waiting.size >= maxWaiting && !this.#waiting.has(key))) return
    const dueAt = this.#deps.clock.elapsed() + delayMs
    this.#waiting.set(key, this.#waiting.get(key) ?? { ref, dueAt })
    if (this.#isRunning) return
    this.#isRunning = true
    this.#deps.work.run(this.#run())
  }

  stop(): void {
    this.#closing.abort()
    this.#waiting.clear()
  }

  async #run(): Promise<void> {
    const { api, clock, work, messages } = this.#deps
    const { signal } = this.#closing
    // In the order in which they are due. One that is added during the iteration comes last.
    for (const [key, { ref, dueAt }] of this.#waiting) {
      const waitMs = dueAt - clock.elapsed()
      if (waitMs > 0) await api.pause(waitMs, signal)
      if (work.closed || signal.aborted) break
      this.#waiting.delete(key)
      try {
        await messages.writeMessage(ref)
      } catch (error) {
        // The record was written meanwhile, and the server may have started.
        if (FleetError.is(error, 'conflict')) this.#waiting.set(key, { ref, dueAt })
      }
      await api.pause(betweenMs, signal)
    }
    this.#isRunning = false
  }
}

function cut(message: string): string {
  return message.length > maxLength ? `${message.slice(0, maxLength - 1)}…` : message
}
