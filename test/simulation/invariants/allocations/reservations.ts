/**
 * Invariants: a reservation is stored before its caller is answered. Until it lapses, the server is neither allocated to a request that
 * does not name it, nor scaled down or replaced, whichever host leads; and it does not lapse early, but soon after its time.
 *
 * A new leader relies on its wall clock, so a promise counts only while no host's clock jumps.
 */
import type { EventOf, FleetEvent } from '../../../../src/contracts/events.js'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'
import type { FleetSnapshot } from '../snapshot.js'

/** Less than the time that a call may take to be answered. */
const slackMs = 500
/** How long an overdue reservation may be shown by a host that is awake. */
const lapseMs = 5_000

interface Promised {
  readonly ref: Ref
  /** Elapsed ms. */
  readonly until: number
  readonly skewMs: number
  readonly electedAt: number
}

export class Reservations {
  /** By uid. */
  readonly #promised = new Map<string, Promised>()
  /** How often each server, by uid, was reserved again, released or taken. What an earlier call is answered is out of date then. */
  readonly #changes = new Map<string, number>()

  constructor(
    readonly world: World,
    readonly deps: () => { readonly lease: Lease; readonly store: StoreModel },
  ) {}

  async reserve(host: Host, server: Server, forMs: number, call: () => Promise<unknown>): Promise<void> {
    const { lease, store } = this.deps()
    const { elapsedMs: begun, skewMs } = this.world
    // Until the call is answered, the former time may apply, or the new one.
    this.givenUp(server.uid)
    const changes = this.#changes.get(server.uid)
    await call()
    const record = store.servers.get(keyOf(server))?.record
    if (host !== lease.leader || lease.electedAt > begun || record?.uid !== server.uid) return
    if (this.#changes.get(server.uid) !== changes) return
    const until = begun + forMs
    const isOver = this.world.elapsedMs + slackMs >= until || this.world.skewMs !== skewMs
    if (isOver || record.state === 'Active' || record.state === 'Terminating') return
    if (record.reservedUntil === undefined)
      this.world.violate(`not durable: ${server.name} was reserved, which is not in the store`)
    this.#promised.set(server.uid, { ref: server, until, skewMs, electedAt: lease.electedAt })
  }

  /** From now on, the server may be in use or released. */
  givenUp(uid: string): void {
    this.#promised.delete(uid)
    this.#changes.set(uid, (this.#changes.get(uid) ?? 0) + 1)
  }

  eventEmitted(host: Host, event: FleetEvent): void {
    const { lease } = this.deps()
    if (host !== lease.leader) return
    if (event.type === 'Allocated') this.#refuse(event, 'is allocated to a request that does not name it')
    if (event.type === 'ReservationLapsed') this.#refuse(event, 'is not reserved any longer')
    if (event.type === 'ServerEnding') this.#checkEnding(event)
  }

  check({ host, servers }: FleetSnapshot): void {
    const { elapsedMs, skewMs } = this.world
    const isAwake = host.isResponsive && elapsedMs - host.awakeSince > lapseMs
    if (skewMs > 0 || !isAwake || elapsedMs - this.deps().lease.electedAt < lapseMs) return
    for (const { metadata, status } of servers.values()) {
      const lateMs = host.clock().now() - Date.parse(status.reservedUntil ?? '')
      if (lateMs > lapseMs) this.world.violate(`the reservation of ${metadata.name} has not lapsed, ${lateMs} ms late`)
    }
  }

  #checkEnding(event: EventOf<'ServerEnding'>): void {
    const { reason, server } = event
    const record = this.deps().store.servers.get(keyOf(server))?.record
    // Somebody has deleted it, and the reservation with it.
    if (!record) return
    // A server that has not been started cannot be started from an earlier template.
    const isUnstarted = reason === 'Replaced' && record.state === 'Pending'
    const isScaling = reason === 'ScaledDown' || reason === 'Late' || (reason === 'Replaced' && !isUnstarted)
    if (isScaling) this.#refuse(event, `is terminated: ${reason}`)
    this.givenUp(record.uid)
  }

  #refuse({ server }: { readonly server: Ref }, what: string): void {
    const { elapsedMs, skewMs } = this.world
    for (const [uid, promised] of this.#promised) {
      if (keyOf(promised.ref) !== keyOf(server)) continue
      // The wall clock of another leader may differ.
      const isSameClock = skewMs === 0 || promised.electedAt === this.deps().lease.electedAt
      if (promised.skewMs === skewMs && isSameClock && elapsedMs < promised.until) {
        const leftMs = promised.until - elapsedMs
        this.world.violate(`${server.name} ${what}, although it is reserved for another ${leftMs} ms`)
      }
      this.#promised.delete(uid)
    }
  }
}
