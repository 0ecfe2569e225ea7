/** What the page knows of the fleet. Plain, immutable data: `reduce` makes the next one. */
import type { EventsDropped, FleetEvent } from '../../../contracts/events.js'
import type { GameSessionBody } from '../../../contracts/sessions.js'
import type { Seats } from '../../../rules/lifecycle/server-sessions.js'
import { type Health, keyOf, type Ref, type ServerState } from '../../../rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'

export type StreamedEvent = FleetEvent | EventsDropped

export interface ServerSession {
  readonly id: string
  /** When it began, wall time in ms. Absent if unknown. */
  readonly startedAt?: number | undefined
  /**
   * The players connected to its server: games do not say which of their sessions a player is in. Until the game has reported any, the
   * players expected in this session.
   */
  readonly players: readonly string[]
  /**
   * True if the game has not reported any players yet: those that are expected do not count. False once an event has brought
   * reported players.
   */
  readonly areExpected?: boolean
  /** As last read. Absent if the build does not say how many there are. */
  readonly seats?: Seats | undefined
}

export interface ServerRow extends Ref {
  /** Key of its build. */
  readonly build: string
  readonly state: ServerState
  readonly health: Health
  /** When it reached its state, wall time in ms. */
  readonly since: number
  /** Its session, of several the first. */
  readonly session?: ServerSession | undefined
  /** Its other sessions, if its game takes several. */
  readonly others?: readonly ServerSession[] | undefined
  /** Why it is in its state, if the fleet says so. */
  readonly message?: string | undefined
  /** When announced maintenance begins, wall time in ms. */
  readonly maintenance?: number | undefined
  /** Until when the idle server is reserved, wall time in ms. */
  readonly reservedUntil?: number | undefined
  /** Where it runs, as last read: no event says it. */
  readonly place?: Place | undefined
}

export interface Place {
  /** Public addresses with their ports. Empty if they are not known yet. */
  readonly addresses: readonly string[]
  /** Empty if the backend knows none. */
  readonly node: string
}

export interface Crash {
  readonly seq: number
  readonly at: number
  readonly build: string
  readonly server: Ref
  readonly reason: string
  readonly message: string
}

/** What happened in one minute. */
export interface Minute {
  /** Wall time in ms, a multiple of 60,000. */
  readonly at: number
  readonly allocations: number
  /** The longest wait of an allocation, in ms. */
  readonly longestWaitMs: number
  readonly crashes: number
}

export interface Model {
  /** By key. */
  readonly builds: ReadonlyMap<string, GameServerBuild>
  /** By key of the build, then by key of the server. */
  readonly servers: ReadonlyMap<string, ReadonlyMap<string, ServerRow>>
  /** Oldest first. */
  readonly events: readonly StreamedEvent[]
  /** Number of earlier events that the host no longer had, or that the page has let go. */
  readonly dropped: number
  /** Newest first. */
  readonly crashes: readonly Crash[]
  /** Oldest first; minutes in which nothing happened are absent. */
  readonly minutes: readonly Minute[]
}

export const emptyModel: Model = {
  builds: new Map(),
  servers: new Map(),
  events: [],
  dropped: 0,
  crashes: [],
  minutes: [],
}

export interface Snapshot {
  readonly builds: readonly GameServerBuild[]
  /** By key of the build. */
  readonly servers: ReadonlyMap<string, readonly GameServer[]>
  readonly sessions: readonly GameSessionBody[]
}

/** Replaces builds and servers by those of the snapshot, and applies the events that may be newer than it. */
export function withSnapshot(model: Model, snapshot: Snapshot): Model {
  const sessions = new Map<string, readonly ServerSession[]>()
  for (const session of snapshot.sessions) {
    const server = keyOf(session.server)
    sessions.set(server, [...(sessions.get(server) ?? []), sessionOf(session)])
  }
  const servers = new Map<string, ReadonlyMap<string, ServerRow>>()
  for (const [build, list] of snapshot.servers) {
    servers.set(build, new Map(list.map((server) => [keyOf(server.metadata), rowOf(server, build, sessions)])))
  }
  return { ...model, builds: new Map(snapshot.builds.map((build) => [keyOf(build.metadata), build])), servers }
}

