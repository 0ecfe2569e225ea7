/** Executes the scaling plan of a build: adds new servers and terminates idle ones. Synchronous. */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { mergedData } from '../../rules/lifecycle/server-data.js'
import { serverName, suffixLength } from '../../rules/model/names.js'
import { type BuildSpec, draftOf, type EndingReason, keyOf, type Server } from '../../rules/model/resources.js'
import { planRollout } from '../../rules/planning/rollout.js'
import { besideMisfits, emptiestNodesFirst, plan } from '../../rules/planning/scaling.js'
import { graceSecondsOf } from '../../rules/validation/pod-template.js'
import { type EngineContext, serverEvent } from '../context.js'
import { lateReason } from '../instances/late-starts.js'
import type { BudgetShares } from './budget-shares.js'
import type { ScalingPolicies } from './scaling-policies.js'
import { hasCondition } from '../reporting/conditions.js'
import type { Bucket, BuildEntry, ServerEntry } from '../state/entries.js'
import type { LinkedSet } from '../state/linked-set.js'
import type { Machine } from '../state/machine-loads.js'
import {
  inUse,
  isAged,
  isCurrent,
  isHealthy,
  lateServers,
  scaledSpec,
  serverCount,
  standingByIn,
  unsavedTerminations,
} from '../state/queries.js'

export interface ScalerDependencies {
  readonly policies: Pick<ScalingPolicies, 'decide' | 'hold' | 'spareAged'>
  /** Undefined if the fleet has no budget. */
  readonly budget: Pick<BudgetShares, 'added' | 'release' | 'review'> | undefined
  /** Number of callers that are waiting for a server of the build, or that timed out and are expected to retry. */
  readonly callers: (build: BuildEntry) => number
  /** Of these, those that wait and that no ready server fits, and those that not every server fits and that are expected to retry. */
  readonly choosyCallers: (build: BuildEntry) => { readonly unfit: number; readonly choosy: number }
  /** Number of surplus servers that must not be scaled down yet. */
  readonly protectedSurplus: (build: BuildEntry) => number
  readonly isDraining: () => boolean
  /** False if the spec is invalid: the build gets no new servers. */
  readonly validateSpec: (build: BuildEntry) => boolean
}

/** What a build is scaled to. */
interface Allowed {
  readonly spec: BuildSpec
  /** True if the fleet's budget allows fewer servers than the build wants. */
  readonly isShort: boolean
  /** Time in ms after which that is reviewed. */
  readonly nextMs: number | undefined
}

