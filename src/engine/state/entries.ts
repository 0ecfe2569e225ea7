/** What the engine keeps in memory about each build and each server during a leadership term. Changed through the inventory. */
import type { Instance } from '../../contracts/backend.js'
import { gamePortsOf } from '../../rules/validation/pod-template.js'
import type { EndedSession, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
import { type Backoff, type Losses, noBackoff } from '../../rules/lifecycle/backoff.js'
import type { Claim } from '../../rules/lifecycle/server-sessions.js'
import { type HealthReports, noReports } from '../../rules/lifecycle/health.js'
import { initialData, type ServerData } from '../../rules/lifecycle/server-data.js'
import type { DeclaredPorts } from '../../rules/model/ports.js'
import { sessionHostId } from '../../rules/model/names.js'
import type { Build, Condition, Maintenance, NewSession, Ref, Server, Session } from '../../rules/model/resources.js'
import type { Selection } from '../../rules/planning/selection.js'
import { templateHash } from '../../rules/planning/rollout.js'
import type { Candidates, CandidatePosition } from './candidates.js'
import type { ScalingState } from './scaling-state.js'
import { type Link, LinkedSet, unlinked } from './linked-set.js'
import { isDraining } from './queries.js'

/**
 * A server's state, with three further distinctions: whether a Pending or Initializing server is `late`, whether a StandingBy
 * server can be allocated (`ready`, `unheard` if it could be but is in `awaitingHeartbeat`, or `unready`), and whether an idle
 * server runs the build's current template (`outdated…` if it does not). Idle servers that a caller has reserved are in `setAside`,
 * whatever their state and template; callers have taken places on `reserved` ones.
 */
export type Bucket =
  | 'pending'
  | 'initializing'
  | 'late'
  | 'ready'
  | 'unheard'
  | 'unready'
  | 'outdatedPending'
  | 'outdatedInitializing'
  | 'outdatedLate'
  | 'outdatedReady'
  | 'outdatedUnheard'
  | 'outdatedUnready'
  | 'setAside'
  | 'reserved'
  | 'active'
  | 'terminating'

/** The start of a server, from the request to the backend until the server is standing by. */
export interface StartInProgress {
  /** Time of the request, on the responsive clock. */
  readonly since: number
  /** How often the time allowed for it has been doubled. */
  readonly doublings: number
}

/** A place on a server that a caller has taken for a session. Changed through the inventory. */
export interface Place {
  readonly entry: ServerEntry
  readonly session: NewSession
  /** Of the session, see `sessionKey`. */
  readonly key: string
  /** What the request demands of the server's data, and how it changes them. The write decides. */
  readonly selection: Selection | undefined
  /**
   * `held`: an atomic batch keeps the place until each of its sessions has one. `reserved`: the next write of the server's record contains the
   * session. `writing`: a write contains it, or has contained it and may still take effect. `durable`: the record has the session, and the
   * place is not listed any more. `lost`: not listed any more either, because the session needs another server.
   */
  state: 'held' | 'reserved' | 'writing' | 'durable' | 'lost'
  /**
   * Set once the caller was told that the outcome of its write is unknown: the session then stays here until the store has been read back.
   * Called if it turns out to be durable.
   */
  granted: (() => void) | undefined
}

/** After a restart, the `…Since` fields in elapsed ms are estimates derived from the record's wall-clock times. */
export interface ServerEntry {
  readonly build: BuildEntry
  readonly ref: Ref
  /** The sessionHostId in the path of the server's heartbeats. */
  readonly hostId: string
  /** The current record, whether saved or not. Changed only through the inventory. */
  record: Server
  /** The record as last known to be in the store. Differs from `record` until `record` is saved. */
  stored: Server | undefined
  /** Revision of the record in the store. Undefined until the record has been created there. */
  revision: string | undefined
  /** True if another writer has deleted the record from the store, so that it must not be written again. */
  recordDeleted: boolean
  bucket: Bucket
  /** The server's position in its bucket. */
  readonly bucketLink: Link<ServerEntry>
  /** The server's position in one of the build's three heartbeat lists. */
  readonly heartbeatLink: Link<ServerEntry>
  /** The server's position in `parkedReady` or `dueReady` of its build. */
  readonly nextHeartbeatLink: Link<ServerEntry>
  /** Its position in `candidates` of the build. Undefined until it has had one. */
  position: CandidatePosition | undefined
  /** The places that callers have taken for sessions that the record does not have yet, in the order in which they came. */
  places: readonly Place[]
  /** The game's reports that it has ended sessions, until that is durable. Until then the record has these sessions. */
  ends: readonly EndedSession[] | undefined
  /** True once the game has said that it runs several sessions at the same time. */
  isShared: boolean
  /** True while the server is being drained, so that it takes no further sessions. */
  isLeaving: boolean
  /** Numbers of the sessions that the game has said to have, to this host: an answer that tells it of one may be lost. */
  confirmed: readonly number[]
  /** The write in progress, if any. */
  saving: Promise<void> | undefined
  /** The last attempt to remove the server, whose sessions have been reported as ended. */
  removal: Promise<void> | undefined
  /** True while an action for this server is in progress. */
  busy: boolean
  /** The back-off after failed actions for this server. */
  retry: Backoff
  /** True if this host or an earlier leader has called `backend.create` for this server. */
  createRequested: boolean
  /**
   * True if the game may have started while the agent could not be reached: an earlier leader requested its start, or this host was
   * suspended meanwhile.
   */
  agentWasAway: boolean
  /** True until this host has received a heartbeat, if the server's record was in the store before this host knew the server. */
  inherited: boolean
  /** Undefined until the backend is asked to start the server, and again if it refuses. */
  start: StartInProgress | undefined
  /** True once the server has taken too long to start. */
  late: boolean
  instance: Instance | undefined
  /**
   * Sequence number of the observation that set `instance`. A list that was requested earlier is out of date for this
   * server.
   */
  observationSeq: number
  /** A sentence saying why the server is still Pending. */
  pendingReason: string | undefined
  healthReports: HealthReports
  /** Time of the last heartbeat, or the time since which this host has been waiting for one, on the responsive clock. */
  silentSince: number
  /** Time at which this host first saw the server's process running, on the responsive clock. */
  runningSince: number | undefined
  /** Elapsed ms. */
  standingBySince: number | undefined
  /** Elapsed ms. */
  activeSince: number | undefined
  /** Elapsed ms at which this host first answered a heartbeat with `Terminate`. */
  terminateSentAt: number | undefined
  /** True if the server's crash is included in the build's durable count. */
  crashCounted: boolean
  /** True if this host has called `backend.protect` for this server. */
  isProtected: boolean
  /** Undefined until the game has been heard with a session, and if the session cannot lapse. */
  claim: Claim | undefined
  /** True once the game has reported a player in its session, to this host or an earlier leader. */
  hadPlayers: boolean
  /** Changed only through the inventory. */
  players: readonly string[]
  /** Revision of the server's detail record. Undefined while the store has none. */
  detailRevision: string | undefined
  answers: CachedAnswers | undefined
}

/**
 * Heartbeat answers of a server with a session or announced maintenance, built once and reused while neither changes: `active`
 * is sent until the game reports Active, and `continue` otherwise.
 */
export interface CachedAnswers {
  readonly session: Session | undefined
  readonly maintenance: Maintenance | undefined
  readonly active: HeartbeatAnswer
  readonly continue: HeartbeatAnswer
  /** What the list of all sessions was made from. Undefined if the game does not take several. */
  readonly several: SeveralSources | undefined
}

export interface SeveralSources {
  readonly record: Server
  readonly ends: readonly EndedSession[] | undefined
}

export interface BuildEntry {
  readonly ref: Ref
  record: Build
  revision: string
  /** True if the build's record has been deleted. Its servers are then terminating. */
  deleted: boolean
  readonly buckets: Readonly<Record<Bucket, LinkedSet<ServerEntry>>>
  /** Servers that must be saved, started, protected or destroyed. */
  readonly needsAction: Set<ServerEntry>
  /** Pending servers that the backend could not start because no port was free. */
  readonly withoutPort: Set<ServerEntry>
  /** During a rolling update, number of ports that ended servers gave up for new ones and that no new one has taken yet. */
  freedPorts: number
  /** Running servers that have never sent a heartbeat, in the order in which they started. */
  readonly awaitingFirstHeartbeat: LinkedSet<ServerEntry>
  /** Servers that sent heartbeats before this host became the leader or was suspended, but have sent none since. */
  readonly awaitingHeartbeat: LinkedSet<ServerEntry>
  /** Servers that have sent heartbeats to this host, least recent heartbeat first. */
  readonly heartbeating: LinkedSet<ServerEntry>
  /** Servers in the bucket `ready` whose heartbeats are waiting for their answers. */
  readonly parkedReady: LinkedSet<ServerEntry>
  /** The other servers in the bucket `ready` that have sent heartbeats to this host, least recent heartbeat first. */
  readonly dueReady: LinkedSet<ServerEntry>
  /** Undefined until they are needed: its servers may have several sessions, or a request selects them or looks for free seats. */
  candidates: Candidates | undefined
  /** Undefined if its spec has no scaling policies, and until they have decided. */
  scaling: ScalingState | undefined
  /** Number of servers that the fleet's budget leaves the build. `Infinity` without a budget. */
  budgetMax: number
  /** Template hash of the build's current spec. */
  templateHash: string
  /** The data that a new server begins with. */
  initialData: ServerData | undefined
  /** `initialData` of the spec before the last change. */
  formerData: ServerData | undefined
  /** Names and protocols of the ports in the build's current template. */
  gamePorts: DeclaredPorts
  backoff: Backoff
  /** Recent losses of servers that were standing by. */
  losses: Losses | undefined
  /** The condition `Disappearing`, while it holds. */
  disappearing: Pick<Condition, 'reason' | 'message'> | undefined
  /** Doubles the time allowed for starts while servers keep being late. */
  lateStarts: Backoff
  /** The message of the condition `LateServers`. */
  lateMessage: string | undefined
  /**
   * Template hash of the most recent server that crashed while running the current template. Holds up a rolling update to
   * that template.
   */
  crashedTemplate: string | undefined
  /** Number of connected players on all servers of the build, as their games last reported them. */
  players: number
  /** True while an operator is draining the build. */
  draining: boolean
  /** True while the build's record is being written. */
  writing: boolean
}

/** Creates a build's entry. `revision` is undefined if its record has already been deleted. */
export function newBuild(record: Build, revision?: string): BuildEntry {
  return {
    ref: frozenRef(record),
    record,
    revision: revision ?? '',
    deleted: revision === undefined,
    buckets: newBuckets(),
    needsAction: new Set(),
    withoutPort: new Set(),
    freedPorts: 0,
    awaitingFirstHeartbeat: new LinkedSet(({ heartbeatLink }) => heartbeatLink),
    awaitingHeartbeat: new LinkedSet(({ heartbeatLink }) => heartbeatLink),
    heartbeating: new LinkedSet(({ heartbeatLink }) => heartbeatLink),
    parkedReady: new LinkedSet(({ nextHeartbeatLink }) => nextHeartbeatLink),
    dueReady: new LinkedSet(({ nextHeartbeatLink }) => nextHeartbeatLink),
    candidates: undefined,
    scaling: undefined,
    budgetMax: Infinity,
    templateHash: templateHash(record.spec),
    initialData: initialData(record.spec),
    formerData: undefined,
    gamePorts: gamePortsOf(record.spec.template),
    backoff: noBackoff,
    losses: undefined,
    disappearing: undefined,
    lateStarts: noBackoff,
    lateMessage: undefined,
    crashedTemplate: undefined,
    players: 0,
    draining: isDraining(record),
    writing: false,
  }
}

/** Creates a server's entry. `revision` is undefined if its record is not in the store yet. */
export function newServer(build: BuildEntry, record: Server, revision: string | undefined): ServerEntry {
  return {
    build,
    ref: frozenRef(record),
    hostId: sessionHostId(record.name, record.token),
    record,
    stored: revision === undefined ? undefined : record,
    revision,
    recordDeleted: false,
    bucket: 'pending',
    bucketLink: unlinked(),
    heartbeatLink: unlinked(),
    nextHeartbeatLink: unlinked(),
    position: undefined,
    places: noPlaces,
    ends: undefined,
    isShared: false,
    isLeaving: false,
    confirmed: none,
    saving: undefined,
    removal: undefined,
    busy: false,
    retry: noBackoff,
    createRequested: revision !== undefined,
    agentWasAway: revision !== undefined,
    inherited: revision !== undefined,
    start: undefined,
    late: false,
    instance: undefined,
    observationSeq: 0,
    pendingReason: undefined,
    healthReports: noReports,
    silentSince: 0,
    runningSince: undefined,
    standingBySince: undefined,
    activeSince: undefined,
    terminateSentAt: undefined,
    crashCounted: false,
    isProtected: false,
    claim: undefined,
    hadPlayers: false,
    players: [],
    detailRevision: undefined,
    answers: undefined,
  }
}

/** Its game has ended the session, and nothing that is known of that session holds for the next one. */
export function clearSession(entry: ServerEntry): void {
  entry.standingBySince = undefined
  entry.activeSince = undefined
  entry.confirmed = none
  entry.claim = undefined
  entry.hadPlayers = false
}

const none: readonly number[] = Object.freeze([])
/** Shared by all servers on which nobody has taken a place. */
export const noPlaces: readonly Place[] = Object.freeze([])

function newBuckets(): Record<Bucket, LinkedSet<ServerEntry>> {
  const set = () => new LinkedSet<ServerEntry>(({ bucketLink }) => bucketLink)
  return {
    pending: set(),
    initializing: set(),
    late: set(),
    ready: set(),
    unheard: set(),
    unready: set(),
    outdatedPending: set(),
    outdatedInitializing: set(),
    outdatedLate: set(),
    outdatedReady: set(),
    outdatedUnheard: set(),
    outdatedUnready: set(),
    setAside: set(),
    reserved: set(),
    active: set(),
    terminating: set(),
  }
}

function frozenRef({ namespace, name }: Ref): Ref {
  return Object.freeze({ namespace, name })
}
