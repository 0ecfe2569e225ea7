/**
 * Decides by a build's scaling policies how many servers stand by, each time the build is reconciled: so at the event that changes the demand,
 * and not at a tick. Chooses the idle servers that are replaced for their age. Synchronous.
 */
import type { BuildSpec } from '../../rules/model/resources.js'
import { canonical } from '../../rules/model/values.js'
import {
  type Decision,
  decide,
  followedFrom,
  type Now,
  openWindow,
  overrideMs,
  type ScalingSpec,
} from '../../rules/scaling/policies.js'
import { windowAt } from '../../rules/scaling/windows.js'
import { buildEvent, type EngineContext } from '../context.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { inUse, maxServersOf, serverCount, standingByIn, startingIn } from '../state/queries.js'
import type { Cached, Override, ScalingState } from '../state/scaling-state.js'

/** How often, at most, an event tells a number that the same policy has decided. */
const tellMs = 60_000
/** How often the ages of idle servers are looked at. */
const ageReviewMs = 60_000
/** How often, at least, what depends on the wall clock is decided anew: that clock may be set. */
const wallReviewMs = 60_000

/** Clocks of two hosts may differ by so much. */
const skewMs = 60_000

const noneAged: ReadonlySet<ServerEntry> = new Set()

export interface ScalingPolicyDependencies {
  readonly conditions: Pick<Conditions, 'update'>
  /** Number of servers that callers need. */
  readonly callers: (build: BuildEntry) => number
}

export class ScalingPolicies {
  readonly #ctx: EngineContext
  readonly #deps: ScalingPolicyDependencies

  constructor(ctx: EngineContext, deps: ScalingPolicyDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Decides for a build. Returns the time in ms after which to decide again even if nothing happens. */
  decide(build: BuildEntry): number | undefined {
    const { clock } = this.#ctx
    const { spec } = build.record
    const { scaling } = spec
    if (!scaling) return this.#forget(build)
    const { schedule } = scaling
    const now = { wall: clock.now(), elapsed: clock.elapsed() }
    const before = build.scaling
    const override = this.#overrideOf(build, spec, now)
    const isUsed = inUse(build) > 0 || this.#deps.callers(build) > 0
    const idleSince = isUsed ? undefined : (before?.idleSince ?? idleFrom(build, scaling, now))
    const open = schedule && cached(before?.open, spec, now.wall, () => openWindow(schedule, now.wall))
    const decision = decide(
      { fixed: spec, scaling },
      { inUse: inUse(build), idleSince, overriddenUntil: override?.until },
      {
        before: before?.decision.followed ?? followedFrom(standingByIn(build), now),
        now,
        open: open?.value,
      },
    )
    build.scaling = {
      ...(before ?? newState(decision, now)),
      ...{ source: spec, spec: withNumbers(before, spec, decision) },
      ...{ decision, idleSince, open, override },
    }
    this.#deps.conditions.update(build, 'ScalingOverridden', 'SetByHand', override?.message)
    const toldMs = this.#tell(build, build.scaling, now)
    const agesMs = this.#reviewAges(build, build.scaling, now)
    const wallMs = schedule || override || scaling.replaceWindow ? wallReviewMs : undefined
    return earliest(decision.nextMs, toldMs, agesMs, wallMs)
  }

  /** The spec is invalid, and so its policies may be: what was decided before holds, or else as many as there are. */
  hold(build: BuildEntry): undefined {
    const { scaling, record } = build
    if (!scaling && !record.spec.scaling) return undefined
    const { clock } = this.#ctx
    const now = { wall: clock.now(), elapsed: clock.elapsed() }
    const standingBy = scaling?.decision.standingBy ?? startingIn(build) + standingByIn(build)
    const decision: Decision = {
      standingBy,
      decider: scaling?.decision.decider ?? 'standingBy',
      message: 'the spec is invalid, so that what was decided before holds',
      nextMs: undefined,
      followed: scaling?.decision.followed ?? followedFrom(standingBy, now),
    }
    build.scaling = {
      ...(scaling ?? newState(decision, now)),
      source: record.spec,
      spec: withNumbers(scaling, record.spec, decision),
      decision,
    }
    return undefined
  }

  /** A caller has come, and was refused at once because the build keeps nothing while nobody uses it. */
  callerRefused(build: BuildEntry): void {
    const { scaling } = build
    if (scaling?.idleSince === undefined) return
    scaling.idleSince = this.#ctx.clock.elapsed()
    this.#ctx.enqueue(build)
  }

  /** A caller has set `standingBy`, even if to the number that it was. */
  setByHand(build: BuildEntry): void {
    const { scaling, record } = build
    if (!scaling) return
    const from = scaling.override?.from ?? scaling.source.standingBy
    scaling.override = newOverride(record.spec, from, this.#ctx.clock.now())
    this.#ctx.enqueue(build)
  }

  #forget(build: BuildEntry): undefined {
    if (build.scaling) {
      this.#ctx.inventory.setAged(build.scaling, noneAged)
      build.scaling = undefined
    }
    if (hasCondition(build.record, 'ScalingOverridden')) {
      this.#deps.conditions.update(build, 'ScalingOverridden', '', undefined)
    }
    return undefined
  }

  /** The number that was set by hand, if it holds still: if `standingBy` was changed and nothing else but `max`, and was not put back. */
  #overrideOf(build: BuildEntry, spec: BuildSpec, now: Now): Override | undefined {
    const { scaling = {} } = spec
    const source = build.scaling?.source ?? spec
    const known = build.scaling ? build.scaling.override : recordedOverride(build)
    const holds = known && known.until > now.wall && known.until <= now.wall + overrideMs(scaling) + skewMs
    if (source !== spec && canonical(source.scaling) !== canonical(scaling)) return undefined
    const number = known?.to ?? source.standingBy
    if (number === spec.standingBy) return holds ? known : undefined
    if (known && known.from === spec.standingBy) return undefined
    if (source !== spec && canonical(withoutNumbers(source)) !== canonical(withoutNumbers(spec))) return undefined
    return newOverride(spec, known?.from ?? number, now.wall)
  }

