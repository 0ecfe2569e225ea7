/**
 * Carries out GameServerAllocations: allocates a server for each new object and writes the outcome into its status. The session makes it
 * exactly once: if a host dies before it has written the status, the next leader allocates the same session and so gets the same server.
 */
import type { AllocateRequested } from '../../../src/contracts/sessions.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { type ErrorCode, FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, type ResourceType, typeMetaOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import type { CustomObjects } from '../store/custom-objects.js'
import type { KubeEvent } from '../store/display/kube-event.js'
import {
  allocatedStatus,
  type AllocationObject,
  failedStatus,
  readAllocation,
  waitingStatus,
} from './allocation-object.js'
import { FinishedAllocations } from './finished-allocations.js'
import { writeOutcome } from './outcome-writer.js'

export interface RequestedAllocationsDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly resource: ResourceType
  readonly objects: CustomObjects
  readonly event: (event: KubeEvent) => void
}

/** Waiting does not help against these. */
const finalCodes: ReadonlySet<ErrorCode> = new Set(['invalid', 'out-of-range', 'forbidden', 'unsupported', 'internal'])
/** Another host goes on, or this one does when it leads again. */
const overCodes: ReadonlySet<ErrorCode> = new Set(['not-leader', 'closed', 'aborted'])
const retryLimits = { initialMs: 250, maxMs: 5_000 }
/** A call that failed sooner has not waited for a server. */
const waitedMs = 500

export class RequestedAllocations {
  readonly #deps: RequestedAllocationsDependencies
  readonly #allocate: AllocateRequested
  readonly #running = new Map<string, { readonly object: AllocationObject; readonly aborter: AbortController }>()
  readonly #finished: FinishedAllocations
  /** Generations of the specs that were last seen, by the uids of the objects. */
  readonly #generations = new Map<string, number>()
  readonly #stops: readonly (() => void)[]
  #hasSaidWhy = false

  /** Begins at once. */
  constructor(deps: RequestedAllocationsDependencies, allocate: AllocateRequested) {
    this.#deps = deps
    this.#allocate = allocate
    const { clock, logger, objects } = deps
    const remove = ({ ref, revision }: AllocationObject) => objects.delete(ref, revision, 'Background', undefined)
    this.#finished = new FinishedAllocations({ clock, logger, remove })
    this.#stops = objects.paths().map((path) => this.#follow(path))
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    for (const { aborter } of this.#running.values()) aborter.abort()
    this.#running.clear()
    this.#finished.stop()
  }

  #follow(path: string): () => void {
    const { api, clock, logger, resource } = this.#deps
    // A cluster without the definition has no such objects, which is said once.
    const quiet: Logger = { ...logger, warn: (fields, message) => logger.debug(fields, message) }
    const seen = new Map<string, AllocationObject>()
    return watchCollection(
      { api, clock, logger: quiet, what: resource.plural, path },
      {
        broken: (error) => this.#explain(error),
        listed: (objects) => {
          const uids = new Set(objects.map(({ metadata }) => metadata.uid))
          for (const [uid] of seen) if (!uids.has(uid) && seen.delete(uid)) this.#gone(uid)
          for (const object of objects) this.#see(object, seen)
        },
        changed: (object) => this.#see(object, seen),
        deleted: ({ metadata: { uid = '' } }) => {
          seen.delete(uid)
          this.#gone(uid)
        },
      },
    )
  }

  #see(object: KubeObject, seen: Map<string, AllocationObject>): void {
    const allocation = readAllocation(object)
    const { uid } = allocation
    if (object.metadata.deletionTimestamp !== undefined) return this.#gone(uid)
    seen.set(uid, allocation)
    this.#warnOfEdit(allocation)
    const { finished } = allocation
    if (finished) return this.#finished.add({ ...allocation, finished })
    // An event that is older than the outcome.
    if (this.#finished.has(uid) || this.#running.has(uid)) return
    const aborter = new AbortController()
    this.#running.set(uid, { object: allocation, aborter })
    void this.#run(allocation, aborter.signal).finally(() => this.#running.delete(uid))
  }

