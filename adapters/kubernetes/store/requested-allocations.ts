/**
 * Carries out GameServerAllocations: allocates a server for each new object and writes the outcome into its status. The session makes it
 * exactly once: if a host dies before it has written the status, the next leader allocates the same session and so gets the same server.
 */
import { type ErrorCode, FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { AllocateRequested, GrantedAllocation } from '../../../src/contracts/sessions.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { allocationRequest } from '../../../src/rules/validation/allocation-schema.js'
import { type Fields, objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiContext } from '../client/api.js'
import {
  isKubeObject,
  type KubeObject,
  numberAt,
  refOf,
  type ResourceType,
  revisionOf,
  rfc3339,
  timeAt,
  typeMetaOf,
} from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import type { CustomObjects } from './custom-collection.js'
import type { KubeEvent } from './kube-events.js'

interface RequestedAllocationsDependencies extends ApiContext {
  readonly resource: ResourceType
  readonly objects: CustomObjects
  readonly event: (event: Omit<KubeEvent, 'at'>) => void
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
  /** Aborts the allocations in progress, by the uids of their objects. */
  readonly #running = new Map<string, AbortController>()
  readonly #finished: FinishedAllocations
  /** Generations of the specs that were last seen, by the uids of the objects. */
  readonly #generations = new Map<string, number>()
  readonly #stops: readonly (() => void)[]
  #hasSaidWhy = false

  /** Begins at once. */
  constructor(deps: RequestedAllocationsDependencies, allocate: AllocateRequested) {
    this.#deps = deps
    this.#allocate = allocate
    this.#finished = new FinishedAllocations(deps)
    this.#stops = deps.objects.paths().map((path) => this.#follow(path))
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    for (const aborter of this.#running.values()) aborter.abort()
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
    this.#running.set(uid, aborter)
    void this.#run(allocation, aborter.signal).finally(() => this.#running.delete(uid))
  }

  /** A deleted object no longer waits for a server. If it has one, the match goes on. */
  #gone(uid: string): void {
    this.#running.get(uid)?.abort()
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
    const { event, resource } = this.#deps
    event({ type: 'Warning', reason, message, object: { ...typeMetaOf(resource), ...ref, uid } })
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

/**
 * Writes the status until it is written or no longer this host's to write. Resolves with the new revision. Undefined: the object has been
 * deleted or is finished, or this host no longer leads. Never rejects.
 */
export async function writeOutcome(
  { api, objects, logger }: Pick<RequestedAllocationsDependencies, 'api' | 'objects' | 'logger'>,
  { ref, uid, revision }: AllocationObject,
  status: object,
  signal: AbortSignal,
): Promise<string | undefined> {
  let current = revision
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      // Players are waiting for it.
      return revisionOf(await objects.putStatus(ref, current, status, { priority: true }))
    } catch (error) {
      if (['not-found', 'not-leader', 'closed'].some((code) => FleetError.is(error) && error.code === code))
        return undefined
      logger.debug(
        { err: error, allocation: keyOf(ref) },
        'cannot write the status of a GameServerAllocation; will retry',
      )
      if (!FleetError.is(error, 'conflict')) await api.pause(pauseMs(failures, retryLimits), signal)
      // A write without an answer may have succeeded.
      const found = await objects.get(ref).catch((failure: unknown) => failure)
      if (FleetError.is(found, 'not-found')) return undefined
      const read = isKubeObject(found) ? readAllocation(found) : undefined
      if (read && (read.uid !== uid || read.finished)) return undefined
      if (read) current = read.revision
    }
  }
  return undefined
}

type Finished = AllocationObject & { readonly finished: FinishedState }

/** Maximum number of finished objects in each namespace. */
const maxFinished = 1_000
const sweepMs = 2_000

/** Removes finished GameServerAllocations some time after they finished, and earlier if a namespace has too many. */
class FinishedAllocations {
  readonly #deps: RequestedAllocationsDependencies
  readonly #byUid = new Map<string, Finished>()
  #cancelSweep: (() => void) | undefined
  #isStopped = false

  constructor(deps: RequestedAllocationsDependencies) {
    this.#deps = deps
  }

  has(uid: string): boolean {
    return this.#byUid.has(uid)
  }

  add(object: Finished): void {
    this.#byUid.set(object.uid, object)
    this.#schedule()
  }

  forget(uid: string): void {
    this.#byUid.delete(uid)
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelSweep?.()
  }

  #schedule(): void {
    if (this.#isStopped || this.#byUid.size === 0) return
    this.#cancelSweep ??= this.#deps.clock.after(sweepMs, () => void this.#sweep())
  }

  /** Never rejects. What cannot be removed now is tried again at the next sweep. */
  async #sweep(): Promise<void> {
    const { clock, logger, objects } = this.#deps
    for (const object of expired([...this.#byUid.values()], clock.now())) {
      if (this.#isStopped) return
      try {
        await objects.delete(object.ref, object.revision, 'Background', undefined)
        this.#byUid.delete(object.uid)
      } catch (error) {
        // The watch reports what has changed, and another host removes it if this one no longer leads.
        if (FleetError.is(error, 'conflict') || FleetError.is(error, 'not-leader')) continue
        logger.debug({ err: error, ...object.ref }, 'cannot remove a finished GameServerAllocation; will retry')
      }
    }
    this.#cancelSweep = undefined
    this.#schedule()
  }
}

/** Those whose time is over, and the oldest ones of a namespace that has more than `most`. */
export function expired(all: readonly Finished[], now: number, most = maxFinished): readonly Finished[] {
  const kept = new Map<string, number>()
  const newestFirst = all.toSorted((a, b) => b.finished.at - a.finished.at)
  return newestFirst.filter(({ ref: { namespace }, finished }) => {
    if (finished.removeAt <= now) return true
    const count = (kept.get(namespace) ?? 0) + 1
    kept.set(namespace, count)
    return count > most
  })
}

/** The same as in the definition, for objects of definitions without defaults. */
export const allocationDefaults = { waitSeconds: 60, ttlSecondsAfterFinished: 3_600 } as const

interface AllocationObject {
  readonly ref: Ref
  readonly uid: string
  readonly revision: string
  /** Increases when somebody edits the spec. */
  readonly generation: number
  /** What is requested, as in `Fleet.allocate`. */
  readonly request: Fields & { readonly sessionID: unknown }
  /** Wall time in ms until which to wait for a server. */
  readonly waitUntil: number
  /** How long the object stays after it is finished. */
  readonly ttlMs: number
  /** Absent while it is not finished. */
  readonly finished?: FinishedState
}

interface FinishedState {
  /** Wall times in ms. */
  readonly at: number
  readonly removeAt: number
  /** Generation of the spec that was carried out. */
  readonly generation: number
}

/** Reads GameServerAllocation objects, and says what their status becomes. Pure. */
export function readAllocation(object: KubeObject): AllocationObject {
  const { uid = '', generation = 1, creationTimestamp = '' } = object.metadata
  const [spec, status] = [objectAt(object, 'spec'), objectAt(object, 'status')]
  const { waitSeconds, ttlSecondsAfterFinished } = allocationDefaults
  const createdAt = Date.parse(creationTimestamp)
  const isFinished = status['state'] === 'Allocated' || status['state'] === 'Failed'
  const finishedAt = timeAt(status, 'finishedAt') ?? createdAt
  const ttlMs = (numberAt(spec, 'ttlSecondsAfterFinished') ?? ttlSecondsAfterFinished) * 1_000
  return {
    ref: refOf(object),
    uid,
    generation,
    revision: revisionOf(object),
    request: requestOf(spec, status, uid),
    ttlMs,
    waitUntil: createdAt + (numberAt(spec, 'waitSeconds') ?? waitSeconds) * 1_000,
    ...(isFinished && {
      finished: {
        at: finishedAt,
        removeAt: finishedAt + ttlMs,
        generation: numberAt(status, 'observedGeneration') ?? generation,
      },
    }),
  }
}

/** Once a host has begun, the sessionID is in the status, so that an edit of the spec does not make another session of it. */
function requestOf(spec: Fields, status: Fields, uid: string): AllocationObject['request'] {
  const fields = Object.keys(allocationRequest.properties).filter((name) => spec[name] !== undefined)
  const request = Object.fromEntries(fields.map((name) => [name, spec[name]]))
  return { ...request, sessionID: stringAt(status, 'sessionID') ?? spec['sessionID'] ?? uid }
}

function begun({ request: { sessionID }, generation }: AllocationObject): object {
  return { ...(typeof sessionID === 'string' && { sessionID }), observedGeneration: generation }
}

function waitingStatus(object: AllocationObject, error: unknown): object {
  return { ...begun(object), state: 'Waiting', ...reasonOf(error) }
}

function failedStatus(object: AllocationObject, error: unknown, now: number): object {
  return { ...begun(object), state: 'Failed', ...reasonOf(error), finishedAt: rfc3339(now) }
}

function allocatedStatus(object: AllocationObject, { allocation, node }: GrantedAllocation, now: number): object {
  const { server, address, ports, buildMismatch } = allocation
  const mismatch =
    buildMismatch && `the session already had a server of the build ${buildMismatch.actual}: ${keyOf(server)}`
  return {
    ...begun(object),
    state: 'Allocated',
    ...(mismatch !== undefined && { reason: 'build-mismatch', message: mismatch }),
    gameServer: server.name,
    address,
    ports,
    ...(node !== undefined && { nodeName: node }),
    finishedAt: rfc3339(now),
  }
}

function reasonOf(error: unknown): { readonly reason: string; readonly message: string } {
  return { reason: FleetError.is(error) ? error.code : 'internal', message: messageOf(error) }
}
