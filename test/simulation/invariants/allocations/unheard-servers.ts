/** Invariant: a server that the leader has not heard is not allocated while one that it has heard is ready. */
import { keyOf } from '../../../../src/rules/model/resources.js'
import type { GameServer } from '../../../../src/rules/model/wire.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'
import type { Selections } from './selections.js'
import { buildNameOf, type FleetSnapshot, isReady } from '../snapshot.js'

export interface UnheardServersDependencies {
  readonly store: StoreModel
  readonly lease: Lease
}

interface Heartbeat {
  readonly by: Host
  readonly at: number
}

export class UnheardServers {
  /** The last heartbeat of each server that an engine received, by uid. */
  readonly #heartbeats = new Map<string, Heartbeat>()

  constructor(
    readonly world: World,
    readonly deps: () => UnheardServersDependencies,
    readonly selections: Pick<Selections, 'isSelective'>,
  ) {}

  heartbeatReceived(by: Host, uid: string): void {
    this.#heartbeats.set(uid, { by, at: this.world.elapsedMs })
  }

  /** True if an engine of this host has ever received a heartbeat of the server, and no other host has since. */
  hasHeard(host: Host, uid: string): boolean {
    return this.#heartbeats.get(uid)?.by === host
  }

  /** True if the leader must have recorded that it has heard the server, whether it noticed its last suspension or not. */
  isHeard(host: Host, server: GameServer): boolean {
    const heartbeat = this.#lastOf(server)
    return heartbeat?.by === host && heartbeat.at > Math.max(this.deps().lease.electedAt, host.awakeSince)
  }

  check({ host, servers }: FleetSnapshot): void {
    const { allocations, servers: records } = this.deps().store
    for (const key of allocations.begunNow(host)) {
      const allocated = servers.get(key)
      // Of games without an SDK, the fleet hears itself.
      if (!allocated || this.world.probedBuilds.includes(buildNameOf(allocated)) || !this.#isUnheard(host, allocated))
        continue
      // Perhaps no server that has been heard fits.
      const session = allocations.sessionOn(host, key)
      if (session !== undefined && this.selections.isSelective(session)) continue
      const passedOver = [...servers.values()].find((other) => {
        const otherKey = keyOf(other.metadata)
        if (buildNameOf(other) !== buildNameOf(allocated) || !isReady(other)) return false
        // A server that was heard or released in this step may not have been ready when the other one was chosen.
        const isNews = this.#lastOf(other)?.at === this.world.elapsedMs || allocations.wasJustReleased(otherKey)
        return this.isHeard(host, other) && !isNews && records.has(otherKey) && !allocations.isBusy(host, otherKey)
      })
      if (!passedOver) continue
      const [chosen, other] = [allocated.metadata.name, passedOver.metadata.name]
      this.world.violate(`${chosen} is allocated although ${host.name} has not heard it and ${other} is ready`)
    }
  }

  /** True if the leader has certainly not heard the server. */
  #isUnheard(host: Host, server: GameServer): boolean {
    const heartbeat = this.#lastOf(server)
    const since = Math.max(this.deps().lease.electedAt, host.listeningSince)
    return heartbeat === undefined || heartbeat.by !== host || heartbeat.at < since
  }

  #lastOf({ metadata }: GameServer): Heartbeat | undefined {
    const record = this.deps().store.servers.get(keyOf(metadata))?.record
    return record && this.#heartbeats.get(record.uid)
  }
}