  /** Tells a decision in an event. Returns the time in ms until the next one may be told. */
  #tell(build: BuildEntry, scaling: ScalingState, { elapsed }: Now): number | undefined {
    const { decision, told } = scaling
    const { decider, message, standingBy } = decision
    if (standingBy === told.standingBy) return undefined
    const restMs = told.at + tellMs - elapsed
    if (decider === told.decider && restMs > 0) return restMs
    scaling.told = { decider, standingBy, at: elapsed }
    const before = told.standingBy
    const text = `build ${build.record.name} keeps ${standingBy} ready instead of ${before}: ${message}`
    this.#ctx.emitter.emit({
      type: 'StandingByDecided',
      ...buildEvent(this.#ctx, build.record, text),
      standingBy,
      before,
      decider,
    })
    return undefined
  }

  /** Chooses idle servers to replace for their age: a tenth of those that are ready at a time, but at least one. */
  #reviewAges(build: BuildEntry, scaling: ScalingState, now: Now): number | undefined {
    const { maxIdleAgeSeconds, replaceWindow } = scaling.source.scaling ?? {}
    const { inventory } = this.#ctx
    scaling.replaceWindow =
      replaceWindow &&
      cached(scaling.replaceWindow, scaling.source, now.wall, () =>
        windowAt(replaceWindow, replaceWindow.timeZone, now.wall),
      )
    const window = scaling.replaceWindow?.value
    if (maxIdleAgeSeconds === undefined || window?.isOpen === false) {
      if (scaling.aged.size > 0) inventory.setAged(scaling, noneAged)
      return window && maxIdleAgeSeconds !== undefined ? until(window.until, now.wall) : undefined
    }
    const isOld = ({ bucket, standingBySince = Infinity }: ServerEntry) =>
      (bucket === 'ready' || bucket === 'outdatedReady') && standingBySince + maxIdleAgeSeconds * 1_000 <= now.elapsed
    const left = [...scaling.aged].filter(isOld)
    if (left.length < scaling.aged.size) inventory.setAged(scaling, new Set(left))
    const restMs = scaling.agesDueAt - now.elapsed
    if (restMs > 0) return restMs
    scaling.agesDueAt = now.elapsed + ageReviewMs
    // Without room for another, one would end before the next is ready.
    const hasRoom =
      serverCount(build) - build.buckets.terminating.size < maxServersOf(build) && build.withoutPort.size === 0
    const { ready, outdatedReady } = build.buckets
    const most = hasRoom ? Math.max(1, Math.floor((ready.size + outdatedReady.size) / 10)) : 0
    inventory.setAged(scaling, new Set([...left, ...[...ready].filter(isOld).toSorted(byAge)].slice(0, most)))
    return ageReviewMs
  }
}

