/**
 * The JSON of Agones' allocator: what a request to it asks of a fleet, and how the fleet's answers and errors read there. What a fleet
 * cannot do is refused, never left out. docs/guides/coming-from-agones.md lists both. Pure.
 */
import { isIP } from 'node:net'
import { type ErrorCode, FleetError } from '../../contracts/errors.js'
import { noData, type ServerDataUpdate } from '../../rules/lifecycle/server-data.js'
import type {
  AllocationInput,
  AllocationOrder,
  AllocationRequest,
  LabelExpression,
  ServerSelector,
} from '../../rules/model/allocation-request.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { defaultApiGroup, type GameServer, type GameServerBuild } from '../../rules/model/wire.js'
import { fits } from '../../rules/planning/selection.js'
import { isObject, shown } from '../../rules/validation/problem.js'
import { compile, type Validator } from '../../rules/validation/validator.js'
import { allocatorEnums, allocatorRequest } from '../openapi/agones-schemas.js'
import type { AnsweredAllocation } from './compat.js'

/** In Agones, the label of every game server that has the name of its Fleet. */
const fleetLabel = 'agones.dev/fleet'

/** Annotations with these keys are not set on the server: they are the fields of an allocation that Agones does not have. */
export const allocatorAnnotations = {
  sessionID: `${defaultApiGroup}/session-id`,
  sessionCookie: `${defaultApiGroup}/session-cookie`,
  initialPlayers: `${defaultApiGroup}/initial-players`,
} as const

/** What a request asks for, while its builds are known by their names only. */
export interface AllocatorRequest {
  readonly namespace: string
  readonly selectors: readonly FleetSelector[]
  /** Without a sessionID unless an annotation has one. */
  readonly request: Omit<AllocationRequest, 'buildID' | 'select' | 'server' | 'sessionID'> & {
    readonly sessionID?: string
  }
}

interface FleetSelector {
  /** Conditions on the name of the build, as a label of its servers. */
  readonly fleet: Pick<ServerSelector, 'matchLabels'> & { readonly matchExpressions: readonly LabelExpression[] }
  readonly selector: Omit<ServerSelector, 'builds' | 'buildLabels'>
}

/** An enum by its name or number, or a 64-bit integer as a text or number. */
type Loose = string | number
type Texts = Readonly<Record<string, string>>

interface Selector {
  readonly matchLabels?: Texts
  readonly matchExpressions?: readonly Expression[]
  readonly gameServerState?: Loose
  readonly counters?: Readonly<
    Record<string, { readonly [name in 'minCount' | 'minAvailable' | 'maxCount' | 'maxAvailable']?: Loose }>
  >
  readonly lists?: Readonly<
    Record<string, { readonly containsValue?: string; readonly minAvailable?: Loose; readonly maxAvailable?: Loose }>
  >
}

interface Expression {
  readonly key: string
  readonly operator?: Loose
  readonly values?: readonly string[]
}

interface MetaPatch {
  readonly labels?: Texts
  readonly annotations?: Texts
}

/** What the schema has accepted. */
interface Body {
  readonly namespace?: string
  readonly gameServerSelectors?: readonly Selector[]
  readonly requiredGameServerSelector?: Selector
  readonly preferredGameServerSelectors?: readonly Selector[]
  readonly scheduling?: Loose
  readonly priorities?: readonly { readonly type?: Loose; readonly key?: string; readonly order?: Loose }[]
  readonly metadata?: MetaPatch
  readonly metaPatch?: MetaPatch
  readonly counters?: Readonly<
    Record<string, { readonly action?: 'Increment' | 'Decrement'; readonly amount?: Loose; readonly capacity?: Loose }>
  >
  readonly lists?: Readonly<
    Record<
      string,
      {
        readonly addValues?: readonly string[]
        readonly deleteValues?: readonly string[]
        readonly capacity?: Loose
      }
    >
  >
  readonly multiClusterSetting?: { readonly enabled?: boolean }
}

const check: Validator<Body> = compile(allocatorRequest)

