/** Executes the scaling plan of a build: adds new servers and terminates idle ones. Synchronous. */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { serverName, suffixLength } from '../../rules/model/names.js'
import { type BuildSpec, draftOf, type EndingReason, keyOf, type Server } from '../../rules/model/resources.js'
import { planRollout } from '../../rules/planning/rollout.js'
import { plan } from '../../rules/planning/scaling.js'
import { buildHealth } from '../../rules/model/status.js'
import { graceSecondsOf } from '../../rules/validation/template.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { Bucket, BuildEntry } from '../state/entries.js'

export interface ScalerDependencies {
  /** Number of callers that are waiting for a server of the build, or that timed out and are expected to retry. */
  readonly callers: (build: BuildEntry) => number
  /** Number of surplus servers that must not be scaled down yet. */
  readonly protectedSurplus: (build: BuildEntry) => number
  readonly isDraining: () => boolean
  /** False if the spec is invalid: the build gets no new servers. */
  readonly validateSpec: (build: BuildEntry) => boolean
}

/** The order in which servers are terminated: those that cannot be allocated before those that can. */
const currentBuckets = ['pending', 'initializing', 'unready', 'ready'] as const
const outdatedBuckets = ['outdatedPending', 'outdatedInitializing', 'outdatedUnready', 'outdatedReady'] as const
const startingBuckets: ReadonlySet<Bucket> = new Set([
  'pending',
  'initializing',
  'outdatedPending',
  'outdatedInitializing',
])

export class Scaler {
  readonly #ctx: EngineContext
  readonly #deps: ScalerDependencies

  constructor(ctx: EngineContext, deps: ScalerDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Scales one build. Returns the time in ms after which to scale it again if a back-off or an unproven template delays it. */
  scale(build: BuildEntry): number | undefined {
    if (build.deleted) return undefined
    const backoffMs = build.backoff.until - this.#ctx.clock.elapsed()
    // Always validated, so that the conditions are correct even if something else prevents new servers.
    const isValid = this.#deps.validateSpec(build)
    const mayCreate = backoffMs <= 0 && isValid && buildHealth(build.record) === 'Healthy'
    const draining = build.draining || this.#deps.isDraining()
    this.#updateUnstarted(build)
    const isRollingUpdate = !draining && outdatedIn(build) > 0
    // A crash that happened before a rolling update must not delay the update.
    if (!isRollingUpdate) build.crashedTemplate = undefined
    const proven = this.#provenServers(build)
    const partial = isRollingUpdate
      ? this.#rollOut(build, mayCreate, proven.count)
      : this.#scaleTo(build, mayCreate, draining)
    if (partial) this.#ctx.enqueue(build)
    return earliest(backoffMs, proven.nextMs)
  }

  /** Adjusts the number of servers when there is no rolling update. Returns true if the limits cut the plan short. */
  #scaleTo(build: BuildEntry, mayCreate: boolean, draining: boolean): boolean {
    const { limits } = this.#ctx
    const { buckets } = build
    const { create, destroy, partial } = plan({
      pending: buckets.pending.size + buckets.outdatedPending.size,
      initializing: buckets.initializing.size + buckets.outdatedInitializing.size,
      standingBy: buckets.ready.size + buckets.unready.size + buckets.outdatedReady.size + buckets.outdatedUnready.size,
      active: activeOrReserved(build),
      ending: unsavedTerminations(build),
      callers: this.#deps.callers(build),
      protectedSurplus: this.#deps.protectedSurplus(build),
      spec: clamped(build.record.spec),
      mayCreate,
      draining,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    this.#addServers(build, create)
    if (destroy.pending + destroy.initializing + destroy.standingBy === 0) return partial
    const reason: EndingReason = draining ? 'Drained' : 'ScaledDown'
    const message = draining ? 'its build is draining' : surplusMessage
    this.#terminate(build, ['outdatedPending', 'pending'], destroy.pending, reason, message)
    this.#terminate(build, ['outdatedInitializing', 'initializing'], destroy.initializing, reason, message)
    this.#terminate(
      build,
      ['outdatedUnready', 'unready', 'outdatedReady', 'ready'],
      destroy.standingBy,
      reason,
      message,
    )
    return partial
  }

  /**
   * Continues a rolling update: replaces idle servers that run earlier templates. Returns true if the limits cut the plan
   * short.
   */
  #rollOut(build: BuildEntry, mayCreate: boolean, proven: number): boolean {
    const { limits } = this.#ctx
    const { buckets } = build
    const { create, replace, surplus, partial } = planRollout({
      current: {
        pending: buckets.pending.size,
        // A server that cannot be allocated, or is not proven yet, must not replace an old one.
        initializing: buckets.initializing.size + buckets.unready.size + buckets.ready.size - proven,
        standingBy: proven,
      },
      outdated: {
        pending: buckets.outdatedPending.size,
        initializing: buckets.outdatedInitializing.size,
        standingBy: buckets.outdatedReady.size + buckets.outdatedUnready.size,
      },
      active: activeOrReserved(build),
      ending: unsavedTerminations(build),
      callers: this.#deps.callers(build),
      spec: clamped(build.record.spec),
      mayCreate,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    this.#addServers(build, create)
    this.#terminate(build, outdatedBuckets, replace, 'Replaced', 'it runs an earlier template of its build')
    this.#terminate(build, currentBuckets, surplus, 'ScaledDown', surplusMessage)
    return partial
  }

  /** Gives the current template to servers for which `backend.create` has not been called yet. */
  #updateUnstarted(build: BuildEntry): void {
    for (const entry of build.buckets.outdatedPending) {
      if (entry.createRequested) continue
      this.#ctx.inventory.update(entry, { ...draftOf(entry.record), ...templateOf(build) })
    }
  }

  /**
   * Counts the servers that prove that the current template works: all ready ones or, if a server with this template has
   * crashed, those that have been ready for `backoffResetMs`. `nextMs` is the time until the next server is proven, or 0 if
   * all are.
   */
  #provenServers({ buckets, crashedTemplate, templateHash }: BuildEntry): { count: number; nextMs: number } {
    if (crashedTemplate !== templateHash) return { count: buckets.ready.size, nextMs: 0 }
    const { clock, limits } = this.#ctx
    let count = 0
    for (const { standingBySince = Infinity } of buckets.ready) {
      const nextMs = standingBySince + limits.backoffResetMs - clock.elapsed()
      if (nextMs > 0) return { count, nextMs }
      count++
    }
    return { count, nextMs: 0 }
  }

