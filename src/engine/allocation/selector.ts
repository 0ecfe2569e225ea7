/** Finds servers for requests that select them by their data, and the builds whose demand such a request raises. */
import { FleetError } from '../../contracts/errors.js'
import type { ServerSelector } from '../../rules/model/allocation-request.js'
import { noData, type ServerData } from '../../rules/lifecycle/server-data.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { keyOf, type Ref } from '../../rules/model/resources.js'
import { isAllocatable, isByMachine } from '../../rules/planning/server-choice.js'
import {
  acceptsBuild,
  conditionsOf,
  counterOrListMissing,
  fits,
  misfitOf,
  type Selection,
  selectsState,
} from '../../rules/planning/selection.js'
import { buildHealth } from '../../rules/model/build-status.js'
import type { EngineContext } from '../context.js'
import { hasCondition } from '../reporting/conditions.js'
import { bestByMachine, firstThatFits, fullestServer } from '../state/best-candidate.js'
import { type AllocatableBucket, candidatesOf } from '../state/candidates.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { inUse, isBeingAllocated, maxServersOf, serversForCallers, standingByIn, startingIn } from '../state/queries.js'
import { causeOf, drainingError, noServerError } from './allocation-errors.js'
import { noSelectedBuildError, selectedBuilds } from './selected-builds.js'
import { selectorKeys } from './selective-index.js'
import type { Home, SelectiveCaller } from './wait-queue.js'

const heard = ['ready', 'outdatedReady'] as const
const unheard = ['unheard', 'outdatedUnheard'] as const

/** Once so many conditions have been checked, further requests wait for the next turn of the event loop. */
const checksPerTurn = 100_000

/** The buckets of servers that are starting, being allocated or not well. */
const unallocatable = [
  ...(['pending', 'initializing', 'late', 'unready', 'setAside', 'reserved'] as const),
  ...(['outdatedPending', 'outdatedInitializing', 'outdatedLate', 'outdatedUnready'] as const),
]

export interface SelectorDependencies {
  /** Returns the number of waiting callers that count as demand for the build. */
  readonly callers: (build: BuildEntry) => number
}

export class Selector {
  readonly #ctx: Pick<EngineContext, 'clock' | 'inventory' | 'limits'>
  readonly #deps: SelectorDependencies
  /** How many conditions may still be checked for the request whose server is being picked. */
  #checksLeft = 0
  #checkedInTurn = 0
  #nextTurn: Promise<void> | undefined

