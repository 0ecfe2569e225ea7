/**
 * Callers who wait: served as soon as there is a server, and dismissed when there can be none.
 */
import type { FleetLimits } from '../../../contracts/options.js'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { Host } from '../host.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { buildNameOf, isDisputed, isDraining, type Seen } from './seen.js'

export interface WaitingCall {
  readonly host: Host
  readonly buildID: string
  readonly sessionID: string
  readonly waitMs: number
  readonly since: number
  readonly step: number
  /** It waited already at the last look. */
  waited: boolean
}

/** How late a caller may be told that its time is up. */
const lateMs = 1_000
/** For as long one who was told to ask again is expected back. */
const comesBackMs = 3_000

interface SentAway {
  readonly host: Host
  readonly buildID: string
  readonly at: number
}

export class Waiting {
  readonly #calls = new Set<WaitingCall>()
  /** BuildIDs of which a server was refused, though whoever asked did not wait, in this step. */
  readonly #refused = new Set<string>()
  /** Callers who waited until their time was up, by session. */
  readonly #sentAway = new Map<string, SentAway>()

  /** The buildIDs that each build was ever seen with, by name. */
  readonly #idsOf = new Map<string, Set<string>>()

  /** Somebody came or left since the last look. */
  changed = false

  constructor(
    readonly world: World,
    readonly limits: Pick<FleetLimits, 'maxWaiting'>,
    readonly store: () => StoreModel,
  ) {}

  begin(host: Host, buildID: string, sessionID: string, waitMs: number): WaitingCall {
    const { elapsedMs, steps } = this.world
    const call = { host, buildID, sessionID, waitMs, since: elapsedMs, step: steps, waited: false }
    this.#calls.add(call)
    this.#sentAway.delete(sessionID)
    this.changed = true
    return call
  }

  end(call: WaitingCall, refused: boolean): void {
    this.#calls.delete(call)
    this.changed = true
    if (refused && call.step === this.world.steps) this.#refused.add(call.buildID)
    if (refused && call.waited) this.#sendAway(call)
  }

  /** A new leader expects nobody. */
  elected(): void {
    this.#sentAway.clear()
  }