/** Throws `invalid`, naming the field, for a request that is not as in Agones, or that a fleet cannot carry out. */
export function readAllocatorRequest(body: unknown): AllocatorRequest {
  const checked = check(withoutNulls(body))
  if (!checked.ok) throw invalid(checked.problem.field, checked.problem.message)
  const request = checked.value
  if (request.multiClusterSetting?.enabled) {
    throw invalid(
      'multiClusterSetting.enabled',
      'must be false: a request is for this fleet alone, and is not passed on to others',
    )
  }
  const { labels, annotations = {} } = request.metadata ?? request.metaPatch ?? {}
  const ofAllocation = Object.values<string>(allocatorAnnotations)
  const others = Object.entries(annotations).filter(([key]) => !ofAllocation.includes(key))
  const counters = changesIn(counterChanges(request.counters ?? {}))
  const lists = changesIn(listChanges(request.lists ?? {}))
  return {
    namespace: request.namespace || 'default',
    selectors: selectorsOf(request),
    request: {
      ...sessionIn(annotations),
      order: orderOf(request),
      ...(labels && { labels }),
      ...(others.length > 0 && { annotations: Object.fromEntries(others) }),
      ...(counters && { counters }),
      ...(lists && { lists }),
    },
  }
}

/** As JSON of protobuf reads it: a field that is null is absent. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isObject(value)) return value
  const given = Object.entries(value).filter(([, part]) => part !== null)
  return Object.fromEntries(given.map(([name, part]) => [name, withoutNulls(part)]))
}

/** As in Agones, the old spelling counts only without the new one, and its required selector is any server if it is absent. */
function selectorsOf({
  gameServerSelectors = [],
  preferredGameServerSelectors = [],
  requiredGameServerSelector = {},
}: Body): readonly FleetSelector[] {
  const given = Math.max(gameServerSelectors.length, preferredGameServerSelectors.length)
  if (given > sizeLimits.selectors)
    throw invalid('gameServerSelectors', `must be at most ${sizeLimits.selectors}, but are ${given}`)
  if (gameServerSelectors.length > 0)
    return gameServerSelectors.map((one, i) => selectorOf(one, `gameServerSelectors[${i}]`))
  return [
    ...preferredGameServerSelectors.map((one, i) => selectorOf(one, `preferredGameServerSelectors[${i}]`)),
    selectorOf(requiredGameServerSelector, 'requiredGameServerSelector'),
  ]
}

function selectorOf({ matchLabels = {}, matchExpressions = [], ...rest }: Selector, field: string): FleetSelector {
  const { [fleetLabel]: name, ...labels } = matchLabels
  const expressions = matchExpressions.map((one, i) => expressionOf(one, `${field}.matchExpressions[${i}]`))
  const others = expressions.filter(({ key }) => key !== fleetLabel)
  const state = enumAt(allocatorEnums.state, rest.gameServerState, `${field}.gameServerState`)
  return {
    fleet: {
      ...(name !== undefined && { matchLabels: { [fleetLabel]: name } }),
      matchExpressions: expressions.filter(({ key }) => key === fleetLabel),
    },
    selector: {
      state: state === 'ALLOCATED' ? 'active' : 'ready',
      ...(Object.keys(labels).length > 0 && { matchLabels: labels }),
      ...(others.length > 0 && { matchExpressions: others }),
      ...(rest.counters && { counters: counterConditions(rest.counters, `${field}.counters`) }),
      ...(rest.lists && { lists: listConditions(rest.lists, `${field}.lists`) }),
    },
  }
}

function expressionOf({ key, operator: given, values = [] }: Expression, field: string): LabelExpression {
  const operator = enumAt(allocatorEnums.operator, given, `${field}.operator`)
  const needsValues = operator === 'In' || operator === 'NotIn'
  if (needsValues === (values.length === 0)) {
    throw invalid(`${field}.values`, `must ${needsValues ? 'not ' : ''}be empty for the operator ${operator}`)
  }
  return needsValues ? { key, operator, values } : { key, operator }
}

function counterConditions(counters: NonNullable<Selector['counters']>, field: string) {
  return mapped(counters, field, (given, at) => {
    refuseMaximum(given.maxCount, `${at}.maxCount`)
    refuseMaximum(given.maxAvailable, `${at}.maxAvailable`)
    const minAvailable = integerAt(given.minAvailable, `${at}.minAvailable`)
    // Even without a minimum, the server must have the counter.
    return {
      minCount: integerAt(given.minCount, `${at}.minCount`) ?? 0,
      ...(minAvailable !== undefined && { minAvailable }),
    }
  })
}

function listConditions(lists: NonNullable<Selector['lists']>, field: string) {
  return mapped(lists, field, ({ containsValue: contains, ...given }, at) => {
    refuseMaximum(given.maxAvailable, `${at}.maxAvailable`)
    return { minAvailable: integerAt(given.minAvailable, `${at}.minAvailable`) ?? 0, ...(contains && { contains }) }
  })
}

/** In Agones, 0 is no maximum. */
function refuseMaximum(value: string | number | undefined, field: string): void {
  if (integerAt(value, field)) throw invalid(field, 'is not supported: a selector has minimums only')
}