function newState(
  decision: Decision,
  { elapsed }: Now,
): Pick<ScalingState, 'idleSince' | 'open' | 'override' | 'replaceWindow' | 'told' | 'aged' | 'agesDueAt'> {
  return {
    ...{ idleSince: undefined, open: undefined, override: undefined, replaceWindow: undefined },
    told: { decider: decision.decider, standingBy: decision.standingBy, at: elapsed },
    aged: noneAged,
    agesDueAt: elapsed,
  }
}

function byAge({ standingBySince: a = 0 }: ServerEntry, { standingBySince: b = 0 }: ServerEntry): number {
  return a - b
}

/** Undefined if the build allows none. */
function newOverride({ scaling = {}, standingBy: to }: BuildSpec, from: number, now: number): Override | undefined {
  const until = now + overrideMs(scaling)
  if (until === now) return undefined
  const message = `standingBy was set from ${from} to ${to}, which holds instead of the scaling policies until ${new Date(until).toISOString()}`
  return { from, to, until, message }
}

/** What the condition in the record says, which an earlier leader has set. */
function recordedOverride({ record }: BuildEntry): Override | undefined {
  const { message = '' } = record.conditions.find(({ type }) => type === 'ScalingOverridden') ?? {}
  const [, from, to, until] = /from (\d+) to (\d+), .* until (\S+)$/.exec(message) ?? []
  if (until === undefined) return undefined
  return { from: Number(from), to: Number(to), until: Date.parse(until), message }
}

function withoutNumbers({ standingBy: _, max: __, ...rest }: BuildSpec): object {
  return rest
}

/** A build that has nothing when this host begins to lead, and has existed for long enough, was idle before. */
function idleFrom({ buckets, record }: BuildEntry, { idleSeconds = 0 }: ScalingSpec, now: Now): number {
  const hasNone = Object.values(buckets).every(({ size }) => size === 0)
  const isOlder = now.wall - record.createdAt >= idleSeconds * 1_000
  return hasNone && isOlder ? now.elapsed - idleSeconds * 1_000 : now.elapsed
}

/** The same object while nothing changes. */
function withNumbers(before: ScalingState | undefined, spec: BuildSpec, { decider, standingBy }: Decision): BuildSpec {
  const known = before?.source === spec ? before.spec : undefined
  const standingBySessions = decider === 'idle' ? 0 : spec.standingBySessions
  if (known?.standingBy === standingBy && known.standingBySessions === standingBySessions) return known
  return { ...spec, standingBy, ...(standingBySessions !== undefined && { standingBySessions }) }
}

/** Looks it up again once it may have changed. */
function cached<T extends { readonly until: number }>(
  before: Cached<T> | undefined,
  spec: BuildSpec,
  now: number,
  read: () => T,
): Cached<T> {
  const holds = before?.spec === spec && now >= before.from && now < before.value.until
  return holds ? before : { from: now, spec, value: read() }
}

function until(time: number, now: number): number | undefined {
  return Number.isFinite(time) ? Math.max(1, time - now) : undefined
}

function earliest(...waits: readonly (number | undefined)[]): number | undefined {
  const ms = Math.min(...waits.map((wait) => wait ?? Infinity))
  return Number.isFinite(ms) ? ms : undefined
}
