/**
 * Invariants: a session in which the game has reported a player never ends as `Unclaimed`, and a session without players does not outlast
 * `claimSeconds` while its leader hears its game.
 */
import { endedNumber } from '../../../../src/rules/lifecycle/server-sessions.js'
import type { EventOf } from '../../../../src/contracts/events.js'
import type { Heartbeat } from '../../../../src/rules/game/heartbeat.js'
import { keyOf, type Server } from '../../../../src/rules/model/resources.js'
import type { GameServer } from '../../../../src/rules/model/wire.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'
import { buildNameOf, type FleetSnapshot } from '../snapshot.js'

/** Several heartbeats, some of which may be lost. */
const reactionMs = 20_000

interface Report {
  readonly by: Host
  readonly session: string | undefined
  readonly at: number
}

/** How long a session has been without players while the leader could hear its game. */
interface Unclaimed {
  readonly session: string | undefined
  readonly seconds: number
  readonly since: number
}

export interface ClaimsDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
}

export class Claims {
  /** The last report of a player of each session, by the server's uid. */
  readonly #reports = new Map<string, Report>()
  /** Elapsed ms at which the store first had a player of each server, by key. */
  readonly #stored = new Map<string, number>()
  #unclaimed = new Map<string, Unclaimed>()

  constructor(
    readonly world: World,
    readonly deps: () => ClaimsDependencies,
  ) {}

  /** Called when a host has answered a heartbeat with players. */
  playersReported(by: Host, { spec }: ModelInstance, { endedSession }: Heartbeat): void {
    const { lease, store } = this.deps()
    const record = store.servers.get(keyOf(spec.ref))?.record
    if (by !== lease.leader || record?.uid !== spec.uid || record.state !== 'Active') return
    // It was sent before the last session ended.
    if ((endedSession?.number ?? 0) < endedNumber(record)) return
    this.#reports.set(spec.uid, { by, session: sessionOf(record), at: this.world.elapsedMs })
  }

  /** Called when the detail of a server is written. */
  detailWritten(key: string, players: readonly string[]): void {
    if (players.length > 0 && !this.#stored.has(key)) this.#stored.set(key, this.world.elapsedMs)
  }

  /** Called when a server's record is written. */
  serverWritten(before: Server | undefined, after: Server): void {
    if (before?.sessions[0] && !after.sessions[0]) this.#stored.delete(keyOf(after))
  }

  /** Called when a server's detail is removed. */
  detailRemoved(key: string): void {
    this.#stored.delete(key)
  }

  /** Says why a session must not end as `Unclaimed`, or undefined. */
  objectionTo(host: Host, { server }: EventOf<'ServerEnding'>, uid: string): string | undefined {
    const { lease, store } = this.deps()
    const { electedAt } = lease
    const report = this.#reports.get(uid)
    const session = sessionOf(store.servers.get(keyOf(server))?.record)
    if (report?.by === host && report.session === session && report.at > electedAt)
      return 'its game has reported a player'
    // A former leader may have stored it after this one read the store.
    if ((this.#stored.get(keyOf(server)) ?? Infinity) < electedAt)
      return 'its game had reported a player before a restart'
    return undefined
  }

  check({ host, builds, servers }: FleetSnapshot): void {
    const { world } = this
    const { lease } = this.deps()
    const unclaimed = new Map<string, Unclaimed>()
    for (const [key, server] of servers) {
      const seconds = builds.find(({ metadata }) => metadata.name === buildNameOf(server))?.spec.claimSeconds
      if (seconds === undefined || server.status.state !== 'Active' || !this.#mustLapse(key, server)) continue
      const before = this.#unclaimed.get(key)
      const { sessionID: session } = server.status
      const isSame = before?.session === session && before?.seconds === seconds
      const since = isSame && before ? before.since : world.elapsedMs
      unclaimed.set(key, { session, seconds, since })
      const counted = world.elapsedMs - Math.max(since, host.leadsSince, host.awakeSince)
      if (host !== lease.leader || host.suspended || counted <= seconds * 1000 + reactionMs) continue
      world.violate(`${server.metadata.name} had no player for ${counted} ms, and its build allows ${seconds} s`)
    }
    this.#unclaimed = unclaimed
  }

  /**
   * True if its game sends heartbeats and has never reported a player. A game that has ended its session waits for that to be
   * stored. In the store, a player may be of an earlier session.
   */
  #mustLapse(key: string, { status }: GameServer): boolean {
    const game = this.deps().backend.instances.get(key)?.game
    if (!game?.running || status.sessionID === undefined || game.hasEndedSession(status.sessionID)) return false
    // Its answers to probes may be lost for long.
    if (game.deps.isProbed) return false
    const isSteady = !['stalls', 'backs-off', 'silent'].includes(game.behavior)
    return isSteady && game.players.length === 0 && !game.hadPlayers && !this.deps().store.details.has(key)
  }
}

/** Distinguishes a session from a later one with the same sessionID on the same server. */
function sessionOf(record: Server | undefined): string | undefined {
  return record?.sessions[0] && `${record.sessions[0].id} after ${endedNumber(record)}`
}
