/** What a caller gets for a session: the result of an allocation, and the sessions that have a server now. */
import { type Seats, seatsOf } from '../rules/lifecycle/server-sessions.js'
import type { ServerSelector } from '../rules/model/allocation-request.js'
import { type DeclaredPorts, findPort, namedPorts } from '../rules/model/ports.js'
import type { Build, Ref, RefLike, Server } from '../rules/model/resources.js'
import type { AllocatedPort, AllocationBody, AllocationDetails, BuildMismatch } from '../rules/model/wire.js'
import type { AuditedCallOptions, Caller, CallOptions } from './call-options.js'
import { FleetError } from './errors.js'
import type { EventOf, SessionEnd } from './events.js'

/** The server of a session. All fields are plain data; `port` is not part of its JSON. */
export interface Allocation extends Omit<AllocationBody, 'details'>, AllocationDetails {
  /**
   * Returns the number that players connect to, of the port with this name or with this number in the template. If there is only
   * one port, the argument may be omitted. Throws `invalid`, naming the ports that there are.
   */
  port(nameOrNumber?: string | number): number
}

/** A class, because one method for all costs an allocation nothing and stays out of JSON, copies and logs. */
export class AllocatedServer implements Allocation {
  readonly IPV4Address: string
  readonly Ports: string
  readonly SessionID: string
  readonly server: Ref
  readonly address: string
  readonly ports: readonly AllocatedPort[]
  declare readonly buildMismatch?: BuildMismatch

  constructor(body: AllocationBody, server: Ref, ports: readonly AllocatedPort[], buildMismatch?: BuildMismatch) {
    this.IPV4Address = body.IPV4Address
    this.Ports = body.Ports
    this.SessionID = body.SessionID
    this.server = server
    this.address = body.IPV4Address
    this.ports = ports
    if (buildMismatch) this.buildMismatch = buildMismatch
  }

  port(nameOrNumber?: string | number): number {
    return publicPort(this.ports, nameOrNumber)
  }
}

function publicPort(ports: readonly AllocatedPort[], nameOrNumber: string | number | undefined): number {
  const found = findPort(ports, nameOrNumber)
  if (!found.ok) throw new FleetError('invalid', `${found.problem.field} ${found.problem.message}`)
  return found.value.public
}

export interface AllocateOptions extends AuditedCallOptions {
  /**
   * How long to wait, in ms, if no server is standing by. Default: 0, which rejects immediately. Maximum:
   * `limits.maxWaitMs`. A waiting caller counts as demand until 3 s after its timeout, so that the server started for it is
   * still there when it retries. If the session has just ended on another server, the call first waits until that is stored, for
   * `waitMs` and at least 1 s, and rejects with `unavailable` after that.
   */
  readonly waitMs?: number
  /**
   * Whether to wait until the game has its session, so that players who connect at once do not arrive before it. A game
   * confirms its session by reporting Active.
   * Waits as long as `waitMs` allows; without `waitMs`, at most 10 s (or `limits.maxWaitMs` if that is less), and not for a
   * server. Rejects with `not-confirmed` after that: the session keeps its server, and a retry with the same sessionID waits
   * for the same game. Default: false.
   */
  readonly confirm?: boolean
}

export interface AllocateManyOptions extends AuditedCallOptions {
  /** All sessions get a server, or none does. Default: false, which allocates as many as there are servers for. */
  readonly atomic?: boolean
  /** How long to wait, in ms, for servers. Default: 0. Maximum: `limits.maxWaitMs`. */
  readonly waitMs?: number
}

/** What one session of a batch got: a server, or an error. */
export type BatchResult =
  | { readonly sessionID: string; readonly allocation: Allocation; readonly error?: never }
  | { readonly sessionID: string; readonly allocation?: never; readonly error: FleetError }

/** A session and its server, as JSON. */
export interface GameSessionBody {
  readonly sessionID: string
  readonly buildID: string
  readonly build: Ref
  readonly server: Ref
  /** `Terminating`: the match is being ended, with its server or, where the server has others, by its game. */
  readonly state: 'Active' | 'Terminating'
  readonly address: string
  readonly ports: readonly AllocatedPort[]
  /** When the server was allocated. RFC 3339. Absent for a match whose record was lost and found. */
  readonly startedAt?: string
  readonly initialPlayers: readonly string[]
  /** The players connected to the server, as the game last reported them. If it has several sessions, they are those of all. */
  readonly players: readonly string[]
  /** Absent if the build has no `seatsPerSession`. */
  readonly seats?: Seats
}