function sessionOf({ sessionID, startedAt, players, initialPlayers, seats }: GameSessionBody): ServerSession {
  const session = { id: sessionID, startedAt: at(startedAt), ...(seats && { seats }) }
  if (players.length > 0 || initialPlayers.length === 0) return { ...session, players }
  return { ...session, players: initialPlayers, areExpected: true }
}

function rowOf(
  { metadata, status }: GameServer,
  build: string,
  sessions: ReadonlyMap<string, readonly ServerSession[]>,
): ServerRow {
  const { state, health, message, sessionID, sessions: numbered = [{ sessionID }] } = status
  const times = { maintenance: at(status.nextScheduledMaintenance), reservedUntil: at(status.reservedUntil) }
  const { name, namespace } = metadata
  const known = numbered.flatMap(({ sessionID: id }) => (id === undefined ? [] : [{ id, players: [] }]))
  const all = withSessions(sessions.get(keyOf(metadata)) ?? known)
  const since = sinceOf(metadata, status)
  return { name, namespace, build, state, health, since, ...all, message, ...times, place: placeOf(status) }
}

/** Undefined before the server has been started. */
export function placeOf({ publicIP, ports, nodeName }: GameServer['status']): Place | undefined {
  if (publicIP === '' && nodeName === '') return undefined
  const addresses = publicIP === '' ? [] : ports.split(',').map((pair) => `${publicIP}:${pair.split(':')[1] ?? ''}`)
  return { addresses, node: nodeName }
}

/** Where servers run, as just read. */
export function withPlaces(model: Model, build: string, servers: readonly GameServer[]): Model {
  const rows = new Map(serversOf(model, build))
  for (const { metadata, status } of servers) {
    const row = rows.get(keyOf(metadata))
    if (row) rows.set(keyOf(metadata), { ...row, place: placeOf(status) })
  }
  return { ...model, servers: new Map(model.servers).set(build, rows) }
}

/** All sessions of a server. */
export function sessionsIn({ session, others = [] }: Pick<ServerRow, 'session' | 'others'>): readonly ServerSession[] {
  return session ? [session, ...others] : []
}

export function withSessions([session, ...others]: readonly ServerSession[]): Pick<ServerRow, 'session' | 'others'> {
  return { session, others: others.length > 0 ? others : undefined }
}

function at(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time)
}

function sinceOf({ creationTimestamp }: GameServer['metadata'], status: GameServer['status']): number {
  const { state, reachedInitializingOn, reachedStandingByOn, reachedActiveOn } = status
  const reached = {
    Pending: creationTimestamp,
    Initializing: reachedInitializingOn,
    StandingBy: reachedStandingByOn,
    Active: reachedActiveOn,
    Terminating: reachedActiveOn ?? reachedStandingByOn ?? reachedInitializingOn,
  }[state]
  return Date.parse(reached ?? creationTimestamp ?? '') || 0
}

export function withBuild(model: Model, build: GameServerBuild): Model {
  return { ...model, builds: new Map(model.builds).set(keyOf(build.metadata), build) }
}

/** Replaces the players of the session, as far as no event says more. */
export function withPlayers(model: Model, build: string, session: GameSessionBody): Model {
  const rows = serversOf(model, build)
  const row = rows.get(keyOf(session.server))
  if (row === undefined) return model
  const sessions = sessionsIn(row)
  const known = sessions.find(({ id }) => id === session.sessionID) ?? row.session
  if (!isOlder(known, session)) return model
  const read = sessionOf(session)
  const all = known ? sessions.map((one) => (one === known ? read : one)) : [read]
  const changed = new Map(rows).set(keyOf(row), { ...row, ...withSessions(all) })
  return { ...model, servers: new Map(model.servers).set(build, changed) }
}

/** The seats of a session have been read. */
export function withSeats(model: Model, build: string, { server, sessionID, seats }: GameSessionBody): Model {
  const rows = serversOf(model, build)
  const row = rows.get(keyOf(server))
  const sessions = row ? sessionsIn(row) : []
  if (!row || !sessions.some(({ id }) => id === sessionID)) return model
  const all = sessions.map((one) => (one.id === sessionID ? { ...one, seats } : one))
  const changed = new Map(rows).set(keyOf(row), { ...row, ...withSessions(all) })
  return { ...model, servers: new Map(model.servers).set(build, changed) }
}