  #addServers(build: BuildEntry, count: number): void {
    for (let i = 0; i < count; i++) this.#addServer(build)
  }

  #addServer(build: BuildEntry): void {
    const { clock, emitter, inventory } = this.#ctx
    const { namespace, name: buildName, uid: buildUid } = build.record
    let name = serverName(buildName, clock.randomBytes(suffixLength))
    while (inventory.servers.has(keyOf({ namespace, name }))) {
      name = serverName(buildName, clock.randomBytes(suffixLength))
    }
    const record: Server = {
      namespace,
      name,
      uid: hex(clock.randomBytes(8)),
      token: hex(clock.randomBytes(16)),
      build: buildName,
      buildUid,
      ...templateOf(build),
      createdAt: clock.now(),
      state: 'Pending',
      health: 'Unknown',
    }
    const entry = inventory.addServer(build, record, undefined)
    build.needsAction.add(entry)
    emitter.emit({ type: 'ServerCreated', ...serverEvent(this.#ctx, entry, `${name} was created`) })
  }

  #terminate(
    build: BuildEntry,
    buckets: readonly Bucket[],
    count: number,
    reason: EndingReason,
    message: string,
  ): void {
    const { clock, inventory } = this.#ctx
    let left = count
    for (const name of buckets) {
      const bucket = build.buckets[name]
      for (; left > 0 && bucket.size > 0; left--) {
        // Among starting servers, terminate the newest, because the others will be ready sooner.
        const entry = startingBuckets.has(name) ? bucket.last : bucket.first
        if (entry) inventory.update(entry, transition(entry.record, { type: 'end', reason, message }, clock.now()))
      }
    }
  }
}

const surplusMessage = 'its build has more idle servers than it needs'

/** Returns the fields of a server's record that depend on the build's template. */
function templateOf({ templateHash, record }: BuildEntry): Pick<Server, 'templateHash' | 'graceSeconds'> {
  return { templateHash, graceSeconds: graceSecondsOf(record.spec.template) }
}

/** Limits standingBy to max. A spec that was edited in the store may have a higher value. */
function clamped(spec: BuildSpec): BuildSpec {
  return spec.standingBy <= spec.max ? spec : { ...spec, standingBy: spec.max }
}

/** Counts Active servers and those being allocated. The latter must be neither terminated nor counted as idle. */
function activeOrReserved({ buckets }: BuildEntry): number {
  return buckets.active.size + buckets.reserved.size
}

/** Counts terminating servers whose termination is not in the store yet. */
function unsavedTerminations({ buckets }: BuildEntry): number {
  let count = 0
  for (const { stored, recordDeleted } of buckets.terminating) {
    if (stored?.state !== 'Terminating' && !recordDeleted) count++
  }
  return count
}

/** Counts idle servers that run an earlier template. */
function outdatedIn({ buckets }: BuildEntry): number {
  const { outdatedPending, outdatedInitializing, outdatedUnready, outdatedReady } = buckets
  return outdatedPending.size + outdatedInitializing.size + outdatedUnready.size + outdatedReady.size
}

/** Returns the shortest positive wait, or undefined if there is none. */
function earliest(...waitsMs: readonly number[]): number | undefined {
  const ms = Math.min(...waitsMs.filter((waitMs) => waitMs > 0))
  return ms < Infinity ? ms : undefined
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
