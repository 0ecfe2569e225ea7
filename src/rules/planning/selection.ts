/** Whether a server fits a request that selects servers by their data. Pure. */
import type {
  AllocationOrder,
  AllocationRequest,
  LabelExpression,
  ServerSelector,
} from '../model/allocation-request.js'
import { canonical } from '../model/values.js'
import { type BuildSpec, draftOf, type Ref, type Server } from '../model/resources.js'
import { noData, own, type ServerData, type ServerDataUpdate, updatedData } from '../lifecycle/server-data.js'
import { sessionsPerServer } from '../lifecycle/server-sessions.js'

/** A request that selects servers by their data, or changes them. */
export interface Selection {
  /** Most wanted first. */
  readonly selectors: readonly ServerSelector[]
  /** What to change together with the session. A server in which the change does not fit is not taken. */
  readonly change: ServerDataUpdate | undefined
  /** Undefined: the order of the build, see `orderOf`. */
  readonly order: AllocationOrder | undefined
  /** The only server that fits, if the request names one. The one selector then accepts it. */
  readonly server?: Ref | undefined
}

/**
 * Returns undefined for a request that only names a build, and takes the server that has been standing by for longest. With `confirms`,
 * that asks for the server whose game receives its session first, unless the request names the order `first-ready`. `spec`: that of the
 * build that the request names. If its servers take several sessions, one that has room is taken before one that is standing by.
 */
export function selectionOf(
  request: AllocationRequest,
  confirms = false,
  spec: Pick<BuildSpec, 'order' | 'sessionsPerServer'> = {},
): Selection | undefined {
  const { buildID, select, server, order, labels, annotations, counters, lists } = request
  const { order: buildOrder } = spec
  const named = server && { namespace: server.namespace ?? 'default', name: server.name }
  const selectors = select ?? (server ? [{}] : selectorsOf(buildID ?? '', spec))
  if ((labels ?? annotations ?? counters ?? lists) === undefined) {
    const isOrdered = order ? order.by !== 'first-ready' || confirms : buildOrder && buildOrder.by !== 'first-ready'
    return select || named || isOrdered ? { selectors, change: undefined, order, server: named } : undefined
  }
  const change = {
    ...(labels && { labels }),
    ...(annotations && { annotations }),
    ...(counters && { counters }),
    ...(lists && { lists }),
  }
  return { selectors, change, order, server: named }
}

function selectorsOf(buildID: string, spec: Pick<BuildSpec, 'sessionsPerServer'>): readonly ServerSelector[] {
  const ready = { builds: [buildID] }
  return sessionsPerServer(spec) > 1 ? [{ ...ready, state: 'active' }, ready] : [ready]
}

/** Equal for requests that ask for the same: a second call for a session joins the first only if it does. */
export function targetOf(request: AllocationRequest): string {
  const selection = selectionOf(request)
  return selection === undefined ? (request.buildID ?? '') : canonical(selection)
}

/** A build, as a selector may name it. */
export interface NameableBuild {
  /** True if it has this buildID, and no other build that had it before. */
  hasID(buildID: string): boolean
  readonly spec: Pick<BuildSpec, 'buildID' | 'labels'>
}

export function namesBuild({ builds, buildLabels }: ServerSelector, { hasID, spec }: NameableBuild): boolean {
  const hasNamedID = builds ? builds.some(hasID) : hasID(spec.buildID)
  return hasNamedID && hasLabels(spec, buildLabels)
}

/** Like `namesBuild`. A request that names its server does not name a build, and gets the server also if the buildID belongs to another build. */
export function acceptsBuild({ server }: Selection, selector: ServerSelector, build: NameableBuild): boolean {
  return server !== undefined || namesBuild(selector, build)
}

export function hasLabels({ labels }: Pick<BuildSpec, 'labels'>, wanted: ServerSelector['buildLabels']): boolean {
  for (const key in wanted) if (!labels || own(labels, key) !== wanted[key]) return false
  return true
}

/** True if a server of the right build with these data meets the conditions of the selector, and the change fits. */
export function fits(
  data: ServerData = noData,
  selector: ServerSelector,
  change: ServerDataUpdate | undefined,
): boolean {
  return unmet(data, selector) === undefined && (change === undefined || updatedData(data, change).ok)
}