export interface GameSession extends GameSessionBody, Pick<Allocation, 'port'> {}

/** A session that has ended: what its `SessionEnded` says, as JSON. */
export interface EndedGameSession extends Omit<SessionEnd, 'startedAt'> {
  readonly state: 'Ended'
  readonly build: Ref
  readonly server: Ref
  /** A human-readable sentence. */
  readonly message: string
  /** RFC 3339. */
  readonly startedAt?: string
  /** When the host heard of the end. RFC 3339. */
  readonly endedAt: string
}

export function endedSession(event: EventOf<'SessionEnded'>): EndedGameSession {
  const { type: _, seq: __, at, startedAt, ...end } = event
  return {
    ...end,
    state: 'Ended',
    ...(startedAt !== undefined && { startedAt: new Date(startedAt).toISOString() }),
    endedAt: new Date(at).toISOString(),
  }
}

/** A session of a server, by default its first, and of its build, at wall time `now`. */
export function sessionBody(
  build: Build,
  server: Server,
  players: readonly string[],
  declared: DeclaredPorts,
  now: number,
  session = server.sessions[0],
): GameSessionBody {
  const { id = '', initialPlayers = [], holds, startedAt = server.reachedActiveOn, ending } = session ?? {}
  const { state } = server
  const { seatsPerSession } = build.spec
  return {
    sessionID: id,
    buildID: build.spec.buildID,
    build: { namespace: build.namespace, name: build.name },
    server: { namespace: server.namespace, name: server.name },
    state: state === 'Terminating' || ending ? 'Terminating' : 'Active',
    address: server.address ?? '',
    ports: namedPorts(server.ports ?? [], declared),
    ...(startedAt !== undefined && { startedAt: new Date(startedAt).toISOString() }),
    initialPlayers,
    players,
    ...(seatsPerSession !== undefined && { seats: seatsOf(seatsPerSession, players, holds, now) }),
  }
}

/** Adds the method, which is not part of the JSON. */
export function gameSession(body: GameSessionBody): GameSession {
  const port = (nameOrNumber?: string | number) => publicPort(body.ports, nameOrNumber)
  return Object.defineProperty({ ...body, port }, 'port', { enumerable: false })
}

export interface ReserveSeatsOptions extends AuditedCallOptions {
  /** How long the seats are held, in ms, at most an hour. Default: 60,000. */
  readonly holdMs?: number
}

/** Sessions of a build, or of servers that fit a selector. Exactly one is set. */
export interface SessionTarget {
  /** The spec.buildID of the build. */
  readonly buildID?: string
  /** Which servers fit, most wanted first. Their sessions come first, too. */
  readonly select?: readonly ServerSelector[]
}

export interface SessionsWithRoom extends SessionTarget {
  /** The least number of free seats. Default: 1. */
  readonly seats?: number
  /** The most sessions to return, at most 1,000. Default: 100. */
  readonly limit?: number
}

export interface JoinOptions extends AuditedCallOptions {
  /** With `orAllocate`: how long to wait for a server, in ms. Default: 0. Maximum: `limits.maxWaitMs`. */
  readonly waitMs?: number
}

export interface JoinRequest extends SessionTarget {
  /** Ids of the players. All of them get seats in the same session. */
  readonly players: readonly string[]
  /** How long the seats are held, in ms, at most an hour. Default: 60,000. */
  readonly holdMs?: number
  /** Whether to allocate a server for a new session if no session has room. Default: false. */
  readonly orAllocate?: boolean
  /** The sessionID of the session that this call begins, if it begins one. Only with `orAllocate`. Default: a new GUID. */
  readonly sessionID?: string
  /** Passed to the game of the session that this call begins, if it begins one. Only with `orAllocate`. */
  readonly sessionCookie?: string
}

export interface EndedOptions extends CallOptions {
  /** How long to wait, in ms. Default: until the session ends. */
  readonly waitMs?: number
}

