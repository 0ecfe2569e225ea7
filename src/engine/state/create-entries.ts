/** Creates inventory entries from records. */
import { gamePortsOf } from '../../rules/game/game-ports.js'
import { noBackoff } from '../../rules/lifecycle/backoff.js'
import { noReports } from '../../rules/lifecycle/health.js'
import { initialData } from '../../rules/lifecycle/server-data.js'
import { sessionHostId } from '../../rules/model/names.js'
import type { Build, Ref, Server } from '../../rules/model/resources.js'
import { templateHash } from '../../rules/planning/template-hash.js'
import type { Bucket, BuildEntry, Place, ServerEntry } from './entries.js'
import { LinkedSet, unlinked } from './linked-set.js'
import { isDraining } from './queries.js'

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
    heldReady: new LinkedSet(({ nextHeartbeatLink }) => nextHeartbeatLink),
    dueReady: new LinkedSet(({ nextHeartbeatLink }) => nextHeartbeatLink),
    groups: undefined,
    rooms: undefined,
    slots: undefined,
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
    dataLinks: undefined,
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
