/**
 * Invariant: a waiting caller gets the first server that becomes ready and has been heard, an unheard one at the end of its wait, or
 * an error as soon as no server can be expected.
 */
import type { AllocateOptions } from '../../../../src/contracts/fleet.js'
import type { FleetLimits } from '../../../../src/contracts/options.js'
import { type AllocationRequest, keyOf } from '../../../../src/rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../../src/rules/model/wire.js'
import { confirmTimeoutMs } from '../../../../src/rules/model/allocation-request.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { World } from '../../world/world.js'
import { buildNameOf, hasDuplicateBuildID, isDraining, isReady, type FleetSnapshot } from '../snapshot.js'
import type { UnheardServers } from './unheard-servers.js'

export interface WaitingCall {
  readonly host: Host
  /** Undefined for a call that selects servers by their data. */
  readonly buildID: string | undefined
  /** Whether a new server can fit. */
  readonly fitsNew: boolean
  readonly sessionID: string
  readonly waitMs: number
  /** How long the call may take in all if it waits for the game. */
  readonly confirmMs: number | undefined
  readonly since: number
  readonly step: number
  /** Whether the call was waiting at the last check. */
  waited: boolean
  /** Whether the session was allocated at the last check, so that the call waits for its game. */
  waitsForGame: boolean
}

/** How late a timeout may fire. */
const toleranceMs = 1_000
/** How long after its timeout a caller is expected to retry. */
const retryMs = 3_000

interface TimedOutCaller {
  readonly host: Host
  readonly buildID: string | undefined
  readonly fitsNew: boolean
  readonly at: number
}

export class WaitingCallers {
  readonly #calls = new Set<WaitingCall>()
  /** BuildIDs for which a call that does not wait, or no longer, was refused in this step. */
  readonly #refused = new Set<string>()
  /** Callers whose wait timed out, by session. */
  readonly #timedOut = new Map<string, TimedOutCaller>()
  /** Sessions that servers showed at the last check. A call for one of them joins the queue once the end of that session is stored. */
  #shown = new Set<string | undefined>()
  /** All buildIDs that a build has ever had, by build name. */
  readonly #buildIDs = new Map<string, Set<string>>()

  /** Whether a caller arrived or left since the last check. */
  changed = false

  constructor(
    readonly world: World,
    readonly limits: Pick<FleetLimits, 'maxWaiting' | 'maxWaitMs'>,
    readonly store: () => StoreModel,
    readonly unheardServers: Pick<UnheardServers, 'isHeard'>,
  ) {}

  begin(host: Host, request: AllocationRequest, { waitMs, confirm }: AllocateOptions): WaitingCall {
    const { buildID, sessionID } = request
    const fitsNew = mayFitNew(request)
    const { elapsedMs, steps } = this.world
    const confirmMs = confirm ? confirmTimeoutMs(waitMs, this.limits.maxWaitMs) : undefined
    const times = { waitMs: waitMs ?? 0, confirmMs, since: elapsedMs, step: steps }
    const call: WaitingCall = { host, buildID, fitsNew, sessionID, ...times, waited: false, waitsForGame: false }
    this.#calls.add(call)
    this.#timedOut.delete(sessionID)
    this.changed = true
    return call
  }

  end(call: WaitingCall, refused: boolean): void {
    this.#calls.delete(call)
    this.changed = true
    if (!refused) return
    const isTimeout = call.waited && this.#isTimeout(call)
    // A call that has waited and must be confirmed does not get an unheard server.
    const mayTakeUnheard = call.waitMs === 0 || call.confirmMs === undefined
    if ((isTimeout && mayTakeUnheard) || call.step === this.world.steps) {
      if (call.buildID !== undefined) this.#refused.add(call.buildID)
    }
    if (isTimeout) this.#recordTimeout(call)
  }

  /** Forgets expected retries, since a new leader does not know about them. */
  leaderElected(): void {
    this.#timedOut.clear()
  }

