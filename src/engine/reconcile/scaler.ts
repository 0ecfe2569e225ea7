/** Carries out the plan of a build: adds servers as records, and begins the end of idle ones. Synchronous. */
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
  /** Callers who wait for a server of it, or are expected back in a moment. */
  readonly callers: (build: BuildEntry) => number
  /** Servers beyond what is wanted that are not too many yet. */
  readonly spared: (build: BuildEntry) => number
  readonly isDraining: () => boolean
  /** Its spec was written past the API, and cannot be followed. */
  readonly breaksRule: (build: BuildEntry) => boolean
}

/** Scales one build; returns in how many ms to come again when a crash is what holds it back until then. */
export type Scaler = (build: BuildEntry) => number | undefined

/** In the order in which they are ended; those that cannot be handed out go before those that can. */
const current = ['pending', 'initializing', 'unready', 'ready'] as const
const outdated = ['outdatedPending', 'outdatedInitializing', 'outdatedUnready', 'outdatedReady'] as const
const onTheWay: ReadonlySet<Bucket> = new Set(['pending', 'initializing', 'outdatedPending', 'outdatedInitializing'])

export function scaler(ctx: EngineContext, parts: ScalerDependencies): Scaler {
  const { clock, inventory, limits } = ctx

  function scale(build: BuildEntry): number | undefined {
    if (build.deleted) return undefined
    const pauseMs = build.backoff.until - clock.elapsed()
    // Looked at in any case: what is wrong with its spec is told whatever else keeps it from new servers.
    const breaksRule = parts.breaksRule(build)
    const mayCreate = pauseMs <= 0 && !breaksRule && buildHealth(build.record) === 'Healthy'
    const draining = build.draining || parts.isDraining()
    renewBegun(build)
    const isChanging = !draining && outdatedIn(build) > 0
    // What crashed before a change is no reason to hold it up.
    if (!isChanging) build.crashedTemplate = undefined
    const proven = provenOf(build)
    const partial = isChanging ? renew(build, mayCreate, proven.count) : keep(build, mayCreate, draining)
    if (partial) ctx.enqueue(build)
    return soonest(pauseMs, proven.nextMs)
  }

  /** Every server runs what the build says, or all are to go: only their number may be wrong. */
  function keep(build: BuildEntry, mayCreate: boolean, draining: boolean): boolean {
    const { buckets } = build
    const { create, destroy, partial } = plan({
      pending: buckets.pending.size + buckets.outdatedPending.size,
      initializing: buckets.initializing.size + buckets.outdatedInitializing.size,
      standingBy: buckets.ready.size + buckets.unready.size + buckets.outdatedReady.size + buckets.outdatedUnready.size,
      active: takenOf(build),
      ending: endingIn(build),
      callers: parts.callers(build),
      spared: parts.spared(build),
      spec: withinBounds(build.record.spec),
      mayCreate,
      draining,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    add(build, create)
    if (destroy.pending + destroy.initializing + destroy.standingBy === 0) return partial
    const reason: EndingReason = draining ? 'Drained' : 'ScaledDown'
    const message = draining ? 'its build is being drained' : 'there are more idle servers than its build wants'
    end(build, ['outdatedPending', 'pending'], destroy.pending, reason, message)
    end(build, ['outdatedInitializing', 'initializing'], destroy.initializing, reason, message)
    end(build, ['outdatedUnready', 'unready', 'outdatedReady', 'ready'], destroy.standingBy, reason, message)
    return partial
  }

  /** What nobody was asked for yet runs what its build says now. */
  function renewBegun(build: BuildEntry): void {
    for (const entry of build.buckets.outdatedPending) {
      if (entry.createRequested) continue
      inventory.update(entry, { ...draftOf(entry.record), ...toRun(build) })
    }
  }

  /**
   * How many of the present template are a reason to let old ones go: all that can be handed out, but after a crash of one
   * only those that have stayed up for `backoffResetMs`. `nextMs`: when there is one more of them, 0 when all are.
   */
  function provenOf({ buckets, crashedTemplate, templateHash }: BuildEntry): { count: number; nextMs: number } {
    if (crashedTemplate !== templateHash) return { count: buckets.ready.size, nextMs: 0 }
    let count = 0
    for (const { standingBySince: readySince = Infinity } of buckets.ready) {
      const nextMs = readySince + limits.backoffResetMs - clock.elapsed()
      if (nextMs > 0) return { count, nextMs }
      count++
    }
    return { count, nextMs: 0 }
  }

  /** Some idle servers run an earlier template: they make way for new ones. */
  function renew(build: BuildEntry, mayCreate: boolean, proven: number): boolean {
    const { buckets } = build
    const { create, replace, surplus, partial } = planRollout({
      current: {
        pending: buckets.pending.size,
        // One that stands by and cannot be handed out, or is not to be trusted yet, is no reason to let an old one go.
        initializing: buckets.initializing.size + buckets.unready.size + buckets.ready.size - proven,
        standingBy: proven,
      },
      outdated: {
        pending: buckets.outdatedPending.size,
        initializing: buckets.outdatedInitializing.size,
        standingBy: buckets.outdatedReady.size + buckets.outdatedUnready.size,
      },
      active: takenOf(build),
      ending: endingIn(build),
      callers: parts.callers(build),
      spec: withinBounds(build.record.spec),
      mayCreate,
      maxCreatesPerReconcile: limits.maxCreatesPerReconcile,
      maxDeletesPerReconcile: limits.maxDeletesPerReconcile,
      maxPending: limits.maxPending,
    })
    add(build, create)
    end(build, outdated, replace, 'Replaced', 'it runs a template that its build no longer has')
    end(build, current, surplus, 'ScaledDown', 'there are more idle servers than its build wants')
    return partial
  }

  function add(build: BuildEntry, count: number): void {
    for (let i = 0; i < count; i++) addServer(build)
  }

  function addServer(build: BuildEntry): void {
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
      ...toRun(build),
      createdAt: clock.now(),
      state: 'Pending',
      health: 'Unknown',
    }
    const entry = inventory.addServer(build, record, undefined)
    build.needsAction.add(entry)
    ctx.emitter.emit({ type: 'ServerCreated', ...serverEvent(ctx, entry, `${name} was created`) })
  }

  function end(
    build: BuildEntry,
    buckets: readonly Bucket[],
    count: number,
    reason: EndingReason,
    message: string,
  ): void {
    let left = count
    for (const name of buckets) {
      const bucket = build.buckets[name]
      for (; left > 0 && bucket.size > 0; left--) {
        // Of those on their way to ready the youngest: the others get there sooner.
        const entry = onTheWay.has(name) ? bucket.last : bucket.first
        if (entry) inventory.update(entry, transition(entry.record, { type: 'end', reason, message }, clock.now()))
      }
    }
  }

  return scale
}

/** What a server's record says of the template that it is to run. */
function toRun({ templateHash, record }: BuildEntry): Pick<Server, 'templateHash' | 'graceSeconds'> {
  return { templateHash, graceSeconds: graceSecondsOf(record.spec.template) }
}

/** Past the API a standingBy above max can be asked for: it counts as max. */
function withinBounds(spec: BuildSpec): BuildSpec {
  return spec.standingBy <= spec.max ? spec : { ...spec, standingBy: spec.max }
}

/** A server being handed out is as good as Active: it must neither be ended nor be counted as idle. */
function takenOf({ buckets }: BuildEntry): number {
  return buckets.active.size + buckets.reserved.size
}

function endingIn({ buckets }: BuildEntry): number {
  let count = 0
  for (const { stored, recordDeleted: recordGone } of buckets.terminating) {
    if (stored?.state !== 'Terminating' && !recordGone) count++
  }
  return count
}

/** The shortest of these waits; undefined when none has a known end that lies ahead. */
function soonest(...waitsMs: readonly number[]): number | undefined {
  const ms = Math.min(...waitsMs.filter((waitMs) => waitMs > 0))
  return ms < Infinity ? ms : undefined
}

/** Idle servers that run an earlier template. */
function outdatedIn({ buckets }: BuildEntry): number {
  const { outdatedPending, outdatedInitializing, outdatedUnready, outdatedReady } = buckets
  return outdatedPending.size + outdatedInitializing.size + outdatedUnready.size + outdatedReady.size
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
