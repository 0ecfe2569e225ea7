/**
 * Decides by a build's scaling policies how many servers stand by, each time the build is reconciled: so at the event that changes the demand,
 * and not at a tick. Chooses the idle servers that are replaced for their age. Synchronous.
 */
import type { BuildSpec } from '../../rules/model/resources.js'
import { canonical } from '../../rules/model/values.js'
import { type Decision, decide, followedFrom, type Now, openWindow, overrideMs } from '../../rules/scaling/policies.js'
import { windowAt } from '../../rules/scaling/windows.js'
import { buildEvent, type EngineContext } from '../context.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { inUse, standingByIn, startingIn } from '../state/queries.js'
import type { Cached, Override, ScalingState } from '../state/scaling-state.js'

/** How often, at most, an event tells a number that the same policy has decided. */
const tellMs = 60_000
/** How often the ages of idle servers are looked at. */
const ageReviewMs = 60_000
/** How often, at least, what depends on the wall clock is decided anew: that clock may be set. */
const wallReviewMs = 60_000

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
    const idleSince = isUsed ? undefined : (before?.idleSince ?? now.elapsed)
    const open = schedule && cached(before?.open, spec, now.wall, () => openWindow(schedule, now.wall))
    const decision = decide(
      { fixed: spec, scaling },
      { inUse: inUse(build), sessions: build.sessions, idleSince, overriddenUntil: override?.until },
      {
        before: before?.decision.followed ?? followedFrom(startingIn(build) + standingByIn(build), now),
        now,
        open: open?.value,
      },
    )
    build.scaling = {
      ...(before ?? newState(decision, now)),
      ...{ source: spec, spec: withNumbers(before, spec, decision) },
      ...{ decision, idleSince, open, override },
    }
    this.#deps.conditions.update(build, 'ScalingOverridden', override?.reason ?? '', override?.message)
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
      ...{ standingBy, standingBySessions: scaling?.decision.standingBySessions ?? 0 },
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
    scaling.override = newOverride(record.spec, this.#ctx.clock.now())
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

  /** The number that was set by hand, if it holds still: if `standingBy` was changed and the policies were not. */
  #overrideOf(build: BuildEntry, spec: BuildSpec, now: Now): Override | undefined {
    const { scaling = {} } = spec
    const known = build.scaling ? build.scaling.override : recordedOverride(build, overrideMs(scaling))
    const source = build.scaling?.source ?? spec
    if (source !== spec && canonical(source.scaling) !== canonical(scaling)) return undefined
    if (source.standingBy !== spec.standingBy) return newOverride(spec, now.wall)
    return known && known.until > now.wall ? known : undefined
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
    const restMs = scaling.agesDueAt - now.elapsed
    if (restMs > 0) return restMs
    scaling.agesDueAt = now.elapsed + ageReviewMs
    const { ready, outdatedReady } = build.buckets
    const left = [...scaling.aged].filter((entry) => entry.bucket === 'outdatedReady')
    const old = [...ready].filter(
      ({ standingBySince = Infinity }) => standingBySince + maxIdleAgeSeconds * 1_000 <= now.elapsed,
    )
    const most = Math.max(1, Math.floor((ready.size + outdatedReady.size) / 10))
    inventory.setAged(scaling, new Set([...left, ...old.toSorted(byAge)].slice(0, most)))
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
function newOverride({ scaling = {}, standingBy }: BuildSpec, now: number): Override | undefined {
  const until = now + overrideMs(scaling)
  if (until === now) return undefined
  const message = `standingBy was set to ${standingBy}, which holds instead of the scaling policies until ${new Date(until).toISOString()}`
  return { until, reason: `StandingBy${standingBy}`, message }
}

/** What the condition in the record says, which an earlier leader has set. */
function recordedOverride({ record }: BuildEntry, ms: number): Override | undefined {
  const condition = record.conditions.find(({ type }) => type === 'ScalingOverridden')
  return condition && { until: condition.since + ms, reason: condition.reason, message: condition.message }
}

/** The same object while nothing changes. */
function withNumbers(
  before: ScalingState | undefined,
  spec: BuildSpec,
  { standingBy, standingBySessions }: Decision,
): BuildSpec {
  const known = before?.source === spec ? before.spec : undefined
  if (known?.standingBy === standingBy && known.standingBySessions === standingBySessions) return known
  return { ...spec, standingBy, standingBySessions }
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