  /** Nobody waits at a host that is gone. */
  gone(host: Host): void {
    for (const call of this.#calls) if (call.host === host) this.#calls.delete(call)
    for (const [session, away] of this.#sentAway) if (away.host === host) this.#sentAway.delete(session)
  }

  /** Sessions whose time was up, and which may be back in a moment: what is being started for them is not too many. */
  expected(host: Host, buildID: string): number {
    let count = 0
    for (const away of this.#sentAway.values()) {
      if (away.host === host && away.buildID === buildID && this.world.elapsedMs < away.at + comesBackMs) count++
    }
    return count
  }

  /** Sessions that have been waiting for a server of a build for a while: in the waiting room without doubt. */
  patient(host: Host, buildID: string): number {
    const beingWritten = this.store().handing.sessions(host)
    const sessions = new Set<string>()
    for (const call of this.#calls) {
      if (call.host !== host || call.buildID !== buildID || !call.waited) continue
      // Its time is up: it is about to be told, once the write that it waits for is over.
      if (this.world.elapsedMs >= call.since + call.waitMs) continue
      if (!beingWritten.has(call.sessionID)) sessions.add(call.sessionID)
    }
    return sessions.size
  }

  check(seen: Seen, leadsSince: number): void {
    const { host } = seen
    const { handing, servers: records } = this.store()
    const beingWritten = handing.sessions(host)
    /** By session: two calls for one are one in the waiting room. */
    const waiting = new Map<string, WaitingCall>()
    for (const call of this.#calls) {
      if (call.host === host && !beingWritten.has(call.sessionID)) waiting.set(call.sessionID, call)
    }
    const reserved = new Set(handing.reserved(host))
    // Behind a write that is under way a call may have its server already, even one that has ended since.
    const isBehindWrite = ({ status, metadata }: GameServer) => {
      const key = keyOf(metadata)
      const stood = status.state === 'StandingBy' || status.state === 'Terminating'
      return stood && handing.isBusy(host, key) && !reserved.has(key)
    }
    this.#forget(seen)
    this.#remember(seen)
    for (const build of seen.builds) {
      if (isDisputed(build, seen.builds)) continue
      const calls = [...waiting.values()].filter((call) => call.buildID === build.spec.buildID)
      const servers = [...seen.servers.values()].filter((server) => buildNameOf(server) === build.metadata.name)
      const free = servers.find((server) => {
        const key = keyOf(server.metadata)
        // What became of a session that was to be written into a record that was removed by hand, nobody can tell from outside.
        return isReady(server) && !handing.isBusy(host, key) && records.has(key)
      })
      // Whoever has one of a build that was called so before keeps it.
      const mayBeTaken = [...seen.servers.values()].filter(
        (server) => isBehindWrite(server) && this.#idsOf.get(buildNameOf(server))?.has(build.spec.buildID),
      ).length
      const [waits] = calls.length > mayBeTaken ? calls : []
      if (free) this.#checkServed(free, build, waits)
      if (waits && mayBeTaken === 0) this.#checkTime(calls)
    }
    const known = new Set(seen.builds.map((build) => build.spec.buildID))
    // As above: these are told when the write is over; those of a build whose buildID was taken from it have their server.
    let behindWrites = [...seen.servers.values()].filter(isBehindWrite).length
    for (const call of waiting.values()) {
      call.waited = true
      if (known.has(call.buildID) || behindWrites-- > 0) continue
      this.world.breach(`a caller waits for ${call.sessionID} although ${call.buildID} was deleted`)
    }
    for (const call of this.#calls) if (call.host !== host) this.#checkDismissed(call, leadsSince)
    this.changed = false
    this.#refused.clear()
  }

  /** Not who lost the server that it had, nor whose other call goes on. */
  #sendAway({ host, buildID, sessionID, since, waitMs }: WaitingCall): void {
    const { elapsedMs: at } = this.world
    const isElsewhere = [...this.#calls].some((call) => call.sessionID === sessionID)
    // No more are expected than may wait.
    if (this.#sentAway.size >= this.limits.maxWaiting) return
    if (at !== since + waitMs || isElsewhere || this.store().handing.sessions(host).has(sessionID)) return
    this.#sentAway.set(sessionID, { host, buildID, at })
  }

  /** Of a build that is gone, or drained, nobody is to come back; nor of two that claim one buildID. */
  #forget({ builds }: Seen): void {
    const mayExpect = builds.filter((build) => !isDraining(build) && !isDisputed(build, builds))
    const open = new Set(mayExpect.map(({ spec }) => spec.buildID))
    for (const [session, { buildID, at }] of this.#sentAway) {
      if (!open.has(buildID) || this.world.elapsedMs >= at + comesBackMs) this.#sentAway.delete(session)
    }
  }

  #remember({ builds }: Seen): void {
    for (const { metadata, spec } of builds) {
      const ids = this.#idsOf.get(metadata.name)
      if (ids) ids.add(spec.buildID)
      else this.#idsOf.set(metadata.name, new Set([spec.buildID]))
    }
  }

  #checkServed(free: GameServer, build: GameServerBuild, call: WaitingCall | undefined): void {
    const { name } = free.metadata
    if (call) this.world.breach(`a caller waits for ${call.sessionID} although ${name} stands by`)
    if (this.#refused.has(build.spec.buildID)) this.world.breach(`a caller was refused although ${name} stands by`)
  }

  #checkTime(calls: readonly WaitingCall[]): void {
    for (const { sessionID, host, since, waitMs } of calls) {
      const waitedMs = this.world.elapsedMs - Math.max(since + waitMs, host.awakeSince)
      if (waitedMs <= lateMs) continue
      this.world.breach(`a caller waits for ${sessionID} for ${waitedMs} ms longer than the ${waitMs} that it wanted`)
    }
  }

  #checkDismissed({ host, since, sessionID }: WaitingCall, leadsSince: number): void {
    const { handing } = this.store()
    if (host.suspended || handing.sessions(host).has(sessionID) || handing.awaitsAnswer(host)) return
    if (this.world.elapsedMs - Math.max(leadsSince, host.awakeSince, since) <= lateMs) return
    this.world.breach(`a caller waits for ${sessionID} at ${host.name}, which leads no more`)
  }
}

function isReady({ status }: GameServer): boolean {
  return status.state === 'StandingBy' && status.health !== 'Unhealthy' && status.publicIP !== ''
}