/** Agones packs by default. If there are priorities, they alone decide: it looks at them only among the servers of one machine. */
function orderOf({ scheduling, priorities = [] }: Body): AllocationOrder {
  const strategy = enumAt(allocatorEnums.scheduling, scheduling, 'scheduling')
  const [priority, ...others] = priorities
  if (others.length > 0) throw invalid('priorities[1]', 'is not supported: servers are sorted by one counter')
  if (!priority) return { by: strategy === 'Packed' ? 'packed' : 'distributed' }
  const { key } = priority
  if (enumAt(allocatorEnums.type, priority.type, 'priorities[0].type') === 'List') {
    throw invalid('priorities[0].type', 'must be Counter: servers are not sorted by lists')
  }
  if (key === undefined) throw invalid('priorities[0].key', 'must be the name of a counter')
  const order = enumAt(allocatorEnums.order, priority.order, 'priorities[0].order')
  return { by: order === 'Ascending' ? 'least-available' : 'most-available', counter: key }
}

function sessionIn(annotations: Readonly<Record<string, string>>): AllocatorRequest['request'] {
  const { sessionID: id, sessionCookie: cookie, initialPlayers: players } = allocatorAnnotations
  return {
    ...(annotations[id] !== undefined && { sessionID: annotations[id] }),
    ...(annotations[cookie] !== undefined && { sessionCookie: annotations[cookie] }),
    ...(annotations[players] !== undefined && { initialPlayers: playersIn(annotations[players]) }),
  }
}

function playersIn(text: string): readonly string[] {
  try {
    const players: unknown = JSON.parse(text)
    if (Array.isArray(players) && players.every((player) => typeof player === 'string')) return players
  } catch {
    // The message below says it.
  }
  const example = '["amie","bo"]'
  throw invalid(
    `metadata.annotations[${allocatorAnnotations.initialPlayers}]`,
    `must be like ${example}, but is ${shown(text)}`,
  )
}

function counterChanges(counters: NonNullable<Body['counters']>): NonNullable<ServerDataUpdate['counters']> {
  return mapped(counters, 'counters', ({ action, ...given }, at) => {
    const [amount, capacity] = [integerAt(given.amount, `${at}.amount`), integerAt(given.capacity, `${at}.capacity`)]
    if ((action === undefined) !== (amount === undefined))
      throw invalid(at, 'must have both action and amount, or neither')
    const change = { ...(amount && { [action === 'Increment' ? 'increment' : 'decrement']: amount }) }
    return { ...change, ...(capacity !== undefined && { capacity }) }
  })
}

/** Agones adds first, and then deletes. */
function listChanges(lists: NonNullable<Body['lists']>): NonNullable<ServerDataUpdate['lists']> {
  return mapped(lists, 'lists', ({ addValues = [], deleteValues = [], ...given }, at) => {
    const capacity = integerAt(given.capacity, `${at}.capacity`)
    const remove = new Set(deleteValues)
    const add = new Set(addValues.filter((value) => !remove.has(value)))
    return {
      ...(add.size > 0 && { add: [...add] }),
      ...(remove.size > 0 && { remove: [...remove] }),
      ...(capacity !== undefined && { capacity }),
    }
  })
}

/** Callers may always name a list, also when they have nothing to add. */
function changesIn<T extends object>(changes: Readonly<Record<string, T>>): Readonly<Record<string, T>> | undefined {
  const given = Object.entries(changes).filter(([, change]) => Object.keys(change).length > 0)
  return given.length > 0 ? Object.fromEntries(given) : undefined
}

function mapped<T, R>(
  entries: Readonly<Record<string, T>>,
  field: string,
  convert: (value: T, at: string) => R,
): Readonly<Record<string, R>> {
  return Object.fromEntries(Object.entries(entries).map(([name, value]) => [name, convert(value, `${field}.${name}`)]))
}

/** The schema has accepted a name or a number. The first name is the default. */
function enumAt<const N extends readonly [string, ...string[]]>(
  names: N,
  value: string | number | undefined = 0,
  field: string,
): N[number] {
  const name = typeof value === 'string' ? names.find((one) => one === value) : names[value]
  if (name === undefined) throw invalid(field, `must be ${names.join(' or ')}, but is ${shown(value)}`)
  return name
}

function integerAt(value: string | number | undefined, field: string): number | undefined {
  if (value === undefined || Number.isSafeInteger(Number(value))) return value === undefined ? undefined : Number(value)
  throw invalid(field, `must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}, but is ${shown(value)}`)
}

function invalid(field: string, message: string): FleetError {
  return new FleetError('invalid', `${field} ${message}`)
}