/** Says why a server with these data does not fit. */
export function misfitOf(
  data: ServerData = noData,
  selector: ServerSelector,
  change: ServerDataUpdate | undefined,
): string {
  const condition = unmet(data, selector)
  if (condition !== undefined) return `${condition} is not met`
  const updated = updatedData(data, change ?? {})
  return updated.ok ? 'it would' : `${updated.problem.field} ${updated.problem.message}`
}

/**
 * Returns a counter or list that the request names and a server with these data does not have, such as `counter rooms`. No update adds
 * one, so only a server whose build declares it can fit.
 */
export function counterOrListMissing(
  data: ServerData = noData,
  { counters, lists }: ServerSelector,
  change: ServerDataUpdate | undefined,
): string | undefined {
  for (const name in { ...counters, ...change?.counters }) if (!own(data.counters, name)) return `counter ${name}`
  for (const name in { ...lists, ...change?.lists }) if (!own(data.lists, name)) return `list ${name}`
  return undefined
}

/** True if a server in this state may meet the selector. */
export function selectsState({ state = 'ready' }: ServerSelector, server: Pick<Server, 'state'>): boolean {
  return (state === 'active') === (server.state === 'Active')
}

/** Returns the server with the change made, or undefined if it does not fit. `build`: its own. */
export function withChange(server: Server, selection: Selection, build: NameableBuild): Server | undefined {
  const { data = noData } = server
  const { selectors, change } = selection
  for (const selector of selectors) {
    if (!selectsState(selector, server)) continue
    if (!acceptsBuild(selection, selector, build) || unmet(data, selector) !== undefined) continue
    if (change === undefined) return server
    const updated = updatedData(data, change)
    if (!updated.ok) return undefined
    const next = draftOf(server)
    next.data = updated.data
    return next
  }
  return undefined
}

/** Returns the first condition that the data do not meet, as the path of a field. */
function unmet(
  data: ServerData,
  { matchLabels, matchExpressions = [], counters, lists }: ServerSelector,
): string | undefined {
  for (const key in matchLabels) if (textOf(data.labels, key) !== matchLabels[key]) return `matchLabels.${key}`
  for (const expression of matchExpressions) {
    if (!isTrue(data, expression)) return `matchExpressions: ${expression.key} ${expression.operator}`
  }
  for (const name in counters) {
    // As in `textOf`: nothing that every object inherits has a capacity.
    const counter = data.counters[name]
    const { minCount = 0, minAvailable = 0 } = counters[name] ?? {}
    if (counter?.capacity === undefined || counter.count < minCount || counter.capacity - counter.count < minAvailable)
      return `counters.${name}`
  }
  for (const name in lists) {
    const list = data.lists[name]
    const { contains, minAvailable = 0 } = lists[name] ?? {}
    if (list?.capacity === undefined || list.capacity - list.values.length < minAvailable) return `lists.${name}`
    if (contains !== undefined && !list.values.includes(contains)) return `lists.${name}`
  }
  return undefined
}

function isTrue({ labels }: ServerData, { key, operator, values = [] }: LabelExpression): boolean {
  const text = textOf(labels, key)
  switch (operator) {
    case 'In':
      return text !== undefined && isOneOf(values, text)
    case 'NotIn':
      return text === undefined || !isOneOf(values, text)
    case 'Exists':
      return text !== undefined
    case 'DoesNotExist':
      return text === undefined
  }
}

/** Up to this many values are compared sooner than looked up. */
const fewValues = 4
const sets = new WeakMap<readonly string[], ReadonlySet<string>>()

/** The same expression is checked against many servers. */
function isOneOf(values: readonly string[], text: string): boolean {
  if (values.length <= fewValues) return values.includes(text)
  let set = sets.get(values)
  if (set === undefined) sets.set(values, (set = new Set(values)))
  return set.has(text)
}

/** Returns how many conditions a server must meet, and at least 1: what it takes to check the selector against one. */
export function conditionsOf({ matchLabels, matchExpressions = [], counters, lists }: ServerSelector): number {
  let count = 1 + matchExpressions.length
  for (const _ in matchLabels) count++
  for (const _ in counters) count++
  for (const _ in lists) count++
  return count
}

/** `own` for texts, in a tenth of the time: nothing that every object inherits is a text. */
function textOf(entries: Readonly<Record<string, string>>, key: string): string | undefined {
  const text: unknown = entries[key]
  return typeof text === 'string' ? text : undefined
}
