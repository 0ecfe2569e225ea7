/**
 * Invariants: seats that were reserved are in the store, no seat is given twice, and no seat is refused because of a hold that must be over.
 * Wall clocks decide when a hold ends, so a promise counts only while no host's clock jumps, and after a jump not beyond its leader.
 */
import { defaultHoldMs, endedNumber } from '../../../../src/rules/lifecycle/server-sessions.js'
import type { FleetError } from '../../../../src/contracts/errors.js'
import type { GameSession } from '../../../../src/contracts/sessions.js'
import type { Heartbeat } from '../../../../src/rules/game/heartbeat.js'
import { keyOf, type Server } from '../../../../src/rules/model/resources.js'
import type { ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'

/** Timers of the fleet and the delay of events. */
const slackMs = 2_000

interface Promised {
  readonly uid: string
  /** Elapsed ms until which the hold lasts at least. */
  readonly until: number
  readonly skewMs: number
  readonly electedAt: number
}

interface Attempt {
  /** The server's, or undefined if the fleet chooses one. */
  readonly uid: string | undefined
  readonly players: readonly string[]
  readonly holdMs: number
  readonly begun: number
  readonly skewMs: number
  /** Elapsed ms at which the call ended. A call to a host that has crashed never does. */
  ended: number | undefined
}

export interface ReservedSeatsDependencies {
  readonly store: StoreModel
  readonly lease: Lease
}

export class ReservedSeats {
  #lastGuest = 0
  readonly #promised = new Map<string, Promised>()
  readonly #attempts = new Set<Attempt>()
  /**
   * The guests whom the game of each server last reported to a leader, by uid, without those whom the leader first heard of when their
   * hold was over: another player may have got the seat.
   */
  readonly #present = new Map<string, readonly string[]>()

  constructor(
    readonly world: World,
    readonly deps: () => ReservedSeatsDependencies,
  ) {}

  newGuest(): string {
    return `guest-${++this.#lastGuest}`
  }

  /** Call before seats are reserved. */
  begin(uid: string | undefined, players: readonly string[], holdMs: number): Attempt {
    const { elapsedMs: begun, skewMs } = this.world
    const attempt = { uid, players, holdMs, begun, skewMs, ended: undefined }
    this.#attempts.add(attempt)
    return attempt
  }

  end(attempt: Attempt): void {
    attempt.ended = this.world.elapsedMs
  }

  /** Call when a host has answered that it holds the seats. Returns false if its answer means nothing any more. */
  granted(host: Host, { sessionID, server, build }: GameSession, attempt: Attempt): boolean {
    const { store, lease } = this.deps()
    const record = store.servers.get(keyOf(server))?.record
    // A host that no longer leads may have been told of a write that the next leader has not read.
    if (host !== lease.leader || lease.electedAt > attempt.begun) return false
    if (record?.sessions[0]?.id !== sessionID || record.state !== 'Active') return false
    const until = attempt.begun + attempt.holdMs
    const { skewMs } = this.world
    if (skewMs !== attempt.skewMs || this.world.elapsedMs + slackMs >= until) return false
    for (const player of attempt.players) {
      if (!record.sessions[0].holds?.some((hold) => hold.player === player))
        this.world.violate(`not durable: the stored record of ${record.name} holds no seat for ${player}`)
      this.#promised.set(player, { uid: record.uid, until, skewMs, electedAt: lease.electedAt })
    }
    const current = store.builds.get(keyOf(build))?.record
    // A build that was deleted and created again may have another number of seats.
    const total = current?.uid === record.buildUid ? current.spec.seatsPerSession : undefined
    const given = this.#givenOn(record.uid)
    if (total !== undefined && given.length > total)
      this.world.violate(`${record.name} has ${total} seats, but ${given.length} were given: ${given.join(', ')}`)
    return true
  }

  /** Call when a host has answered that the session of this server has no room, or none has if `server` is undefined. */
  refused(host: Host, server: Server | undefined, attempt: Attempt, { details, message }: FleetError): void {
    this.#attempts.delete(attempt)
    if (!server) return
    const { lease, store } = this.deps()
    const record = store.servers.get(keyOf(server))?.record
    const isSame = record?.uid === server.uid && record.sessions[0]?.id === server.sessions[0]?.id
    if (host !== lease.leader || !isSame || this.world.skewMs > 0) return
    const { elapsedMs, wallMs } = this.world
    const players = new Set<string>()
    for (const { uid, players: asked, holdMs, ended } of this.#attempts) {
      const mayBeParked = (ended ?? elapsedMs) + holdMs + slackMs >= elapsedMs
      if ((uid === undefined || uid === server.uid) && mayBeParked) for (const player of asked) players.add(player)
    }
    const isNew = wallMs - (record?.reachedActiveOn ?? 0) <= defaultHoldMs + slackMs
    const most = players.size + (isNew ? (record?.sessions[0]?.initialPlayers.length ?? 0) : 0)
    if (Number(details?.['held']) > most)
      this.world.violate(
        `${server.name} holds seats for players who did not come: at most ${most} may be held, but ${message}`,
      )
  }

  /** Call when a host has answered a heartbeat. */
  playersReported(by: Host, { spec }: ModelInstance, { endedSession, players }: Heartbeat): void {
    const { lease, store } = this.deps()
    if (by !== lease.leader) return
    const record = store.servers.get(keyOf(spec.ref))?.record
    // It was sent before the last session ended.
    if ((endedSession?.number ?? 0) < (record ? endedNumber(record) : 0)) return
    const before = this.#present.get(spec.uid) ?? []
    const guests = players.filter((player) => before.includes(player) || this.isPromised(player))
    this.#present.set(spec.uid, guests)
    // They have come, so their seats are free once they leave.
    for (const player of players) this.#promised.delete(player)
  }

  givenUp(players: readonly string[]): void {
    for (const player of players) this.#promised.delete(player)
  }

  /** True while a seat must be held for the player. */
  isPromised(player: string): boolean {
    const { elapsedMs, skewMs } = this.world
    const promised = this.#promised.get(player)
    if (!promised || promised.until <= elapsedMs || promised.skewMs !== skewMs) return false
    return skewMs === 0 || promised.electedAt === this.deps().lease.electedAt
  }

  /** Called when a server's record is written. */
  serverWritten(before: Server | undefined, after: Server): void {
    if (before?.sessions[0] && !after.sessions[0]) this.sessionEnded(after.uid)
  }

  /** Called when a game ends its session and goes on, and when the store has that. */
  sessionEnded(uid: string): void {
    this.#present.delete(uid)
    for (const [player, promised] of this.#promised) if (promised.uid === uid) this.#promised.delete(player)
  }

  serverRemoved({ uid }: Server): void {
    this.sessionEnded(uid)
  }

  /** Call once nothing changes any more. */
  checkSettled(host: Host): void {
    const now = host.clock().now()
    for (const { record } of this.deps().store.servers.values()) {
      if (record.state !== 'Active') continue
      for (const { player, until } of record.sessions[0]?.holds ?? [])
        if (until + slackMs < now) this.world.violate(`${record.name} still has a hold for ${player}, which is over`)
    }
  }

  /** The players who have a seat of this server for certain. */
  #givenOn(uid: string): readonly string[] {
    const given = new Set(this.#present.get(uid))
    for (const [player, promised] of this.#promised)
      if (promised.uid === uid && this.isPromised(player)) given.add(player)
    return [...given]
  }
}