  constructor(ctx: Pick<EngineContext, 'clock' | 'inventory' | 'limits'>, deps: SelectorDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * The build in whose queue a caller waits if no server fits: the first whose new servers would fit and that can get another one, or
   * else the first whose new servers would fit, preferably one that only the fleet's budget limits, since that may still give it room. If
   * there is none, the caller waits until a server's data are changed, and does not count as demand. `current` is where the caller already
   * waits; its own demand there does not count against it. Throws `not-found` or `draining` if all builds are missing or draining, and
   * `invalid` if no build has a counter or list that the request names, because nothing adds one to a server. A request that names a server
   * does not wait, so it always throws.
   */
  home(selection: Selection, current?: Home): Home {
    const { selectors, change, server } = selection
    if (server) throw namedServerError(this.#ctx.inventory, server, selection)
    let full: BuildEntry | undefined
    let first: BuildEntry | undefined
    for (const selector of selectors) {
      for (const build of this.#buildsOf(selector)) {
        if (build.draining) continue
        first ??= build
        // A new server has no session.
        if (selector.state === 'active') continue
        if (!fits(build.initialData, selector, change)) continue
        if (this.#canGrow(build, current)) return { build, isDemand: true }
        if (!full || (isLimitedByBudget(build) && !isLimitedByBudget(full))) full = build
      }
    }
    if (full) return { build: full, isDemand: true, isFull: true }
    if (!first) throw noSelectedBuildError(this.#ctx.inventory, selectors)
    this.#refuseUnknownNames(selectors, change)
    return { build: first, isDemand: false }
  }

  /**
   * Picks a server that fits the first selector that any server fits: of those that run the current template, the first in the order of
   * the request. Picks one that this host has not heard only if the caller cannot wait, and no other fits any selector.
   * Looks at each group of servers with the same data once. Throws `invalid` if that takes too many checks.
   */
  pick(selection: Selection, canWait: boolean): ServerEntry | undefined {
    if (selection.server) return namedServer(this.#ctx.inventory, selection.server, selection)
    this.#checksLeft = sizeLimits.selectorChecks
    for (const buckets of canWait ? [heard] : [heard, unheard]) {
      for (const selector of selection.selectors) {
        const picked =
          selector.state === 'active'
            ? buckets === heard && fullestServer(this.#buildsOf(selector), selector, selection.change, this.#meets)
            : this.#pickFrom(selector, selection, buckets)
        if (picked) return picked
      }
    }
    return undefined
  }

  /** Undefined if a server may be picked now. Otherwise resolves when other work has had its turn: ask again then. */
  busy(): Promise<void> | undefined {
    if (this.#checkedInTurn < checksPerTurn) return undefined
    return (this.#nextTurn ??= new Promise((resolve) => {
      this.#ctx.clock.after(0, () => {
        this.#nextTurn = undefined
        this.#checkedInTurn = 0
        resolve()
      })
    }))
  }

  /** `fits`, for as many conditions as one request may have checked. */
  readonly #meets: typeof fits = (data, selector, change) => {
    const checks = conditionsOf(selector)
    this.#checkedInTurn += checks
    this.#checksLeft -= checks
    if (this.#checksLeft >= 0) return fits(data, selector, change)
    throw new FleetError(
      'invalid',
      `select has too many conditions for the number of servers with different labels, counters or lists in its builds: at most ${sizeLimits.selectorChecks} are checked for a request; use fewer selectors and conditions, or name fewer builds`,
    )
  }

  /** Throws `invalid` if the order names a counter that no server of any named build has or will have. */
  checkOrder({ selectors, order }: Selection): void {
    const { counter } = order ?? {}
    if (counter === undefined) return
    let problem: string | undefined
    for (const selector of selectors) {
      for (const build of this.#buildsOf(selector)) {
        for (const { counters } of knownData(build)) if (Object.hasOwn(counters, counter)) return
        problem ??= `build ${build.record.name} declares no counter ${counter}`
      }
    }
    if (problem !== undefined) throw new FleetError('invalid', `order.counter: ${problem}`)
  }

  /** True if a server that has become ready, or has got a free place, fits. */
  accepts(selection: Selection, entry: ServerEntry): boolean {
    const { build, record } = entry
    if (build.draining) return false
    const { selectors, change } = selection
    const named = this.#ctx.inventory.nameable(build)
    return selectors.some(
      (selector) =>
        // A server that is being allocated offers the places in addition to its first session.
        selectsState(selector, isBeingAllocated(entry) ? { state: 'Active' } : record) &&
        acceptsBuild(selection, selector, named) &&
        fits(record.data, selector, change),
    )
  }

  callerOf(selection: Selection): SelectiveCaller {
    return {
      buildKeys: selection.selectors.flatMap(selectorKeys),
      accepts: (entry) => this.accepts(selection, entry),
      reconsider: (current) => this.pick(selection, true) ?? this.home(selection, current),
    }
  }

  noServerError({ selectors, change }: Selection, home: Home, waitedMs: number): FleetError {
    const { code, details } = noServerError(home.build, waitedMs)
    const builds = [...new Set(selectors.flatMap((selector) => this.#buildsOf(selector)))]
    const names = builds.map(({ record }) => record.name).join(', ')
    const waited = waitedMs >= 50 ? ` (waited ${Math.round(waitedMs / 100) / 10} s)` : ''
    const no = `no server of ${builds.length > 1 ? 'builds' : 'build'} ${names} that fits is standing by${waited}`
    const full = code === 'max-reached' ? 'none-standing-by' : code
    const isFull = builds.every(isInUse)
    return new FleetError(
      isFull ? 'max-reached' : full,
      no + (home.isDemand ? causeOf(builds, waitedMs) : this.#whyNoDemand(selectors, change)),
      {
        ...(details && { details }),
      },
    )
  }

  #whyNoDemand(selectors: readonly ServerSelector[], change: Selection['change']): string {
    for (const selector of selectors) {
      for (const { draining, initialData, record } of this.#buildsOf(selector)) {
        if (draining) continue
        if (selector.state === 'active')
          return `; no server of build ${record.name} that fits has room for another session`
        const misfit = misfitOf(initialData, selector, change)
        return `; none is started for this caller, because a new server of build ${record.name} would not fit: ${misfit}`
      }
    }
    return ''
  }

  #pickFrom(
    selector: ServerSelector,
    { change, order: ownOrder }: Selection,
    buckets: readonly AllocatableBucket[],
  ): ServerEntry | undefined {
    const shared = withoutAnnotations(change)
    const builds = this.#buildsOf(selector)
    const order = ownOrder ?? builds[0]?.record.spec.order
    const loads = isByMachine(order) ? this.#ctx.inventory.machineLoads : undefined
    const isFit = (data: ServerData | undefined) => this.#meets(data, selector, shared)
    for (const bucket of buckets) {
      const ranking = { bucket, change, order }
      const best = loads ? bestByMachine(builds, ranking, isFit, loads) : firstThatFits(builds, ranking, isFit)
      if (best) return best
    }
    return undefined
  }

  /**
   * True if the build can serve one more waiting caller: with a server that is starting and that no caller waits for yet, or with another
   * one that it may start. False while its servers are late, since further ones would probably be late, too.
   */
  #canGrow(build: BuildEntry, current: Home | undefined): boolean {
    const { backoff, buckets, record } = build
    if (buildHealth(record) !== 'Healthy' || hasCondition(record, 'Invalid')) return false
    if (buckets.late.size + buckets.outdatedLate.size > 0) return false
    const callers = this.#deps.callers(build) - (current?.build === build && current.isDemand ? 1 : 0)
    const others = serversForCallers(build, callers)
    const { clock, limits } = this.#ctx
    const isBackingOff = backoff.until > clock.elapsed()
    if (isBackingOff && startingIn(build) <= others) return false
    // A caller who needs a home has found that those that are ready do not fit.
    const taken = inUse(build) + standingByIn(build)
    return taken + others < Math.min(maxServersOf(build), limits.maxServersPerBuild)
  }

  #refuseUnknownNames(selectors: readonly ServerSelector[], change: Selection['change']): void {
    let problem: string | undefined
    for (const selector of selectors) {
      for (const build of this.#buildsOf(selector)) {
        for (const data of knownData(build)) if (counterOrListMissing(data, selector, change) === undefined) return
        const missing = counterOrListMissing(build.initialData, selector, change) ?? ''
        problem ??= `build ${build.record.name} declares no ${missing}`
      }
    }
    if (problem !== undefined) throw new FleetError('invalid', `no server can fit: ${problem}`)
  }

  #buildsOf(selector: ServerSelector): readonly BuildEntry[] {
    return selectedBuilds(this.#ctx.inventory, selector)
  }
}

/** The data of new servers, of those that can be allocated, and of those that may become so: an earlier spec may have given them others. */
function* knownData(build: BuildEntry): Generator<ServerData> {
  yield build.initialData ?? noData
  for (const { groups } of Object.values(candidatesOf(build).allocatable)) {
    for (const { data } of groups.keys()) yield data ?? noData
  }
  for (const bucket of unallocatable) for (const { record } of build.buckets[bucket]) yield record.data ?? noData
}

function withoutAnnotations(change: Selection['change']): Selection['change'] {
  if (!change?.annotations) return change
  const { annotations: _, ...rest } = change
  return rest
}

function isLimitedByBudget({ budgetMax, record }: BuildEntry): boolean {
  return budgetMax < record.spec.max
}

function isInUse(build: BuildEntry): boolean {
  return inUse(build) >= maxServersOf(build)
}

/** The server of a request that names one, whether it is reserved or not. Undefined if it cannot be allocated to the request now. */
function namedServer(inventory: Pick<Inventory, 'servers'>, ref: Ref, { change }: Selection): ServerEntry | undefined {
  const entry = inventory.servers.get(keyOf(ref))
  return entry && whyNot(entry) === undefined && fits(entry.record.data, anySelector, change) ? entry : undefined
}

/** The error for a request to which the server that it names cannot be allocated. */
function namedServerError(inventory: Pick<Inventory, 'servers'>, ref: Ref, { change }: Selection): FleetError {
  const entry = inventory.servers.get(keyOf(ref))
  if (!entry || entry.record.state === 'Terminating') {
    return new FleetError('not-found', `server: there is no server ${keyOf(ref)}, or it is terminating`)
  }
  if (entry.build.draining) return drainingError(entry.build)
  const why = whyNot(entry) ?? misfitOf(entry.record.data, anySelector, change)
  return new FleetError('none-standing-by', `server ${keyOf(ref)} cannot be allocated to this request: ${why}`)
}

const anySelector = Object.freeze({})

function whyNot(entry: ServerEntry): string | undefined {
  const { build, places, record } = entry
  if (build.draining) return 'its build is draining'
  if (record.state === 'Active') return 'it has a session'
  if (record.state !== 'StandingBy') return `it is ${record.state}`
  if (places.length > 0) return 'it is being allocated'
  if (record.health === 'Unhealthy') return 'it is Unhealthy'
  return isAllocatable(record) ? undefined : 'its address is not known yet'
}
