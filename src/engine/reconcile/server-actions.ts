/**
 * Does the next thing about one server: saves its record, starts its instance, or ends it. Each step can be repeated,
 * so a host that dies between two of them leaves nothing that its successor does not finish.
 */
import type { InstanceSpec } from '../../contracts/backend.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import { isOver } from '../../rules/lifecycle/backoff.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { sessionHostId } from '../../rules/model/names.js'
import type { Server } from '../../rules/model/resources.js'
import { withCondition, withoutCondition } from '../../rules/model/status.js'
import { graceSecondsOf } from '../../rules/validation/template.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { backoffLimits, type EngineContext, refOf, serverEvent } from '../context.js'
import type { DetailWriter } from '../persistence/detail-writer.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { isCurrent } from '../state/queries.js'
import type { Preparation } from './preparation.js'
import { isSaved, LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { InstanceWatcher } from '../instances/instance-watcher.js'

export interface ServerActionDependencies {
  readonly writer: ServerWriter
  readonly buildWriter: BuildWriter
  readonly details: DetailWriter
  readonly watcher: Pick<InstanceWatcher, 'observe'>
  readonly preparation: Preparation
  /** Its spec was written past the API, and cannot be followed. */
  readonly breaksRule: (build: BuildEntry) => boolean
  /** Tells why it cannot be started yet. */
  readonly blocked: (entry: ServerEntry, error: unknown) => Promise<void>
}

const mostAttempts = 5

export interface ServerActions {
  /** Does the next thing; returns in how many ms to come back when something has to be waited for. */
  step(entry: ServerEntry): Promise<number | undefined>
  /** Makes durable what it is now, also while a step is under way. Throws the store's error. */
  save(entry: ServerEntry): Promise<void>
}

export function serverActions(ctx: EngineContext, parts: ServerActionDependencies): ServerActions {
  const { backend, store, clock, inventory } = ctx

  async function step(entry: ServerEntry): Promise<number | undefined> {
    await save(entry)
    // It has changed while it was being written: what it is now must be durable before anything is done about it.
    const isBeingHandedOut = entry.intent !== undefined && entry.record.state !== 'Terminating'
    if (!entry.recordDeleted && !isBeingHandedOut && !isSaved(entry)) return 0
    if (entry.record.state === 'Pending' && !entry.instance) {
      const waitMs = await start(entry)
      if (waitMs !== undefined) return waitMs
    } else if (entry.record.state === 'Terminating') {
      return end(entry)
    } else if (needsProtection(ctx, entry)) {
      await protect(entry)
    }
    if (!needsAttention(ctx, entry)) entry.build.needsAction.delete(entry)
    return undefined
  }

  async function save(entry: ServerEntry): Promise<void> {
    if (entry.recordDeleted) return
    try {
      if (entry.uncertain) await parts.writer.resolveUncertain(entry)
      // An intent that is not uncertain is being written by the call that has it, unless the server has ended since.
      else if (!entry.intent || entry.record.state === 'Terminating') await parts.writer.save(entry)
    } catch (error) {
      // The entry tells already what it is now, and this step goes on from there.
      if (!(error instanceof LostServer)) throw error
    }
  }

  /** Returns in how many ms to come back when it cannot be started yet. */
  async function start(entry: ServerEntry): Promise<number | undefined> {
    const { build } = entry
    try {
      const waitMs = holdUp(entry)
      if (waitMs !== undefined) return waitMs
      const begun = await ctx.creating(async () => {
        // It may have been ended, or the host be closing, while it waited its turn.
        if (entry.record.state !== 'Pending' || entry.instance || ctx.stopped()) return undefined
        // Or its template have changed, which nobody has fetched anything for yet.
        const stillMs = holdUp(entry)
        if (stillMs !== undefined) return stillMs
        entry.createRequested = true
        const spec = instanceSpec(entry, ctx.agentAddress)
        return withTimeout(clock, ctx.limits.callTimeoutMs, `the start of ${entry.record.name}`, (signal) =>
          backend.create(spec, { signal }),
        )
      })
      if (typeof begun !== 'object') return begun
      parts.watcher.observe(begun)
      // It has been told why it does not come to run, and so has its build.
      if (begun.blocked) return undefined
    } catch (error) {
      entry.pendingReason = messageOf(error)
      parts.preparation.doubt(build)
      await parts.blocked(entry, error)
      throw error
    }
    const isBlocked = build.record.conditions.some((condition) => condition.type === 'CreateBlocked')
    // Those before it may have been made as well, and have ended at once: told until none is pending any more.
    const isOnTrial = !isOver(build.backoff, clock.elapsed(), backoffLimits(ctx))
    if (!build.deleted && isBlocked && !isOnTrial && !hasStuck(build)) {
      await parts.buildWriter.change(build, (record) => ({
        ...record,
        conditions: withoutCondition(record.conditions, 'CreateBlocked'),
      }))
    }
    return undefined
  }

  /** Undefined when it may be started now; else in how many ms to come back. Throws why what it needs is not there. */
  function holdUp(entry: ServerEntry): number | undefined {
    if (!isSaved(entry)) return 0
    if (entry.build.deleted) return undefined
    if (parts.breaksRule(entry.build)) return waitForSpec(entry)
    if (isCurrent(entry)) return parts.preparation.wait(entry)
    // One that was not asked for yet is brought up to date by the next pass.
    return entry.createRequested ? giveUp(entry) : 0
  }

  function waitForSpec(entry: ServerEntry): number {
    const told = entry.build.record.conditions.find(({ type }) => type === 'Invalid')
    entry.pendingReason = told?.message ?? 'the spec of its build breaks a rule'
    return ctx.limits.backoffInitialMs
  }

  /** The template changed before it was started: what runs must be what its record says, and nothing else can be had. */
  function giveUp(entry: ServerEntry): number {
    const message = 'it was to run a template that its build no longer has'
    inventory.update(entry, transition(entry.record, { type: 'end', reason: 'Replaced', message }, clock.now()))
    return 0
  }

  async function protect(entry: ServerEntry): Promise<void> {
    const { uid, name } = entry.record
    await withTimeout(clock, ctx.limits.callTimeoutMs, `the protection of ${name}`, async (signal) =>
      backend.protect?.(refOf(entry.record), uid, { signal }),
    )
    entry.isProtected = true
  }

  async function end(entry: ServerEntry): Promise<number | undefined> {
    await countCrash(entry)
    const { aloneMs, leftMs } = graceOf(entry)
    const waitMs = (entry.terminatingSince ?? 0) + aloneMs - clock.elapsed()
    if (waitMs > 0 && entry.instance?.phase === 'running') return waitMs
    if (entry.createRequested) {
      const ref = refOf(entry.record)
      // One that counts as exited may still run, and be ended by somebody else: it keeps what it would have had alone.
      const graceMs = leftMs + Math.max(0, waitMs)
      await ctx.destroying(() =>
        withTimeout(clock, graceMs + ctx.limits.callTimeoutMs, `the end of ${ref.name}`, (signal) =>
          backend.destroy(ref, entry.record.uid, { graceMs, signal }),
        ),
      )
    }
    await parts.details.remove(entry)
    // Also what is gone: a write of before may have taken effect late.
    if (entry.revision !== undefined) await removeRecord(entry)
    inventory.remove(entry)
    ctx.emitter.emit({
      type: 'ServerRemoved',
      ...serverEvent(ctx, entry, `${entry.record.name} is gone`),
    })
    return undefined
  }

  /** A crash is in the build's durable count before the server's record, which tells of it, is removed. */
  async function countCrash(entry: ServerEntry): Promise<void> {
    if (!entry.record.ending?.crash || entry.crashCounted || entry.build.deleted) return
    const { name, uid, ending } = entry.record
    await parts.buildWriter.change(entry.build, (record) => {
      if (record.countedCrashes.includes(uid)) return record
      return {
        ...record,
        crashes: record.crashes + 1,
        countedCrashes: [...withoutRemoved(entry.build, record.countedCrashes), uid],
        conditions: withCondition(record.conditions, {
          type: 'Crashing',
          reason: ending.reason,
          message: `${name}: ${ending.message}`,
          since: clock.now(),
        }),
      }
    })
    entry.crashCounted = true
  }

  async function removeRecord(entry: ServerEntry): Promise<void> {
    for (let attempt = 1; entry.revision !== undefined; attempt++) {
      const { revision } = entry
      try {
        await store.servers.delete(entry.record, revision)
        // Unless it was found there again meanwhile: a write of before took effect late.
        if (entry.revision === revision) return
      } catch (error) {
        if (!FleetError.is(error, 'conflict')) throw error
        const current = await store.servers.get(entry.record)
        if (current?.record.uid !== entry.record.uid) return
        // Somebody has touched it. At once again: after a pause it may have been touched again.
        entry.revision = current.revision
        if (attempt >= mostAttempts) throw error
      }
    }
  }

  return { step, save }
}

function hasStuck({ buckets }: BuildEntry): boolean {
  return [buckets.pending, buckets.outdatedPending].some((bucket) =>
    [...bucket].some(({ instance }) => instance?.blocked),
  )
}

/**
 * The two halves of a grace period: one to go by itself, for a game that its heartbeats tell, since many games know only
 * that way; and what is left for its backend to end it. A game that nothing tells has it all for the second.
 */
function graceOf(entry: ServerEntry): { readonly aloneMs: number; readonly leftMs: number } {
  const { record, build } = entry
  const graceMs = 1_000 * (record.graceSeconds ?? graceSecondsOf(build.record.spec.template))
  const aloneMs = entry.learnsByHeartbeat ? graceMs / 2 : 0
  return { aloneMs, leftMs: graceMs - aloneMs }
}

/** Without those whose record is gone, now and then: many crashes at once must not look through one another each time. */
function withoutRemoved(build: BuildEntry, counted: readonly string[]): readonly string[] {
  const { terminating } = build.buckets
  if (counted.length <= 2 * terminating.size) return counted
  const uids = new Set(Array.from(terminating, ({ record }) => record.uid))
  return counted.filter((uid) => uids.has(uid))
}

/** Players may be on it, and what clears machines does not know it yet. */
export function needsProtection({ backend }: Pick<EngineContext, 'backend'>, entry: ServerEntry): boolean {
  return entry.record.state === 'Active' && !entry.isProtected && backend.protect !== undefined
}

/** What it is now is not durable, and no write of it is under way. */
export function needsSaving(entry: ServerEntry): boolean {
  if (entry.saving || entry.recordDeleted) return false
  return entry.uncertain || isUnsaved(entry)
}

/** Something is left to do that does not wait for anything to happen. */
function needsAttention(ctx: EngineContext, entry: ServerEntry): boolean {
  if (entry.uncertain || entry.record.state === 'Terminating') return true
  if (entry.record.state === 'Pending' && !entry.instance) return true
  return needsProtection(ctx, entry) || isUnsaved(entry)
}

/** What is being handed out is saved by the call that has it. */
function isUnsaved(entry: ServerEntry): boolean {
  return (entry.intent === undefined || entry.record.state === 'Terminating') && !isSaved(entry)
}

function instanceSpec(entry: ServerEntry, heartbeatEndpoint: string): InstanceSpec {
  const build = entry.build.record
  const server: Server = entry.record
  return {
    ref: refOf(server),
    uid: server.uid,
    build: { namespace: build.namespace, name: build.name, uid: build.uid, buildID: build.spec.buildID },
    template: build.spec.template,
    portsToExpose: build.spec.portsToExpose,
    sdk: {
      heartbeatEndpoint,
      sessionHostId: sessionHostId(server.name, server.token),
      buildMetadata: build.spec.buildMetadata ?? {},
    },
  }
}
