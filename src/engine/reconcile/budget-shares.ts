/**
 * Shares the fleet's budget among its builds. Each build states its claim when it is reconciled. The shares are computed anew only if a claim
 * has changed, with work in proportion to the number of builds; everything else updates sums. Synchronous.
 */
import type { FleetBudget } from '../../contracts/options.js'
import { keyOf, type PodTemplateSpec } from '../../rules/model/resources.js'
import {
  type Amounts,
  type BudgetClaim,
  fitting,
  minus,
  noAmounts,
  type Resource,
  resources,
  type BudgetShare,
  shareBudget,
  sizeOf,
  times,
  without,
} from '../../rules/planning/budget.js'
import type { EngineContext } from '../context.js'
import type { Conditions } from '../reporting/conditions.js'
import type { BuildEntry } from '../state/entries.js'
import { inUse, serverCount, serversOf, unsavedTerminations } from '../state/queries.js'

/** How often, at most, the condition of a build changes: what builds want can change with every allocation. */
const tellMs = 60_000
/** The same for one whose numbers of servers alone change. */
const similarMs = 10 * 60_000
/** How many builds the message of a condition names. */
const maxNamed = 3

const reasons: Readonly<Record<Resource, string>> = { servers: 'Servers', cpu: 'Cpu', memory: 'Memory' }

export interface BudgetDependencies {
  readonly conditions: Pick<Conditions, 'update'>
  /** Called when a build may have more servers than before. */
  readonly capacityFreed: (build: BuildEntry) => void
  /** Called when it may have fewer. */
  readonly capacityTaken: (build: BuildEntry) => void
}

/** What a build may have. */
export interface BudgetReview {
  /** Maximum number of servers at this moment, those included whose termination is not recorded yet. */
  readonly max: number
  /** True if the build gets fewer servers than it wants. */
  readonly isShort: boolean
  /** Time in ms after which to review the build again even if nothing happens. */
  readonly nextMs: number | undefined
}

/** What is known of a build. */
interface Account {
  readonly build: BuildEntry
  template: PodTemplateSpec
  claim: BudgetClaim
  share: BudgetShare
  /** Number of servers without those whose termination is recorded. */
  existing: number
  /** What they take. */
  takes: Amounts
  /** What a server of an earlier template takes, while there may be some that take something else. */
  olderSize: Amounts | undefined
  /** When the condition changed last, elapsed ms. */
  toldAt: number
}

export class BudgetShares {
  readonly #ctx: EngineContext
  readonly #budget: FleetBudget
  readonly #deps: BudgetDependencies
  readonly #accounts = new Map<BuildEntry, Account>()
  /** Builds that have not been reconciled yet, so that what they want is a guess: until then, no build gives anything back. */
  readonly #guessed = new Set<BuildEntry>()
  /** Builds with fewer servers than their shares, and those whose callers are refused because the budget is used up. */
  readonly #waiting = new Set<BuildEntry>()
  /** The sum of all servers. */
  #used = noAmounts
  /** What builds with fewer servers than their shares, or than their guaranteed parts, can still claim. */
  #owed = noAmounts
  /** What is left of the budget after all shares and guaranteed parts. */
  #left = noAmounts
  /** True if there was enough for what all builds want. */
  #isPlentiful = false

  constructor(ctx: EngineContext, budget: FleetBudget, deps: BudgetDependencies) {
    this.#ctx = ctx
    this.#budget = budget
    this.#deps = deps
  }