/** `3 of 8 seats taken, 1 held`. The connected players are known sooner than what was last read. */
export function seatsText({ players, areExpected, seats }: Omit<ServerSession, 'id'>): string | undefined {
  if (!seats) return undefined
  const taken = areExpected ? seats.taken : new Set(players).size
  return `${taken} of ${seats.total} seats taken${seats.held > 0 ? `, ${seats.held} held` : ''}`
}

/** The server may have another session by now, and its game may have reported players. */
function isOlder(known: ServerSession | undefined, { sessionID }: GameSessionBody): boolean {
  return known === undefined || (known.id === sessionID && known.areExpected !== false)
}

export interface Counts {
  readonly Pending: number
  readonly Initializing: number
  readonly StandingBy: number
  readonly Active: number
  readonly Terminating: number
}

const counted = new WeakMap<ReadonlyMap<string, ServerRow>, Counts>()

/** Number of servers in each state. Counts again only after a change. */
export function countsOf(model: Model, build: string): Counts {
  const servers = model.servers.get(build) ?? noServers
  const known = counted.get(servers)
  if (known) return known
  const counts = { Pending: 0, Initializing: 0, StandingBy: 0, Active: 0, Terminating: 0 }
  for (const { state } of servers.values()) counts[state]++
  counted.set(servers, counts)
  return counts
}

const noServers: ReadonlyMap<string, ServerRow> = new Map()

export function serversOf(model: Model, build: string): ReadonlyMap<string, ServerRow> {
  return model.servers.get(build) ?? noServers
}

/** Number of connected players. */
export function playersOf(model: Model, build: string): number {
  let players = 0
  for (const row of serversOf(model, build).values()) if (row.state === 'Active') players += connectedTo(row).length
  return players
}

/** Number of sessions on the Active servers. */
export function sessionCountOf(model: Model, build: string): number {
  let sessions = 0
  for (const row of serversOf(model, build).values())
    if (row.state === 'Active') sessions += Math.max(1, sessionsIn(row).length)
  return sessions
}

/** The players connected to a server, each once, however many sessions it has. */
export function connectedTo(row: Pick<ServerRow, 'session' | 'others'>): readonly string[] {
  const { session, others } = row
  if (others === undefined) return session === undefined || session.areExpected ? [] : session.players
  return [...new Set(sessionsIn(row).flatMap(({ areExpected, players }) => (areExpected ? [] : players)))]
}

/** Allocations in the last 60 s are not known to the second, so this is the last full minute, or this one if it has more. */
export function perMinute(minutes: readonly Pick<Minute, 'at' | 'allocations'>[], now: number): number {
  const current = Math.floor(now / minuteMs) * minuteMs
  const recent = minutes.filter(({ at }) => at >= current - minuteMs)
  return Math.max(0, ...recent.map(({ allocations }) => allocations))
}

/** Crashes in the last hour, to the minute. Counted by the minute, because only the latest crashes are kept. */
export function crashesInHour(minutes: readonly Pick<Minute, 'at' | 'crashes'>[], now: number): number {
  const recent = minutes.filter(({ at }) => at > now - 60 * minuteMs)
  return recent.reduce((sum, { crashes }) => sum + crashes, 0)
}

export const minuteMs = 60_000

const troubles: ReadonlySet<StreamedEvent['type']> = new Set([
  'BackendUnavailable',
  'ReconcileFailed',
  'StoreDamaged',
  'WebhookFailed',
])

/** The latest event about an error of the host itself, of its store or of its backend. */
export function lastTrouble(events: readonly StreamedEvent[]): FleetEvent | undefined {
  return events.findLast((event): event is FleetEvent => troubles.has(event.type))
}

/** When the backend has last recovered, wall time in ms. Undefined if it has not failed as far as the log goes. */
export function recoveredAt(events: readonly StreamedEvent[]): number | undefined {
  const last = events.findLast(({ type }) => type === 'BackendRecovered' || type === 'BackendUnavailable')
  return last?.type === 'BackendRecovered' ? last.at : undefined
}
