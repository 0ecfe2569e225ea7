/** Read-only queries on inventory entries. */
import type { Backend } from '../../contracts/backend.js'
import type { Build, BuildSpec, Session } from '../../rules/model/resources.js'
import { type BuildCounts, buildHealth, type BuildReadiness, readinessOf } from '../../rules/model/build-status.js'
import { isAllocatable } from '../../rules/planning/server-choice.js'
import { clamped } from '../../rules/planning/scaling.js'
import { endsOne, serversFor, withSessionsStandingBy } from '../../rules/lifecycle/server-sessions.js'
import type { Bucket, BuildEntry, Place, ServerEntry } from './entries.js'
import type { ScalingState } from './scaling-state.js'

/** True if the server runs, or will run, the build's current template, and is not to be replaced for its age. */
export function isCurrent(entry: ServerEntry): boolean {
  return runsCurrentTemplate(entry) && !isAged(entry)
}

function runsCurrentTemplate({ build, record }: ServerEntry): boolean {
  return record.templateHash === build.templateHash
}

/** True if the server is to be replaced, because it has been standing by for too long. */
export function isAged(entry: ServerEntry): boolean {
  const { scaling } = entry.build
  return scaling !== undefined && scaling.aged.has(entry)
}

/** True while an operator is draining the build. */
export function isDraining(record: Build): boolean {
  return record.conditions.some((condition) => condition.type === 'Draining')
}

/** True if the server has sent heartbeats and has not been silent for too long. */
export function expectsHeartbeat({ build, heartbeatLink: { set }, record }: ServerEntry): boolean {
  if (set === undefined) return false
  // After a restart of the host, a server that is still Initializing may have sent heartbeats to an earlier host.
  return set !== build.awaitingFirstHeartbeat || record.health !== 'Unknown'
}

/** True if servers in this bucket can be allocated and have been heard. */
export function isReady(bucket: Bucket): boolean {
  return bucket === 'ready' || bucket === 'outdatedReady'
}

/** True if the server has sent a heartbeat since this host began to lead and since it was last suspended. */
export function isHeard(entry: ServerEntry): boolean {
  return entry.build.heartbeating.has(entry)
}

export function serverCount({ buckets }: BuildEntry): number {
  let count = 0
  for (const bucket of Object.values(buckets)) count += bucket.size
  return count
}

/** Counts terminating servers whose termination is not in the store yet. */
export function unsavedTerminations({ buckets }: BuildEntry): number {
  let count = 0
  for (const { stored, recordDeleted } of buckets.terminating) {
    if (stored?.state !== 'Terminating' && !recordDeleted) count++
  }
  return count
}

/** Returns the bucket that the entry belongs in. */
export function bucketOf(entry: ServerEntry): Bucket {
  const current = isCurrent(entry)
  if (isSetAside(entry)) return 'setAside'
  switch (entry.record.state) {
    case 'Pending':
      if (entry.late) return current ? 'late' : 'outdatedLate'
      return current ? 'pending' : 'outdatedPending'
    case 'Initializing':
      if (entry.late) return current ? 'late' : 'outdatedLate'
      return current ? 'initializing' : 'outdatedInitializing'
    case 'StandingBy':
      if (entry.places.length > 0) return 'reserved'
      if (!isAllocatable(entry.record)) return current ? 'unready' : 'outdatedUnready'
      if (isHeard(entry)) return current ? 'ready' : 'outdatedReady'
      return current ? 'unheard' : 'outdatedUnheard'
    case 'Active':
      return 'active'
    case 'Terminating':
      return 'terminating'
  }
}

/** True if the server is reserved by a caller, and not just being allocated. */
function isSetAside({ places, record: { reservedUntil, state } }: ServerEntry): boolean {
  return reservedUntil !== undefined && places.length === 0 && state !== 'Active' && state !== 'Terminating'
}

/** Counts the servers of a build by the state in their records. */
export function countsOf(build: BuildEntry): BuildCounts {
  const { buckets } = build
  let latePending = 0
  for (const { record } of lateServers(build)) if (record.state === 'Pending') latePending++
  const late = buckets.late.size + buckets.outdatedLate.size
  const setAside = { Pending: 0, Initializing: 0, StandingBy: 0, Active: 0, Terminating: 0 }
  for (const { record } of buckets.setAside) setAside[record.state]++
  return {
    pending: buckets.pending.size + buckets.outdatedPending.size + latePending + setAside.Pending,
    initializing:
      buckets.initializing.size + buckets.outdatedInitializing.size + late - latePending + setAside.Initializing,
    standingBy: standingByIn(build) + buckets.reserved.size + setAside.StandingBy,
    active: buckets.active.size,
    terminating: buckets.terminating.size,
  }
}

/** Counts the servers that are in use: Active, being allocated, or reserved by a caller. They are neither idle nor to be terminated. */
export function inUse({ buckets }: BuildEntry): number {
  return buckets.active.size + buckets.reserved.size + buckets.setAside.size
}

/** Counts the StandingBy servers of a build that are neither being allocated nor reserved. */
export function standingByIn({ buckets }: BuildEntry): number {
  const current = buckets.ready.size + buckets.unheard.size + buckets.unready.size
  return current + buckets.outdatedReady.size + buckets.outdatedUnheard.size + buckets.outdatedUnready.size
}

/** The spec by which the build is scaled: its numbers as far as they are allowed, with as many servers as its sessions take. */
export function scaledSpec(build: BuildEntry, maxServers: number): BuildSpec {
  const { candidates, record } = build
  const places = { free: candidates?.freePlaces ?? 0, perServer: candidates?.placesPerServer ?? 1 }
  return withSessionsStandingBy(clamped(decidedScaling(build)?.spec ?? record.spec, maxServers), places)
}

