/**
 * Shares a budget among all builds: how many servers each may have. Pure: the same claims give the same shares.
 *
 * A build always keeps its servers in use. Its guaranteed part is its own: no other build gets it, even while it does not use it. The rest goes
 * to the builds that want more, by priority; builds of the same priority get equally many servers, as far as they want them.
 */
import type { PodTemplateSpec } from '../model/resources.js'
import { compare } from '../model/problems.js'
import { requestsOf } from '../validation/pod-template.js'

/** What a budget limits. Whole numbers, so that sums are exact; `Infinity`: no limit. */
export interface Amounts {
  readonly servers: number
  /** Thousandths of a CPU core. */
  readonly cpu: number
  /** Bytes. */
  readonly memory: number
}

export type Resource = keyof Amounts

export const resources: readonly Resource[] = ['servers', 'cpu', 'memory']

export const noAmounts: Amounts = Object.freeze({ servers: 0, cpu: 0, memory: 0 })

/** What a build claims of the budget. */
export interface BudgetClaim {
  /** Unique, and the order of builds of the same priority. */
  readonly key: string
  /** What one server takes. */
  readonly size: Amounts
  /** Number of servers in use. They stay, whatever the budget says. */
  readonly inUse: number
  /** What they take, if some are of an earlier template and take something else. Default: `size` each. */
  readonly inUseTakes?: Amounts | undefined
  /** Number of servers that the build would have without a budget. At least `inUse`. */
  readonly wanted: number
  readonly guaranteed: number
  /** A larger number goes first. */
  readonly priority: number
}

export interface BudgetShare {
  /** Number of servers that the build may have of those it wants: at least those in use. */
  readonly servers: number
  /** The guaranteed part, as far as the budget has room for it. It is kept free for the build even if it wants fewer servers. */
  readonly guaranteed: number
}

/** What a server of this template takes: the sum of what its containers request. What is not requested counts as 0. */
export function sizeOf(template: PodTemplateSpec): Amounts {
  const { cpu, memory } = requestsOf(template)
  // Sums must stay numbers.
  const bounded = (amount: number) => Math.min(Number.MAX_SAFE_INTEGER, amount)
  return { servers: 1, cpu: bounded(Math.round(cpu * 1_000)), memory: bounded(Math.ceil(memory)) }
}

/** Returns the share of each build, by key. If the guaranteed parts exceed the budget, they are served by priority, then by key. */
export function shareBudget(budget: Amounts, claims: readonly BudgetClaim[]): ReadonlyMap<string, BudgetShare> {
  const drafts = claims
    .map((claim) => ({ ...claim, servers: claim.inUse, reserved: 0 }))
    .toSorted((a, b) => b.priority - a.priority || compare(a.key, b.key))
  let unreserved = budget
  for (const draft of drafts) {
    draft.reserved = Math.min(draft.guaranteed, fitting(unreserved, draft.size))
    unreserved = without(unreserved, draft.size, draft.reserved)
  }
  let free = budget
  for (const { size, inUse, inUseTakes = times(size, inUse) } of drafts) free = minus(free, inUseTakes)
  for (const draft of drafts) {
    const { inUse, reserved, size, wanted } = draft
    const more = Math.max(0, Math.min(wanted, reserved) - inUse)
    free = give(draft, Math.min(more, fitting(free, size)), free)
  }
  for (const { reserved, servers, size } of drafts) free = without(free, size, Math.max(0, reserved - servers))
  for (const group of groupedByPriority(drafts)) free = shareEqually(group, free)
  return new Map(drafts.map(({ key, servers, reserved }) => [key, { servers, guaranteed: reserved }]))
}

/** How many servers of this size fit. */
export function fitting(free: Amounts, size: Amounts): number {
  let count = Infinity
  for (const resource of resources) {
    if (size[resource] > 0) count = Math.min(count, Math.floor(free[resource] / size[resource]))
  }
  return Math.max(0, count)
}

/** What is left after so many servers of this size. Negative if they do not fit. */
export function without(free: Amounts, size: Amounts, count: number): Amounts {
  return minus(free, times(size, count))
}

export function times(size: Amounts, count: number): Amounts {
  return { servers: count * size.servers, cpu: count * size.cpu, memory: count * size.memory }
}

export function minus(a: Amounts, b: Amounts): Amounts {
  return { servers: a.servers - b.servers, cpu: a.cpu - b.cpu, memory: a.memory - b.memory }
}

interface Draft extends BudgetClaim {
  servers: number
  reserved: number
}

/** Returns what is left. */
function give(draft: Draft, count: number, free: Amounts): Amounts {
  draft.servers += count
  return without(free, draft.size, count)
}

/** The drafts are in the order of priority. */
function groupedByPriority(drafts: readonly Draft[]): Iterable<readonly Draft[]> {
  const groups = new Map<number, Draft[]>()
  for (const draft of drafts) {
    const group = groups.get(draft.priority)
    if (group) group.push(draft)
    else groups.set(draft.priority, [draft])
  }
  return groups.values()
}

/**
 * Raises the number of servers of all builds to the same level, the highest that fits. What is left over is given out one server each, in the
 * order of the builds. If servers differ in size, smaller ones may still fit, so the others are left out and the level rises further.
 */
function shareEqually(group: readonly Draft[], before: Amounts): Amounts {
  let free = before
  const isOpen = (draft: Draft) => draft.servers < draft.wanted && fitting(free, draft.size) > 0
  for (let open = group.filter(isOpen); open.length > 0; open = open.filter(isOpen)) {
    const level = highestLevel(open, free)
    for (const draft of open) free = give(draft, missingTo(draft, level), free)
    // At least one of these finds no room, or else the level would be higher.
    for (const draft of open) if (draft.servers <= level && isOpen(draft)) free = give(draft, 1, free)
  }
  return free
}

function missingTo({ servers, wanted }: Draft, level: number): number {
  return Math.max(0, Math.min(level, wanted) - servers)
}

function highestLevel(open: readonly Draft[], free: Amounts): number {
  let [low, high] = [0, Math.max(...open.map(({ wanted }) => wanted))]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(open, middle, free)) low = middle
    else high = middle - 1
  }
  return low
}

function fits(open: readonly Draft[], level: number, free: Amounts): boolean {
  let [servers, cpu, memory] = [0, 0, 0]
  for (const draft of open) {
    const count = missingTo(draft, level)
    servers += count * draft.size.servers
    cpu += count * draft.size.cpu
    memory += count * draft.size.memory
  }
  // What none of them needs may be exceeded already.
  const isEnough = (needed: number, left: number) => needed === 0 || needed <= left
  return isEnough(servers, free.servers) && isEnough(cpu, free.cpu) && isEnough(memory, free.memory)
}
