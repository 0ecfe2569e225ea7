/**
 * Decides by a build's scaling policies how many servers stand by, each time the build is reconciled: so at the event that changes the demand,
 * and not at a tick. Tells the decisions in events. Synchronous.
 */
import type { BuildSpec } from '../../rules/model/resources.js'
import { type Forecast, forecastFor, forecastVote, type History } from '../../rules/scaling/forecast.js'
import {
  type Decision,
  decide,
  followedFrom,
  type Now,
  openWindow,
  type ScalingSpec,
} from '../../rules/scaling/policies.js'
import { buildEvent, type EngineContext } from '../context.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import type { BuildEntry } from '../state/entries.js'
import { inUse, standingByIn, startingIn } from '../state/queries.js'
import { type Cached, cached, type ScalingState } from '../state/scaling-state.js'
import { IdleAges, noneAged } from './idle-ages.js'
import { OutsidePolicies, type OutsidePolicyDependencies } from './outside-policies.js'
import { overrideOf, setByHand } from './scaling-override.js'

/** How often, at most, an event tells a number that the same policy has decided. */
const tellMs = 60_000
/** How often, at least, what depends on the wall clock is decided anew: that clock may be set. */
const wallReviewMs = 60_000

export interface ScalingPolicyDependencies extends OutsidePolicyDependencies {
  readonly conditions: Pick<Conditions, 'update'>
  /** Number of servers that callers need. */
  readonly callers: (build: BuildEntry) => number
  readonly history: (build: BuildEntry) => History
}

export class ScalingPolicies {
  readonly #ctx: EngineContext
  readonly #deps: ScalingPolicyDependencies
  readonly #outside: OutsidePolicies
  readonly #ages: IdleAges

  constructor(ctx: EngineContext, deps: ScalingPolicyDependencies) {
    this.#ctx = ctx
    this.#deps = deps
    this.#outside = new OutsidePolicies(ctx, deps)
    this.#ages = new IdleAges(ctx.inventory)
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
    const override = overrideOf(build, spec, now)
    const isUsed = inUse(build) > 0 || this.#deps.callers(build) > 0
    const idleSince = isUsed ? undefined : (before?.idleSince ?? idleFrom(build, scaling, now))
    const open = schedule && cached(before?.open, spec, now.wall, () => openWindow(schedule, now.wall))
    const history = this.#deps.history(build)
    const forecast = forecastIn(build, now.wall, history)
    const decision = decide(
      { fixed: spec, scaling },
      { inUse: inUse(build), idleSince, overriddenUntil: override?.until },
      {
        before: before?.decision.followed ?? followedFrom(standingByIn(build), now),
        now,
        open: open?.value,
        others: [
          ...(forecast ? [forecastVote(forecast.value)] : []),
          ...this.#outside.votes(build, scaling, history, now),
        ],
      },
    )
    build.scaling = {
      ...(before ?? newState(decision, now)),
      ...{ source: spec, spec: withNumbers(before, spec, decision) },
      ...{ decision, forecast, idleSince, open, override },
    }
    this.#deps.conditions.update(build, 'ScalingOverridden', 'SetByHand', override?.message)
    const toldMs = this.#tell(build, build.scaling, now)
    const agesMs = this.#ages.review(build, build.scaling, now)
    const outsideMs = this.#outside.ask(build, scaling, decision, now)
    const wallMs = schedule || override || scaling.replaceWindow ? wallReviewMs : undefined
    const forecastMs = forecast && Math.max(1, forecast.value.until - now.wall)
    return earliest(decision.nextMs, forecastMs, toldMs, agesMs, outsideMs, wallMs)
  }

  /** There is no room for replacements: no idle server is replaced for its age. */
  spareAged({ scaling }: BuildEntry): void {
    if (scaling) this.#ages.spare(scaling)
  }

  stop(): void {
    this.#outside.stop()
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
    scaling.override = setByHand(scaling, record.spec, this.#ctx.clock.now())
    this.#ctx.enqueue(build)
  }

  #forget(build: BuildEntry): undefined {
    if (build.scaling) {
      this.#ages.spare(build.scaling)
      this.#outside.forget(build)
      build.scaling = undefined
    }
    if (hasCondition(build.record, 'ScalingOverridden')) {
      this.#deps.conditions.update(build, 'ScalingOverridden', '', undefined)
    }
    return undefined
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
}

function newState(
  decision: Decision,
  { elapsed }: Now,
): Pick<
  ScalingState,
  'forecast' | 'idleSince' | 'open' | 'override' | 'replaceWindow' | 'told' | 'aged' | 'agesDueAt'
> {
  return {
    ...{ forecast: undefined, idleSince: undefined, open: undefined, override: undefined, replaceWindow: undefined },
    told: { decider: decision.decider, standingBy: decision.standingBy, at: elapsed },
    aged: noneAged,
    agesDueAt: elapsed,
  }
}

function forecastIn(build: BuildEntry, now: number, history: History): Cached<Forecast> | undefined {
  const { candidates, record, scaling } = build
  const policy = record.spec.scaling?.forecast
  if (!policy) return undefined
  // What is not known may be known by now.
  const before = scaling?.forecast?.value.isKnown ? scaling.forecast : undefined
  return cached(before, record.spec, now, () => forecastFor(policy, now, history, candidates?.placesPerServer))
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

function earliest(...waits: readonly (number | undefined)[]): number | undefined {
  const ms = Math.min(...waits.map((wait) => wait ?? Infinity))
  return Number.isFinite(ms) ? ms : undefined
}