/** How many servers the build may have by its spec and by the fleet's budget. */
export function maxServersOf({ budgetMax, record }: BuildEntry): number {
  return Math.min(record.spec.max, budgetMax)
}

/** What the scaling policies of the present spec have decided. */
export function decidedScaling({ record, scaling }: BuildEntry): ScalingState | undefined {
  return scaling?.source === record.spec ? scaling : undefined
}

/** Whether the build has the servers that it should have. */
export function readinessOfBuild(build: BuildEntry, maxServers: number): BuildReadiness {
  const { standingBy, max } = scaledSpec(build, maxServers)
  const wanted = Math.max(0, Math.min(standingBy, max - inUse(build)))
  return readinessOf(build.record, { wanted, standingBy: build.buckets.ready.size + build.buckets.unheard.size })
}

/** How many servers of the build so many callers need. */
export function serversForCallers({ candidates }: BuildEntry, callers: number): number {
  return candidates ? serversFor(callers, candidates.placesPerServer) : callers
}

/** Counts the Pending and Initializing servers that are not late. */
export function startingIn({ buckets }: BuildEntry): number {
  const { pending, initializing, outdatedPending, outdatedInitializing } = buckets
  return pending.size + initializing.size + outdatedPending.size + outdatedInitializing.size
}

/** The Pending and Initializing servers that are late. */
export function* lateServers({ buckets }: BuildEntry): Generator<ServerEntry> {
  yield* buckets.outdatedLate
  yield* buckets.late
}

/** The Pending and Initializing servers that are not late. */
export function* startingServers({ buckets }: BuildEntry): Generator<ServerEntry> {
  yield* buckets.pending
  yield* buckets.initializing
  yield* buckets.outdatedPending
  yield* buckets.outdatedInitializing
}

export function* serversOf(build: BuildEntry): Generator<ServerEntry> {
  for (const bucket of Object.values(build.buckets)) yield* bucket
}

/**
 * Counts the servers that are not terminating, separately for the current template and earlier ones. Iterates over all
 * servers, so it must not be used on hot paths.
 */
export function generationsOf(build: BuildEntry): { readonly updated: number; readonly outdated: number } {
  let updated = 0
  let outdated = 0
  for (const entry of serversOf(build)) {
    if (entry.record.state === 'Terminating') continue
    if (runsCurrentTemplate(entry)) updated++
    else outdated++
  }
  return { updated, outdated }
}

/** What the public form of a build says beside its record and counts. Iterates over all servers, like `generationsOf`. */
export function statusOf(build: BuildEntry) {
  const decision = decidedScaling(build)?.decision
  const scaling = decision && {
    standingBy: decision.standingBy,
    decider: decision.decider,
    message: decision.message,
  }
  return { rollout: generationsOf(build), scaling }
}

/** True if the game has said that it has ended the session. Until that is durable, the record has it. */
export function hasEnded({ ends }: ServerEntry, session: Session): boolean {
  return ends !== undefined && ends.some((ended) => endsOne(session, ended))
}

/** True if a session that the record does not have yet is to be written to it. */
export function isBeingAllocated({ places }: ServerEntry): boolean {
  return places.some(({ state }) => state !== 'held')
}

/** The place that a session with this key has taken on the server. */
export function placeOf({ places }: ServerEntry, key: string): Place | undefined {
  return places.length === 0 ? undefined : places.find((place) => place.key === key)
}

/** True if the entry's current record is in the store. */
export function isSaved(entry: ServerEntry): boolean {
  return entry.ends === undefined && entry.record === entry.stored && !isBeingAllocated(entry)
}

/** True if the entry's record or what is being decided about it must be written. */
export function isUnsaved(entry: ServerEntry): boolean {
  return !isSaved(entry) && !entry.recordDeleted
}

/** True if this host knows the state of the record in the store. */
export function isInStore(entry: ServerEntry): boolean {
  return entry.revision !== undefined && !entry.recordDeleted && !isUncertain(entry)
}

/** True if the outcome of an allocation is unknown. */
export function isUncertain(entry: ServerEntry): boolean {
  return entry.places.some(({ granted, state }) => granted !== undefined && state === 'writing')
}

/** A crash counts from the moment it is noticed: while its count is being written, it starts no further server. */
export function isHealthy(build: BuildEntry): boolean {
  const { spec } = build.record
  return (
    spec.crashesToMarkUnhealthy === undefined || buildHealth({ spec, crashes: noticedCrashes(build) }) === 'Healthy'
  )
}

function noticedCrashes({ buckets, record: { crashes, countedCrashes } }: BuildEntry): number {
  let noticed = crashes
  for (const { record, crashCounted } of buckets.terminating) {
    if (record.ending?.crash && !crashCounted && !countedCrashes.includes(record.uid)) noticed++
  }
  return noticed
}

/**
 * True if players may be on the server and the backend has not yet been told to protect it from eviction, or if the server is standing
 * by again and still protected.
 */
export function needsProtectionChange({ backend }: { readonly backend: Backend }, entry: ServerEntry): boolean {
  const { build, isProtected, record } = entry
  if (record.state === 'Active') return !isProtected && backend.protect !== undefined
  if (record.state !== 'StandingBy' || !isProtected || isBeingAllocated(entry)) return false
  return backend.unprotect !== undefined && build.record.spec.eviction !== 'never'
}
