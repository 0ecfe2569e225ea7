/**
 * Invariants: an announcement of maintenance is stored before it succeeds. From then on, every answer to a heartbeat of the server
 * contains its time, whichever host leads.
 */
import type { MaintenanceResult } from '../../../src/contracts/fleet.js'
import type { HeartbeatAnswer } from '../../../src/rules/game/heartbeat.js'
import { keyOf, type Server } from '../../../src/rules/model/resources.js'
import type { ModelInstance } from '../models/backend-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { Host } from '../world/host.js'
import type { Lease } from '../world/lease.js'
import type { World } from '../world/world.js'

export class Maintenance {
  /** The announced time of each server by uid, in ms. */
  readonly #times = new Map<string, number>()
  /** Uids of servers with an announcement of their own, which may also have failed. */
  readonly #own = new Set<string>()
  #isNodeAnnounced = false

  constructor(
    readonly world: World,
    readonly deps: () => { readonly lease: Lease; readonly store: StoreModel },
  ) {}

  /**
   * Runs an operator's announcement to a server or, without one, to the only node. Each is announced at most once, because the
   * outcome of a later announcement would not be certain.
   */
  async announce(
    host: Host,
    server: Server | undefined,
    at: number,
    call: () => Promise<MaintenanceResult>,
  ): Promise<void> {
    if (server ? this.#own.has(server.uid) : this.#isNodeAnnounced) return
    if (server) this.#own.add(server.uid)
    else this.#isNodeAnnounced = true
    if (server) this.#times.delete(server.uid)
    const { lease, store } = this.deps()
    const { electedAt } = lease
    const { servers } = await call()
    // The next leader may have read the store before a write of its predecessor. A terminating server gets no announcement.
    if (lease.leader !== host || lease.electedAt !== electedAt || servers === 0) return
    if (server) {
      this.#times.set(server.uid, at)
      return this.#checkDurable(server, at)
    }
    for (const { record } of store.servers.values()) {
      if (record.maintenance?.at === at && !this.#own.has(record.uid)) this.#times.set(record.uid, at)
    }
  }

  /** Called when a host has removed the record. A late creation may then still take effect: the server is there again, and new. */
  serverRemoved({ uid }: Server): void {
    this.#times.delete(uid)
  }

  #checkDurable(server: Server, at: number): void {
    const record = this.deps().store.servers.get(keyOf(server))?.record
    if (record?.uid !== server.uid || record.maintenance?.at === at) return
    this.world.violate(`not durable: maintenance of ${server.name} was announced, which is not in the store`)
  }

  /** Called when the leader, which has read the store, answers a heartbeat. */
  answered({ spec }: ModelInstance, { operation, maintenance }: HeartbeatAnswer): void {
    const at = this.#times.get(spec.uid)
    if (at === undefined || operation === 'Terminate') return
    const record = this.deps().store.servers.get(keyOf(spec.ref))?.record
    if (record?.uid !== spec.uid) return
    const expected = `${new Date(at).toISOString().slice(0, 19)}Z`
    const found = maintenance?.nextScheduledMaintenanceUtc
    if (found === expected) return
    this.world.violate(
      `an announcement was lost: the answer to ${spec.ref.name} has the time ${found ?? 'none'}, not ${expected}`,
    )
  }
}