  /** Forgets the callers of a host that crashed or was closed, since they no longer wait. */
  hostGone(host: Host): void {
    for (const call of this.#calls) if (call.host === host) this.#calls.delete(call)
    for (const [session, caller] of this.#timedOut) if (caller.host === host) this.#timedOut.delete(session)
  }

  /** Number of timed-out sessions that may retry. Servers that were started for them are not surplus. */
  expectedCount(host: Host, buildID: string): number {
    let count = 0
    for (const caller of this.#timedOut.values()) {
      if (caller.host === host && caller.buildID === buildID && this.world.elapsedMs < caller.at + retryMs) count++
    }
    return count
  }

  /** Number of sessions that are certainly in the wait queue of a build. */
  waitingCount(host: Host, buildID: string): number {
    const inFlight = this.store().allocations.sessionsInFlight(host)
    const sessions = new Set<string>()
    for (const call of this.#calls) {
      if (call.host !== host || call.buildID !== buildID || !call.waited) continue
      // The call has timed out, but its error is delayed by a write in flight.
      if (this.world.elapsedMs >= call.since + call.waitMs) continue
      if (inFlight.has(call.sessionID) || this.#shown.has(call.sessionID)) continue
      if (!this.#isWaitingForGame(call)) sessions.add(call.sessionID)
    }
    return sessions.size
  }

  /** Number of calls that may be demand for any build. */
  selectiveCount(host: Host): number {
    const counted = [...this.#calls, ...this.#timedOut.values()]
    return counted.filter((call) => call.host === host && call.buildID === undefined && call.fitsNew).length
  }

  check(snapshot: FleetSnapshot, electedAt: number): void {
    const { host } = snapshot
    const { allocations, servers: records } = this.store()
    const inFlight = allocations.sessionsInFlight(host)
    /** Keyed by session, since calls for the same session share one place in the queue. */
    const waiting = new Map<string, WaitingCall>()
    for (const call of this.#calls) {
      if (call.host !== host || inFlight.has(call.sessionID)) continue
      if (!this.#isWaitingForGame(call)) waiting.set(call.sessionID, call)
      else if (!this.#isBeingWritten(call)) this.#checkTime([call], call.confirmMs)
    }
    const reserved = new Set(allocations.reserved(host))
    // A call that waits for a write in flight may already have a server, which may even be Terminating by now.
    const isBehindWrite = ({ status, metadata }: GameServer) => {
      const key = keyOf(metadata)
      const mayBeAllocated = status.state === 'StandingBy' || status.state === 'Terminating'
      return mayBeAllocated && allocations.isBusy(host, key) && !reserved.has(key)
    }
    this.#dropExpired(snapshot)
    this.#recordBuildIDs(snapshot)
    this.#shown = new Set([...snapshot.servers.values()].map(({ status }) => status.sessionID))
    for (const build of snapshot.builds) {
      if (hasDuplicateBuildID(build, snapshot.builds)) continue
      // A call for a session that a server shows waits until the end of that session is stored.
      const calls = [...waiting.values()].filter(
        (call) => call.buildID === build.spec.buildID && !this.#shown.has(call.sessionID),
      )
      const servers = [...snapshot.servers.values()].filter((server) => buildNameOf(server) === build.metadata.name)
      const free = servers.filter((server) => {
        const key = keyOf(server.metadata)
        // Ignore servers whose record was deleted externally: the outcome of a write to the record is unknown.
        return isReady(server) && !allocations.isBusy(host, key) && records.has(key)
      })
      // A call also keeps a server whose build had this buildID before.
      const mayBeServed = [...snapshot.servers.values()].filter(
        (server) => isBehindWrite(server) && this.#buildIDs.get(buildNameOf(server))?.has(build.spec.buildID),
      ).length
      const [waitingCall] = calls.length > mayBeServed ? calls : []
      this.#checkServed(free, host, build, waitingCall)
      if (waitingCall && mayBeServed === 0) this.#checkTime(calls)
    }
    const known = new Set(snapshot.builds.map((build) => build.spec.buildID))
    // Calls that wait for a write get their answer when it completes, even if the buildID has changed.
    let behindWrites = [...snapshot.servers.values()].filter(isBehindWrite).length
    for (const call of waiting.values()) {
      call.waited = true
      if (call.buildID === undefined || known.has(call.buildID) || behindWrites-- > 0) continue
      this.world.violate(`a caller is waiting for ${call.sessionID} although build ${call.buildID} was deleted`)
    }
    for (const call of this.#calls) if (call.host !== host) this.#checkDismissed(call, electedAt)
    this.changed = false
    this.#refused.clear()
  }

  /** True if the wait ends now, and neither has the call lost its server nor does another call wait for the same session. */
  #isTimeout({ host, sessionID, since, waitMs }: WaitingCall): boolean {
    const hasOtherCall = [...this.#calls].some((call) => call.sessionID === sessionID)
    const isInFlight = this.store().allocations.sessionsInFlight(host).has(sessionID)
    return this.world.elapsedMs === since + waitMs && !hasOtherCall && !isInFlight
  }

  #recordTimeout({ host, buildID, fitsNew, sessionID }: WaitingCall): void {
    // The fleet expects at most `maxWaiting` retries.
    if (this.#timedOut.size >= this.limits.maxWaiting) return
    this.#timedOut.set(sessionID, { host, buildID, fitsNew, at: this.world.elapsedMs })
  }

  /** Forgets retries that are no longer expected, including those for deleted or draining builds and for duplicate buildIDs. */
  #dropExpired({ builds }: FleetSnapshot): void {
    const expecting = builds.filter((build) => !isDraining(build) && !hasDuplicateBuildID(build, builds))
    const open = new Set(expecting.map(({ spec }) => spec.buildID))
    for (const [session, { buildID, at }] of this.#timedOut) {
      if ((buildID !== undefined && !open.has(buildID)) || this.world.elapsedMs >= at + retryMs)
        this.#timedOut.delete(session)
    }
  }

  #recordBuildIDs({ builds }: FleetSnapshot): void {
    for (const { metadata, spec } of builds) {
      const ids = this.#buildIDs.get(metadata.name)
      if (ids) ids.add(spec.buildID)
      else this.#buildIDs.set(metadata.name, new Set([spec.buildID]))
    }
  }

  #checkServed(free: readonly GameServer[], host: Host, build: GameServerBuild, call: WaitingCall | undefined): void {
    const heard = free.find((server) => this.unheardServers.isHeard(host, server))
    if (call && heard) {
      this.world.violate(`a caller is waiting for ${call.sessionID} although ${heard.metadata.name} is standing by`)
    }
    const [any] = free
    if (any && this.#refused.has(build.spec.buildID))
      this.world.violate(`a caller was refused although ${any.metadata.name} is standing by`)
  }

  /** True if the session has a server, so that the caller is waiting only until its game confirms the session. */
  /** Remains true if the record is deleted externally. */
  #isWaitingForGame(call: WaitingCall): boolean {
    if (call.confirmMs === undefined) return false
    call.waitsForGame ||= [...this.store().servers.values()].some(
      ({ record }) => record.sessions[0]?.id === call.sessionID,
    )
    return call.waitsForGame
  }

  /** True while a write may store the end of the session: the call waits for it, however long it takes. */
  #isBeingWritten({ host, sessionID }: WaitingCall): boolean {
    const { allocations, servers } = this.store()
    return [...servers].some(
      ([key, { record }]) => record.sessions[0]?.id === sessionID && allocations.isBusy(host, key),
    )
  }

  #checkTime(calls: readonly WaitingCall[], timeoutMs?: number): void {
    for (const { sessionID, host, since, waitMs } of calls) {
      const limitMs = timeoutMs ?? waitMs
      const waitedMs = this.world.elapsedMs - Math.max(since + limitMs, host.awakeSince)
      if (waitedMs <= toleranceMs) continue
      this.world.violate(`a caller is waiting for ${sessionID} ${waitedMs} ms beyond its timeout of ${limitMs} ms`)
    }
  }

  #checkDismissed({ host, since, sessionID }: WaitingCall, electedAt: number): void {
    const { allocations } = this.store()
    if (host.suspended || allocations.sessionsInFlight(host).has(sessionID) || allocations.hasPendingCalls(host)) return
    if (this.world.elapsedMs - Math.max(electedAt, host.awakeSince, since) <= toleranceMs) return
    this.world.violate(`a caller is waiting for ${sessionID} at ${host.name}, which is not the leader any more`)
  }
}

/** New servers have no label `last`, and their tickets are counted from 0. */
function mayFitNew({ select }: AllocationRequest): boolean {
  if (!select) return true
  return select.some(
    ({ counters, matchExpressions = [] }) =>
      !counters && matchExpressions.every(({ operator }) => operator !== 'Exists'),
  )
}