  /**
   * Reviews a build. `idle`: how many idle servers it wants besides those in use, within its `max`. `mayGrow`: false if it cannot create servers.
   */
  review(build: BuildEntry, idle: number, mayGrow: boolean): BudgetReview {
    if (this.#accounts.size === 0) this.#begin()
    const existing = existingIn(build)
    const used = inUse(build)
    const wanted = used + Math.max(0, mayGrow ? idle : Math.min(idle, existing - used))
    const isLastGuess = this.#guessed.delete(build) && this.#guessed.size === 0
    const account = this.#update(build, wanted, existing)
    if (isLastGuess) this.#share(build)
    const max = this.#mostOf(account)
    const before = build.budgetMax
    build.budgetMax = Math.max(max, entitledTo(account))
    if (build.budgetMax > before) this.#deps.capacityFreed(build)
    else if (build.budgetMax < before) this.#deps.capacityTaken(build)
    const isFull = build.budgetMax <= used && build.budgetMax < build.record.spec.max
    if (max < account.share.servers || isFull) this.#waiting.add(build)
    else this.#waiting.delete(build)
    return { max, isShort: account.share.servers < wanted, nextMs: this.#tell(account) }
  }

  /** Call when a build that has been deleted is reconciled. */
  release(build: BuildEntry): void {
    if (!this.#accounts.has(build)) return
    const { existing } = this.#update(build, 0, existingIn(build))
    if (this.#guessed.delete(build) && this.#guessed.size === 0) this.#share(build)
    if (existing > 0) return
    this.#accounts.delete(build)
    this.#waiting.delete(build)
  }

  /** Call when servers of a build that was reviewed have been added. */
  added(build: BuildEntry, count: number): void {
    const account = this.#accounts.get(build)
    if (account)
      this.#setExisting(account, account.existing + count, without(account.takes, account.claim.size, -count))
  }

  /** Builds that have not been reconciled yet want what they have, or what their specs say. */
  #begin(): void {
    for (const build of this.#ctx.inventory.everyBuild) {
      const existing = existingIn(build)
      const { standingBy, max } = build.record.spec
      const account = this.#open(build, Math.max(existing, Math.min(max, inUse(build) + standingBy)))
      account.existing = existing
      account.takes = times(account.claim.size, existing)
      this.#guessed.add(build)
    }
    this.#share(undefined)
  }

  #open(build: BuildEntry, wanted: number): Account {
    const { template } = build.record.spec
    const claim = claimOf(build, wanted, sizeOf(template))
    const share = { servers: claim.inUse, guaranteed: 0 }
    const none = { existing: 0, takes: noAmounts, olderSize: undefined }
    const account: Account = { build, template, claim, share, ...none, toldAt: -Infinity }
    this.#accounts.set(build, account)
    return account
  }

  #update(build: BuildEntry, wanted: number, existing: number): Account {
    const known = this.#accounts.get(build)
    const account = known ?? this.#open(build, wanted)
    const { template } = build.record.spec
    const isResized = account.template !== template && this.#resize(account, template)
    const { claim: before, olderSize } = account
    const older = olderSize ? olderServers(build) : undefined
    if (older?.existing === 0) account.olderSize = undefined
    this.#setExisting(account, existing, takesOf(before.size, existing, olderSize, older?.existing))
    const inUseTakes = olderSize && takesOf(before.size, inUse(build), olderSize, older?.inUse)
    const claim = { ...claimOf(build, wanted, before.size), inUseTakes }
    if (known && !isResized && (isSame(before, claim) || this.#isPlentifulFor(account, claim))) return account
    account.claim = claim
    this.#share(build)
    return account
  }

  /**
   * Gives a build what it wants if there is enough for all, before and after: then no other share changes. So an allocation costs the same in a
   * fleet of many builds. Returns false if the shares must be computed.
   */
  #isPlentifulFor(account: Account, claim: BudgetClaim): boolean {
    const { claim: before, share } = account
    const isPlain = claim.key === before.key && claim.size === before.size && !claim.inUseTakes && !before.inUseTakes
    const isAsBefore = claim.guaranteed === before.guaranteed && claim.priority === before.priority
    if (!this.#isPlentiful || this.#guessed.size > 0 || !isPlain || !isAsBefore) return false
    const servers = claim.wanted
    const more = Math.max(servers, share.guaranteed) - entitledTo(account)
    const left = without(this.#left, claim.size, more)
    const missing = missingIn(account)
    const owed = Math.max(0, entitledTo(account) + more - account.existing) - missing
    const unclaimed = without(this.#unclaimed, claim.size, owed)
    if (!isEnough(left) || !isEnough(unclaimed)) return false
    account.claim = claim
    account.share = { ...share, servers }
    this.#left = left
    this.#owed = without(this.#owed, claim.size, -owed)
    return true
  }

  /** Servers of the earlier template go on taking what they took. Returns false if new ones take the same. */
  #resize(account: Account, template: PodTemplateSpec): boolean {
    const { claim, existing, olderSize } = account
    const size = sizeOf(template)
    account.template = template
    if (resources.every((resource) => size[resource] === claim.size[resource])) return false
    if (existing > 0) account.olderSize = olderSize ? largest(olderSize, claim.size) : claim.size
    account.claim = { ...claim, size }
    return true
  }

  /** Computes all shares, and queues the builds that may have more or must give some back. */
  #share(current: BuildEntry | undefined): void {
    const { limits } = this.#budget
    const accounts = [...this.#accounts.values()]
    const claims = accounts.map(({ claim }) => claim)
    const shares = shareBudget(limits, claims)
    const changed = new Set<BuildEntry>()
    this.#used = noAmounts
    this.#owed = noAmounts
    this.#left = limits
    for (const account of accounts) {
      const { build, claim, takes } = account
      const before = entitledTo(account)
      account.share = shares.get(claim.key) ?? account.share
      if (entitledTo(account) !== before) changed.add(build)
      this.#used = minus(this.#used, times(takes, -1))
      this.#owed = without(this.#owed, claim.size, -missingIn(account))
      this.#left = without(this.#left, claim.size, entitledTo(account))
    }
    const isServed = ({ share, claim }: Account) =>
      share.servers === claim.wanted && share.guaranteed === claim.guaranteed
    this.#isPlentiful = accounts.every(isServed) && isEnough(this.#left)
    for (const account of accounts) if (this.#mustGiveBack(account)) changed.add(account.build)
    for (const build of changed) if (build !== current) this.#ctx.enqueue(build)
  }

  #setExisting(account: Account, existing: number, takes: Amounts): void {
    const { claim, existing: before, takes: taken } = account
    if (before === existing && resources.every((resource) => takes[resource] === taken[resource])) return
    const missing = missingIn(account)
    account.existing = existing
    account.takes = takes
    this.#used = minus(this.#used, minus(taken, takes))
    this.#owed = without(this.#owed, claim.size, missing - missingIn(account))
    if (existing < before) for (const waiting of this.#waiting) this.#ctx.enqueue(waiting)
  }

  /**
   * A build may always have its share and its guaranteed part, as soon as there is room. Servers beyond them, such as those that a rolling
   * update starts in advance, only take what no other build can claim.
   */
  #mostOf(account: Account): number {
    const { claim, existing } = account
    if (this.#mustGiveBack(account)) return entitledTo(account)
    const missing = missingIn(account)
    const now = Math.min(missing, fitting(this.#free, claim.size))
    return existing + now + (now === missing ? fitting(this.#unclaimed, claim.size) : 0)
  }

  /** True if the build has more than its part while another has less, so that it gives back idle servers. */
  #mustGiveBack(account: Account): boolean {
    if (this.#guessed.size > 0) return false
    const unclaimed = this.#unclaimed
    const isShort = resources.some((resource) => account.claim.size[resource] > 0 && unclaimed[resource] < 0)
    return isShort && account.existing > entitledTo(account)
  }

  get #free(): Amounts {
    return minus(this.#budget.limits, this.#used)
  }

  get #unclaimed(): Amounts {
    return minus(this.#free, this.#owed)
  }

  /** Sets or clears the condition. Returns the time in ms after which it may be out of date. */
  #tell(account: Account): number | undefined {
    const { build, toldAt } = account
    const problem = this.#problemOf(account)
    const before = build.record.conditions.find(({ type }) => type === 'BudgetReached')
    if (!before && !problem) return undefined
    if (build.writing || before?.message === problem?.message) return tellMs
    const now = this.#ctx.clock.elapsed()
    // The numbers of servers change all the time.
    const isSimilar = withoutNumbers(before?.message) === withoutNumbers(problem?.message)
    const restMs = toldAt + (isSimilar ? similarMs : tellMs) - now
    if (before && restMs > 0) return Math.min(restMs, tellMs)
    account.toldAt = now
    this.#deps.conditions.update(build, 'BudgetReached', problem?.reason ?? '', problem?.message)
    return tellMs
  }

  #problemOf({ claim, share }: Account): { readonly reason: string; readonly message: string } | undefined {
    const { text } = this.#budget
    if (share.guaranteed < claim.guaranteed) {
      const message = `the builds' guaranteed parts exceed the fleet's budget (${text}): ${share.guaranteed} of the ${claim.guaranteed} servers guaranteed to this build fit`
      return { reason: 'Guaranteed', message }
    }
    if (share.servers >= claim.wanted) return undefined
    const scarce = resources.find((resource) => this.#left[resource] < claim.size[resource]) ?? 'servers'
    const message = `the fleet's budget (${text}) has no room for more servers of this build; it is shared by ${this.#holders()}`
    return { reason: reasons[scarce], message }
  }

  /** `arena (6), duel (4), others (5)`: numbers of servers. */
  #holders(): string {
    const all = [...this.#accounts.values()]
      .map((account) => ({ name: account.build.record.name, key: account.claim.key, count: entitledTo(account) }))
      .filter(({ count }) => count > 0)
      .toSorted((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1))
    const named = all.slice(0, maxNamed).map(({ name, count }) => `${name} (${count})`)
    const others = all.slice(maxNamed)
    const rest = others.reduce((sum, { count }) => sum + count, 0)
    return [...named, ...(others.length > 0 ? [`others (${rest})`] : [])].join(', ')
  }
}

function isEnough(left: Amounts): boolean {
  return resources.every((resource) => left[resource] >= 0)
}

function claimOf(build: BuildEntry, wanted: number, size: Amounts): BudgetClaim {
  const { budget = {}, max } = build.record.spec
  return {
    // Another build may have the name of one that has been deleted.
    key: build.deleted ? `${keyOf(build.ref)} ${build.record.uid}` : keyOf(build.ref),
    size,
    inUse: inUse(build),
    wanted,
    guaranteed: build.deleted ? 0 : Math.min(budget.guaranteed ?? 0, max),
    priority: budget.priority ?? 0,
  }
}

function isSame(a: BudgetClaim, b: BudgetClaim): boolean {
  return (
    a.key === b.key &&
    a.inUse === b.inUse &&
    a.wanted === b.wanted &&
    a.guaranteed === b.guaranteed &&
    a.priority === b.priority &&
    a.size === b.size &&
    resources.every((resource) => a.inUseTakes?.[resource] === b.inUseTakes?.[resource])
  )
}

/** Servers of an earlier template: goes through all servers of the build, only while some may take something else than new ones. */
function olderServers(build: BuildEntry): { readonly existing: number; readonly inUse: number } {
  let [existing, used] = [0, 0]
  for (const { bucket, record } of serversOf(build)) {
    if (record.templateHash === build.templateHash || bucket === 'terminating') continue
    existing++
    if (bucket === 'active' || bucket === 'reserved' || bucket === 'setAside') used++
  }
  return { existing, inUse: used }
}

function takesOf(size: Amounts, count: number, olderSize: Amounts | undefined, older = 0): Amounts {
  const some = Math.min(older, count)
  return olderSize ? without(times(size, count - some), olderSize, -some) : times(size, count)
}

function largest(a: Amounts, b: Amounts): Amounts {
  return { servers: 1, cpu: Math.max(a.cpu, b.cpu), memory: Math.max(a.memory, b.memory) }
}

function withoutNumbers(message: string | undefined): string | undefined {
  return message?.replace(/\d+/g, '')
}

/** Servers whose termination is not recorded yet count, so that a host that crashes never leaves more than the budget allows. */
function existingIn(build: BuildEntry): number {
  return serverCount(build) - build.buckets.terminating.size + unsavedTerminations(build)
}

function entitledTo({ share }: Account): number {
  return Math.max(share.servers, share.guaranteed)
}

function missingIn(account: Account): number {
  return Math.max(0, entitledTo(account) - account.existing)
}