  /** A deleted object no longer waits for a server. If it has one, the match goes on. */
  #gone(uid: string): void {
    this.#running.get(uid)?.aborter.abort()
    this.#finished.forget(uid)
    this.#generations.delete(uid)
  }

  /** Never rejects. */
  async #run(object: AllocationObject, signal: AbortSignal): Promise<void> {
    const { api, clock, logger } = this.#deps
    const { namespace, name } = object.ref
    const caller = { kind: 'host' as const, name: `GameServerAllocation ${namespace}/${name}` }
    let current = object
    let shown: string | undefined
    for (let attempt = 0; ; attempt++) {
      const since = clock.elapsed()
      // The first attempt does not wait, so that the status can say that the next one does.
      const waitMs = attempt === 0 ? 0 : Math.max(0, object.waitUntil - clock.now())
      try {
        const granted = await this.#allocate({ namespace, request: object.request, waitMs, caller, signal })
        await this.#finish(current, allocatedStatus(object, granted, clock.now()), signal)
        return
      } catch (error) {
        const code = FleetError.is(error) ? error.code : 'internal'
        if (signal.aborted || overCodes.has(code)) return
        const leftMs = object.waitUntil - clock.now()
        // After `unavailable` the session may have a server: the next attempt shows.
        if (finalCodes.has(code) || (leftMs <= 0 && code !== 'unavailable')) {
          logger.info({ err: error, allocation: keyOf(object.ref) }, 'a GameServerAllocation failed')
          const status = failedStatus(object, error, clock.now())
          if (await this.#finish(current, status, signal)) this.#event(object, 'AllocationFailed', messageIn(status))
          return
        }
        const status = waitingStatus(object, error)
        if (messageIn(status) !== shown) {
          const revision = await writeOutcome(this.#deps, current, status, signal)
          if (revision === undefined) return
          current = { ...current, revision }
          shown = messageIn(status)
        }
        const hasWaited = clock.elapsed() - since >= waitedMs
        const pause = pauseMs(attempt, retryLimits)
        if (attempt > 0 && !hasWaited) await api.pause(leftMs > 0 ? Math.min(pause, leftMs) : pause, signal)
        if (signal.aborted) return
      }
    }
  }

  /** Returns false if the object has been deleted or finished by another host, or this host no longer leads. */
  async #finish(object: AllocationObject, status: object, signal: AbortSignal): Promise<boolean> {
    const revision = await writeOutcome(this.#deps, object, status, signal)
    if (revision === undefined) return false
    // The watch may have reported it before.
    if (this.#finished.has(object.uid)) return true
    const { ttlMs, generation } = object
    const at = this.#deps.clock.now()
    this.#finished.add({ ...object, revision, finished: { at, removeAt: at + ttlMs, generation } })
    return true
  }

  #warnOfEdit(object: AllocationObject): void {
    const { uid, generation, finished } = object
    const known = this.#generations.get(uid) ?? finished?.generation ?? generation
    this.#generations.set(uid, Math.max(known, generation))
    if (generation <= known) return
    const message = 'the spec was edited, which changes nothing: create another GameServerAllocation instead'
    this.#event(object, 'SpecIgnored', message)
  }

  #event({ ref, uid }: AllocationObject, reason: string, message: string): void {
    const { clock, event, resource } = this.#deps
    event({ type: 'Warning', reason, message, at: clock.now(), object: { ...typeMetaOf(resource), ...ref, uid } })
  }

  #explain(error: unknown): void {
    const status = statusOf(error)
    if (this.#hasSaidWhy || (status !== 403 && status !== 404)) return
    this.#hasSaidWhy = true
    const what = status === 404 ? 'apply the definitions of this version' : 'give the hosts the rights of this version'
    this.#deps.logger.warn({ err: error }, `GameServerAllocations are not carried out: ${what}`)
  }
}

function messageIn(status: object): string {
  return 'message' in status && typeof status.message === 'string' ? status.message : ''
}
