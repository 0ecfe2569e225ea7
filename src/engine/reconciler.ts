/**
 * Brings a build from what it is to what it should be. Level-triggered: a pass reads the present state, plans, begins
 * what is to be done and returns; whatever ends or fails asks for the next pass. A pass itself never waits.
 */
import { messageOf } from '../errors.js'
import { afterFailure, isOver, noBackoff } from '../rules/backoff.js'
import { transition } from '../rules/lifecycle.js'
import { serverName, suffixLength } from '../rules/names.js'
import { type EndingReason, keyOf, type Server } from '../rules/resources.js'
import { plan, type PlanInput } from '../rules/scaling.js'
import { buildHealth, withoutCondition } from '../rules/status.js'
import type { BuildWriter } from './build-writer.js'
import { backoffLimits, buildEvent, buildRefOf, type EngineContext, serverEvent } from './context.js'
import type { BuildEntry, ServerEntry } from './inventory.js'
import type { LinkedSet } from './linked-set.js'

export interface ReconcilerParts {
  readonly buildWriter: BuildWriter
  /** Does the next thing about a server; returns in how many ms to come back when it has to wait. */
  readonly step: (entry: ServerEntry) => Promise<number | undefined>
  readonly waiting: (build: BuildEntry) => number
  readonly isDraining: () => boolean
}

/** One pass over one build; returns in how many ms to come again without being asked. */
export type Reconcile = (build: BuildEntry) => number | undefined

export function reconciler(ctx: EngineContext, parts: ReconcilerParts): Reconcile {
  const { clock, inventory, limits } = ctx

  function reconcile(build: BuildEntry): number | undefined {
    if (ctx.stopped()) return undefined
    const comeBack = [scale(build), attendAll(build), clearCrashing(build)].filter((ms) => ms !== undefined)
    return comeBack.length === 0 ? undefined : Math.min(...comeBack)
  }

  function scale(build: BuildEntry): number | undefined {
    if (build.deleted) return undefined
    const pauseMs = build.backoff.until - clock.elapsed()
    const input = planInput(build, pauseMs <= 0)
    const { create, destroy, partial } = plan(input)
    for (let i = 0; i < create; i++) addServer(build)
    const draining = input.draining
    const reason: EndingReason = draining ? 'Drained' : 'ScaledDown'
    const message = draining ? 'the fleet is being drained' : `more idle servers than the build wants`
    endFirst(build.buckets.pending, destroy.pending, reason, message)
    endFirst(build.buckets.initializing, destroy.initializing, reason, message)
    // Those that cannot be handed out go before those that can.
    const left = destroy.standingBy - endFirst(build.buckets.unready, destroy.standingBy, reason, message)
    endFirst(build.buckets.ready, left, reason, message)
    if (partial) ctx.enqueue(build)
    return pauseMs > 0 ? pauseMs : undefined
  }

  function planInput(build: BuildEntry, backoffOver: boolean): PlanInput {
    const { pending, initializing, ready, unready, reserved, active } = build.buckets
    return {
      spec: build.record.spec,
      pending: pending.size,
      initializing: initializing.size,
      standingBy: ready.size + unready.size,
      // A server being handed out is as good as Active: it must neither be ended nor be counted as idle.
      active: active.size + reserved.size,
      waiting: parts.waiting(build),
      mayCreate: backoffOver && buildHealth(build.record) === 'Healthy',
      draining: build.draining || parts.isDraining(),
      createsPerPass: limits.createsPerPass,
      deletesPerPass: limits.deletesPerPass,
    }
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
      createdAt: clock.now(),
      state: 'Pending',
      health: 'Unknown',
    }
    const entry = inventory.addServer(build, record, undefined)
    build.todo.add(entry)
    ctx.emitter.emit({ type: 'ServerCreated', ...serverEvent(ctx, entry, `${name} was created`) })
  }

  function endFirst(bucket: LinkedSet<ServerEntry>, count: number, reason: EndingReason, message: string): number {
    if (count <= 0) return 0
    let ended = 0
    for (const entry of bucket) {
      if (ended >= count) break
      inventory.update(entry, transition(entry.record, { type: 'end', reason, message }, clock.now()))
      ended++
    }
    return ended
  }

  /** Begins whatever can be begun; returns when the first pause after a failure is over. */
  function attendAll(build: BuildEntry): number | undefined {
    let soonest: number | undefined
    for (const entry of build.todo) {
      if (entry.busy) continue
      const pauseMs = entry.retry.until - clock.elapsed()
      if (pauseMs > 0) soonest = Math.min(soonest ?? pauseMs, pauseMs)
      else void attend(entry)
    }
    return soonest
  }

  /** Never rejects: what fails is told, and tried again after a pause. */
  async function attend(entry: ServerEntry): Promise<void> {
    entry.busy = true
    try {
      const againMs = await parts.step(entry)
      entry.retry = againMs === undefined ? noBackoff : { failures: 0, until: clock.elapsed() + againMs }
    } catch (error) {
      entry.retry = afterFailure(entry.retry, clock.elapsed(), backoffLimits(ctx))
      ctx.emitter.emit({
        type: 'ReconcileFailed',
        at: clock.now(),
        build: buildRefOf(entry.record),
        message: messageOf(error),
      })
      ctx.logger.warn({ server: entry.record.name, error: messageOf(error) }, 'could not be done, will be tried again')
    } finally {
      entry.busy = false
      ctx.enqueue(entry.build)
    }
  }

  /** A build whose servers stay up has forgotten its crashes, but for their count. */
  function clearCrashing(build: BuildEntry): number | undefined {
    if (build.deleted || build.changing) return undefined
    if (!build.record.conditions.some((condition) => condition.type === 'Crashing')) return undefined
    const limitsMs = backoffLimits(ctx)
    const now = clock.elapsed()
    if (!isOver(build.backoff, now, limitsMs)) return build.backoff.until + limitsMs.resetMs - now
    parts.buildWriter
      .change(build, (record) => ({ ...record, conditions: withoutCondition(record.conditions, 'Crashing') }))
      .catch((error: unknown) => {
        ctx.emitter.emit({ type: 'ReconcileFailed', ...buildEvent(ctx, build.record, messageOf(error)) })
      })
    return limitsMs.firstMs
  }

  return reconcile
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