/** The sessions that have a server now. A session that waits for a server is not one of them yet. */
export interface Sessions {
  /**
   * Returns the session, or how it has ended: for an hour after that, of the last `limits.eventLogSize` sessions, from the host that has
   * heard of its end. Throws `not-found` if no server has this session, and none is known to have had it.
   */
  get(sessionID: string, options?: CallOptions): Promise<GameSession | EndedGameSession>
  /**
   * Resolves when the session has ended, at once if it is known to have. Rejects with `not-found` as `get` does, with `aborted` after
   * `waitMs`, and with `not-leader` or `closed` if this host ceases to lead: call it again, on the host that leads then. It says `not-found`
   * if the session had ended before.
   */
  ended(sessionID: string, options?: EndedOptions): Promise<EndedGameSession>
  /** Lists all sessions, or only those of one build. Throws `not-found` if that build does not exist. */
  list(options?: CallOptions & { readonly build?: RefLike }): Promise<readonly GameSession[]>
  /**
   * Returns the session that a player is in: one whose game reports the player as connected, or else one that holds a seat for the
   * player, or else one whose `initialPlayers` include the player. If there are several, the one that was allocated last; of several games
   * that report the player as connected, one whose `initialPlayers` include the player, or else the first that reported it. Throws `not-found` if there is none.
   */
  ofPlayer(player: string, options?: CallOptions): Promise<GameSession>
  /**
   * Ends a match: terminates its server with its grace period, and replaces it. Never affects a server that has another session. If the game
   * takes several sessions and the build allows them, the game is asked to end this one, and the server goes on; the session has ended once
   * the game says so. Throws `unavailable` for a few seconds after this host has become the leader, until it has heard such a game.
   * A repeated call changes nothing. Resolves when it is durable. Throws `not-found` if no server has this session.
   */
  end(sessionID: string, options?: AuditedCallOptions): Promise<void>
  /**
   * Holds seats for players who are on their way, for all of them or for none. A hold ends when its player connects, when it is released,
   * or at its time. A player who holds a seat already keeps it for at least `holdMs`; one who is connected has a seat and needs none, so a
   * repeated call changes nothing else. Resolves when it is durable. Throws `no-room` if there are fewer free seats than players who need
   * one, with `free` in its details; `not-found` if no server has this session, or it is being ended; `invalid` if its build has no
   * `seatsPerSession`; and `unavailable` until this host has heard the game, for a few seconds after it has become the leader.
   */
  reserveSeats(sessionID: string, players: readonly string[], options?: ReserveSeatsOptions): Promise<GameSession>
  /**
   * Frees seats that are held for these players, and leaves connected players alone. Resolves when it is durable. Throws `not-found` if
   * no server has this session, or it is being ended.
   */
  releaseSeats(sessionID: string, players: readonly string[], options?: AuditedCallOptions): Promise<GameSession>
  /**
   * Lists sessions with free seats, those of the first selector that any fits first, and of these the fullest first. Not those of builds
   * that are draining. To take the seats at once, use `join`. Throws `not-found` if no named build exists, and `invalid` if none of them has `seatsPerSession`.
   */
  withRoom(query: SessionsWithRoom, options?: CallOptions): Promise<readonly GameSession[]>
  /**
   * Holds seats for all players in the fullest session that has room for them, as `withRoom` and `reserveSeats` together, but no other
   * caller can come between. A call that is repeated while its players are on their way returns the same session. Throws `no-room` if no
   * session has room, `draining` if all builds are draining, and otherwise as `withRoom` and `reserveSeats` do.
   * With `orAllocate`, a session is begun where none has room. However many calls with the same `buildID` or `select` come at once, they
   * begin only as many sessions as their players fill: a group that fits into one that is being begun waits for it. The game gets the
   * players of the call that begins the session as its `initialPlayers`. Throws what `allocate` throws, too.
   */
  join(request: JoinRequest, options?: JoinOptions): Promise<GameSession>
}

/** The session for which a game has taken its own server. */
export interface OwnAllocation {
  readonly sessionID: string
}

/** An allocation that is requested through the store instead of by a call, such as by an object in a cluster. */
interface RequestedAllocation extends Required<CallOptions> {
  /** Only builds and sessions of this namespace are used. */
  readonly namespace: string
  /** As in `Fleet.allocate`, not validated yet. */
  readonly request: unknown
  /** At most the fleet's `limits.maxWaitMs` of it is used. */
  readonly waitMs: number
  readonly caller: Caller
}

export interface GrantedAllocation {
  readonly allocation: Allocation
  /** Name of the machine that the server runs on, if known. */
  readonly node: string | undefined
}

/** Rejects like `Fleet.allocate`, and with `forbidden` if the session has a server in another namespace. */
export type AllocateRequested = (requested: RequestedAllocation) => Promise<GrantedAllocation>