/** The part of a fleet in which the builds that a request names are found. */
export interface BuildLookup {
  get(ref: { readonly namespace: string; readonly name: string }): Promise<GameServerBuild>
  list(): Promise<readonly GameServerBuild[]>
}

/** Returns the allocation that a request asks for. Throws `not-found` if there is none of the builds that it names. */
export async function allocationInputOf(
  { namespace, selectors, request }: AllocatorRequest,
  sessionID: string,
  builds: BuildLookup,
): Promise<AllocationInput> {
  const select: ServerSelector[] = []
  for (const { fleet, selector } of selectors) {
    const found = (await candidates(namespace, fleet, builds)).filter(({ metadata: { name } }) =>
      fits({ ...noData, labels: { [fleetLabel]: name } }, fleet, undefined),
    )
    const ids = found.map(({ spec }) => spec.buildID)
    for (let i = 0; i < ids.length; i += sizeLimits.selectorBuilds) {
      select.push({ ...selector, builds: ids.slice(i, i + sizeLimits.selectorBuilds) })
    }
  }
  if (select.length === 0)
    throw new FleetError('not-found', `no build in namespace ${namespace} has a name that the request allows`)
  if (select.length > sizeLimits.selectors) {
    const message = `${select.length} selectors would be needed, each for ${sizeLimits.selectorBuilds} builds, but only ${sizeLimits.selectors} are possible; name builds by the label ${fleetLabel}`
    throw invalid('gameServerSelectors', message)
  }
  return { ...request, sessionID, select }
}

/** Looks up the builds that are named, and lists all only if none is. */
async function candidates(
  namespace: string,
  { matchLabels, matchExpressions }: FleetSelector['fleet'],
  builds: BuildLookup,
): Promise<readonly GameServerBuild[]> {
  const name = matchLabels?.[fleetLabel]
  const names = name === undefined ? matchExpressions.find(({ operator }) => operator === 'In')?.values : [name]
  if (!names) return (await builds.list()).filter(({ metadata }) => metadata.namespace === namespace)
  const found = await Promise.all(
    [...new Set(names)].map((one) => builds.get({ namespace, name: one }).catch(unlessMissing)),
  )
  return found.flatMap((build) => build ?? [])
}

function unlessMissing(error: unknown): undefined {
  if (!FleetError.is(error, 'not-found')) throw error
}

/** `server`: absent if it has ended in the meantime, or the fleet does not say. */
export function allocatorAnswer(allocation: AnsweredAllocation, server: GameServer | undefined): unknown {
  const { IPV4Address, address = IPV4Address, ports = [] } = allocation
  const { labels = {}, annotations = {} } = server?.metadata ?? {}
  const { nodeName = '', counters = {}, lists = {} } = server?.status ?? {}
  return {
    gameServerName: allocation.server?.name ?? '',
    ports: ports.map(({ name, public: port }) => ({ name, port })),
    address,
    addresses: [{ type: isIP(address) === 0 ? 'ExternalDNS' : 'ExternalIP', address }],
    nodeName,
    source: 'local',
    metadata: { labels, annotations },
    counters: mapped(counters, '', ({ count, capacity }) => ({ count: String(count), capacity: String(capacity) })),
    lists: mapped(lists, '', ({ values, capacity }) => ({ values, capacity: String(capacity) })),
  }
}

/** The body of an error. */
export function allocatorErrorBody(message: string, code: ErrorCode): unknown {
  return { code: grpcCodes[code] ?? grpc.internal, message, details: [] }
}

const grpc = {
  invalidArgument: 3,
  permissionDenied: 7,
  resourceExhausted: 8,
  aborted: 10,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const

/** Nothing free is RESOURCE_EXHAUSTED, as in Agones, also if no build has the name: there, no server has the label. */
const grpcCodes: Readonly<Partial<Record<ErrorCode, number>>> = {
  invalid: grpc.invalidArgument,
  'not-found': grpc.resourceExhausted,
  'none-standing-by': grpc.resourceExhausted,
  'max-reached': grpc.resourceExhausted,
  'rate-limited': grpc.resourceExhausted,
  conflict: grpc.aborted,
  unsupported: grpc.unimplemented,
  unauthenticated: grpc.unauthenticated,
  forbidden: grpc.permissionDenied,
  'not-confirmed': grpc.unavailable,
  unavailable: grpc.unavailable,
  'not-leader': grpc.unavailable,
  closed: grpc.unavailable,
  draining: grpc.unavailable,
  aborted: grpc.unavailable,
  'ports-exhausted': grpc.unavailable,
  overloaded: grpc.unavailable,
}