/** The order in which servers are terminated: those that cannot be allocated, or only as a last resort, before the others. */
const currentBuckets = ['pending', 'initializing', 'unready', 'unheard', 'ready'] as const
const lateBuckets = ['outdatedLate', 'late'] as const
const outdatedBuckets = [
  'outdatedPending',
  'outdatedInitializing',
  'outdatedUnready',
  'outdatedUnheard',
  'outdatedReady',
] as const
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
    const { budget } = this.#deps
    if (build.deleted) {
      budget?.release(build)
      return undefined
    }
    const backoffMs = build.backoff.until - this.#ctx.clock.elapsed()
    // Always validated, so that the conditions are correct even if something else prevents new servers.
    const isValid = this.#deps.validateSpec(build)
    const decideMs = isValid ? this.#deps.policies.decide(build) : this.#deps.policies.hold(build)
    const mayGrow = isValid && isHealthy(build)
    const mayCreate = backoffMs <= 0 && mayGrow
    const draining = build.draining || this.#deps.isDraining()
    this.#updateUnstarted(build)
    const isRollingUpdate = !draining && outdatedIn(build) > 0
    if (!isRollingUpdate) {
      // What happened before a rolling update must not delay the update.
      build.crashedTemplate = undefined
      build.freedPorts = 0
    }
    const proven = this.#provenServers(build)
    const allowed = this.#allowed(build, mayGrow, draining)
    const partial = isRollingUpdate
      ? this.#rollOut(build, allowed, mayCreate, proven.count)
      : this.#scaleTo(build, allowed, mayCreate, draining)
    if (partial) this.#ctx.enqueue(build)
    return earliest(backoffMs, proven.nextMs, decideMs, allowed.nextMs)
  }

  /** The numbers by which the build is scaled: those of its spec and its policies, with as many servers as the fleet's budget allows. */
  #allowed(build: BuildEntry, mayGrow: boolean, draining: boolean): Allowed {
    const { budget } = this.#deps
    const spec = scaledSpec(build, this.#ctx.limits.maxServersPerBuild)
    if (!budget) return { spec, isShort: false, nextMs: undefined }
    const { buckets } = build
    const callers = this.#deps.callers(build)
    const ready = buckets.ready.size + buckets.outdatedReady.size
    const misfits = besideMisfits({ spec, callers, ready, ...this.#deps.choosyCallers(build) })
    const idle = draining ? 0 : Math.min(spec.standingBy + callers + misfits, spec.max - inUse(build))
    // A build whose servers do not start takes none from others but for the next attempt.
    const present = serverCount(build) - buckets.terminating.size - inUse(build)
    const claimed = this.#isFailing(build) ? Math.min(idle, present + 1) : idle
    const { max, isShort, nextMs } = budget.review(build, claimed, mayGrow)
    // Without room for another, a server that is replaced for its age would end before the next is ready.
    if (max <= inUse(build) + present) this.#deps.policies.spareAged(build)
    return { spec: { ...spec, max: Math.min(spec.max, max) }, isShort, nextMs }
  }

  /** True if the servers of the build do not start, or crash again and again. */
  #isFailing({ backoff, record }: BuildEntry): boolean {
    const isCrashing =
      backoff.failures > 1 && this.#ctx.clock.elapsed() < backoff.until + this.#ctx.limits.backoffResetMs
    return isCrashing || hasCondition(record, 'CreateBlocked')
  }

  /** Adjusts the number of servers when there is no rolling update. Returns true if the limits cut the plan short. */
  #scaleTo(build: BuildEntry, { spec, isShort }: Allowed, mayCreate: boolean, draining: boolean): boolean {
    const { limits } = this.#ctx
    const { buckets } = build
    const { create, destroy, partial } = plan({
      pending: buckets.pending.size + buckets.outdatedPending.size,
      initializing: buckets.initializing.size + buckets.outdatedInitializing.size,
      standingBy: standingByIn(build),
      late: buckets.late.size + buckets.outdatedLate.size,
      withoutPort: countWithoutPort(build, 'pending'),
      active: inUse(build),
      ending: unsavedTerminations(build),
      callers: this.#deps.callers(build),
      ...this.#deps.choosyCallers(build),
      ready: buckets.ready.size + buckets.outdatedReady.size,
      protectedSurplus: this.#deps.protectedSurplus(build),
      spec,
      mayCreate,
      draining,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    this.#addServers(build, create)
    this.#terminateLate(build, destroy.late, draining)
    // A drain is the act of an operator, whose word outweighs a reservation.
    if (draining) this.#terminate(build, ['setAside'], build.buckets.setAside.size, 'Drained', drainingMessage)
    if (destroy.pending + destroy.initializing + destroy.standingBy === 0) return partial
    const reason: EndingReason = draining ? 'Drained' : 'ScaledDown'
    const message = draining ? drainingMessage : surplusMessageOf(isShort)
    this.#terminate(build, ['outdatedPending', 'pending'], destroy.pending, reason, message)
    this.#terminate(build, ['outdatedInitializing', 'initializing'], destroy.initializing, reason, message)
    this.#terminate(
      build,
      ['outdatedUnready', 'unready', 'outdatedUnheard', 'unheard', 'outdatedReady', 'ready'],
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
  #rollOut(build: BuildEntry, { spec, isShort }: Allowed, mayCreate: boolean, proven: number): boolean {
    const { limits } = this.#ctx
    const { buckets } = build
    const callers = this.#deps.callers(build)
    const ready = buckets.ready.size + buckets.outdatedReady.size
    const { create, late, replace, portsToFree, surplus, partial } = planRollout({
      current: {
        pending: buckets.pending.size,
        // A server that cannot be allocated, or is not proven yet, must not replace an old one.
        initializing: buckets.initializing.size + buckets.unready.size + readyIn(build) - proven,
        standingBy: proven,
      },
      outdated: {
        pending: buckets.outdatedPending.size,
        initializing: buckets.outdatedInitializing.size,
        standingBy: buckets.outdatedReady.size + buckets.outdatedUnheard.size + buckets.outdatedUnready.size,
      },
      late: { current: buckets.late.size, outdated: buckets.outdatedLate.size },
      withoutPort: countWithoutPort(build, 'pending'),
      outdatedWithoutPort: countWithoutPort(build, 'outdatedPending'),
      freedPorts: build.freedPorts,
      active: inUse(build),
      ending: unsavedTerminations(build),
      callers: callers + besideMisfits({ spec, callers, ready, ...this.#deps.choosyCallers(build) }),
      spec,
      mayCreate,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    this.#addServers(build, create)
    build.freedPorts += portsToFree + late
    this.#terminateLate(build, late, false)
    this.#terminate(build, outdatedBuckets, replace, 'Replaced', (entry) =>
      isAged(entry) ? 'it has been standing by for too long' : 'it runs an earlier template of its build',
    )
    this.#terminate(build, currentBuckets, surplus, 'ScaledDown', surplusMessageOf(isShort))
    return partial
  }

  /** Gives the current template to servers for which `backend.create` has not been called yet. */
  #updateUnstarted(build: BuildEntry): void {
    const { outdatedPending, setAside } = build.buckets
    for (const entry of [...outdatedPending, ...setAside]) {
      if (entry.createRequested || entry.record.state !== 'Pending' || isCurrent(entry)) continue
      const data = mergedData(build.formerData, entry.record.data, build.initialData)
      this.#ctx.inventory.update(entry, { ...draftOf(entry.record), ...templateOf(build), data })
    }
  }

  /**
   * Counts the servers that prove that the current template works: all ready ones or, if a server with this template has
   * crashed, those that have been ready for `backoffResetMs`. `nextMs` is the time until the next server is proven, or 0 if
   * all are.
   */
  #provenServers(build: BuildEntry): { count: number; nextMs: number } {
    const { buckets, crashedTemplate, templateHash } = build
    if (crashedTemplate !== templateHash) return { count: readyIn(build), nextMs: 0 }
    const { clock, limits } = this.#ctx
    const provenAfterMs = [...buckets.ready, ...buckets.unheard].map(
      ({ standingBySince = Infinity }) => standingBySince + limits.backoffResetMs - clock.elapsed(),
    )
    const unproven = provenAfterMs.filter((ms) => ms > 0)
    const nextMs = unproven.length === 0 ? 0 : Math.min(...unproven)
    return { count: provenAfterMs.length - unproven.length, nextMs }
  }

  #addServers(build: BuildEntry, count: number): void {
    for (let i = 0; i < count; i++) this.#addServer(build)
    this.#deps.budget?.added(build, count)
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
      sessions: [],
      data: build.initialData,
    }
    const entry = inventory.addServer(build, record, undefined)
    build.needsAction.add(entry)
    emitter.emit({ type: 'ServerCreated', ...serverEvent(this.#ctx, entry, `${name} was created`) })
  }

  /** Terminates the servers that have been late for the longest time. */
  #terminateLate(build: BuildEntry, count: number, draining: boolean): void {
    if (count === 0) return
    const { clock, inventory, responsiveClock } = this.#ctx
    if (draining) return this.#terminate(build, lateBuckets, count, 'Drained', drainingMessage)
    for (const entry of [...lateServers(build)].slice(0, count)) {
      const elapsedMs = responsiveClock.now() - (entry.start?.since ?? responsiveClock.now())
      const event = { type: 'end' as const, reason: 'Late' as const, message: lateReason(entry, elapsedMs) }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
  }

  #terminate(
    build: BuildEntry,
    buckets: readonly Bucket[],
    count: number,
    reason: EndingReason,
    message: string | ((entry: ServerEntry) => string),
  ): void {
    const { clock, inventory } = this.#ctx
    let left = count
    for (const name of buckets) {
      const bucket = build.buckets[name]
      const isStarting = startingBuckets.has(name)
      const ordered = reason === 'ScaledDown' && !isStarting ? this.#emptiestFirst(bucket, left) : []
      for (let i = 0; left > 0 && bucket.size > 0; left--, i++) {
        const preferred = ordered[i]
        // Among starting servers, terminate the newest, because the others will be ready sooner.
        const usual = isStarting ? bucket.last : bucket.first
        const entry = preferred && bucket.has(preferred) ? preferred : usual
        if (!entry) continue
        const event = { type: 'end' as const, reason, message: typeof message === 'string' ? message : message(entry) }
        inventory.update(entry, transition(entry.record, event, clock.now()))
      }
    }
  }

  /** The first `count` servers of a bucket in the order by nodes. Empty if that does not matter: all of them go, or all are on one node. */
  #emptiestFirst(bucket: LinkedSet<ServerEntry>, count: number): readonly ServerEntry[] {
    if (count === 0 || count >= bucket.size || !isOnSeveralNodes(bucket)) return []
    const loads = this.#ctx.inventory.machineLoads
    return emptiestNodesFirst(bucket, (entry) => loads.of(entry) ?? noMachine).slice(0, count)
  }
}

const noMachine: Machine = { name: '', load: 0, servers: 0 }

function isOnSeveralNodes(bucket: LinkedSet<ServerEntry>): boolean {
  const node = bucket.first?.record.node
  for (const { record } of bucket) if (record.node !== node) return true
  return false
}

const drainingMessage = 'its build is draining'

/** `isShort`: the build needs them, but the budget gives their room to others. */
function surplusMessageOf(isShort: boolean): string {
  return isShort
    ? "the fleet's budget has no room for it beside the servers of other builds"
    : 'its build has more idle servers than it needs'
}

/** Returns the fields of a server's record that depend on the build's template. */
function templateOf({ templateHash, record }: BuildEntry): Pick<Server, 'templateHash' | 'graceSeconds'> {
  return { templateHash, graceSeconds: graceSecondsOf(record.spec.template) }
}

/** Counts the servers with the current template that can be allocated, whether they have been heard or not. */
function readyIn({ buckets }: BuildEntry): number {
  return buckets.ready.size + buckets.unheard.size
}

/** Counts servers in a bucket that wait for a free port. */
function countWithoutPort({ withoutPort }: BuildEntry, bucket: Bucket): number {
  let count = 0
  for (const entry of withoutPort) if (entry.bucket === bucket) count++
  return count
}

/** Counts idle servers that run an earlier template. */
function outdatedIn({ buckets }: BuildEntry): number {
  const { outdatedPending, outdatedInitializing, outdatedLate } = buckets
  const { outdatedUnready, outdatedUnheard, outdatedReady } = buckets
  const starting = outdatedPending.size + outdatedInitializing.size + outdatedLate.size
  return starting + outdatedUnready.size + outdatedUnheard.size + outdatedReady.size
}

/** Returns the shortest positive wait, or undefined if there is none. */
function earliest(...waits: readonly (number | undefined)[]): number | undefined {
  const ms = Math.min(...waits.map((wait = 0) => (wait > 0 ? wait : Infinity)))
  return ms < Infinity ? ms : undefined
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
