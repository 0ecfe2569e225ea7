/** The hosts in a run. Each host that crashes or is closed is replaced by a new host. */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { FleetEvent } from '../../../src/contracts/events.js'
import type { FleetOptions } from '../../../src/contracts/options.js'
import type { Invariants } from '../invariants/invariants.js'
import type { BackendModel } from '../models/backend-model.js'
import type { ProberModel } from '../models/prober-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { WebhookModel } from '../models/webhook-model.js'
import { type CreateFleet, Host } from './host.js'
import type { Lease } from './lease.js'
import type { World } from './world.js'

const minuteMs = 60_000

export interface HostPoolDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
  readonly webhooks: WebhookModel
  readonly prober: ProberModel
  readonly invariants: Pick<Invariants, 'sessionEnds' | 'waitingCallers'>
}

export interface HostPoolOptions {
  readonly createFleet: CreateFleet
  readonly limits: NonNullable<FleetOptions['limits']>
  readonly onEvent: (host: Host, event: FleetEvent) => void
}

export class HostPool {
  /** All running hosts, including suspended ones. */
  readonly all: Host[] = []
  crashes = 0
  #count = 0

  constructor(
    readonly world: World,
    readonly deps: () => HostPoolDependencies,
    readonly options: HostPoolOptions,
  ) {}

  start(): void {
    const { world } = this
    const { backend, store, lease, webhooks, prober, invariants } = this.deps()
    const { createFleet, limits, onEvent } = this.options
    const host: Host = new Host(
      world,
      `host-${++this.#count}`,
      (event) => onEvent(host, event),
      (event) => invariants.sessionEnds.reported(host, event),
    )
    this.all.push(host)
    world.note(`${host.name} starts`)
    const adapters = {
      ...{ backend: backend.for(host), store: store.for(host), elector: lease.elector(host) },
      askWebhook: webhooks.for(host),
      prober: prober.for(host),
    }
    host.start(createFleet, adapters, limits).catch((error: unknown) => {
      // A host that fails to start is restarted, as a supervisor would do.
      world.note(`${host.name} could not start: ${messageOf(error)}`)
      // A restart cannot help if the options are invalid.
      if (FleetError.is(error, 'invalid')) return world.fail(error)
      if (host.alive) this.crash(host)
    })
  }

  /** Returns a responsive host, mostly the leader, or undefined if there is none. */
  pickResponsive(): Host | undefined {
    const responsive = this.all.filter((host) => host.isResponsive)
    const leading = responsive.find((host) => host === this.deps().lease.leader)
    return leading && !(this.world.faultsEnabled && this.world.chance(0.05))
      ? leading
      : (this.world.oneOf(responsive) ?? leading)
  }

  crash(host: Host): void {
    this.crashes++
    this.#remove(host)
  }

  close(host: Host): void {
    const { world } = this
    const { fleet } = host
    if (!fleet) return this.crash(host)
    host.closing = true
    host.hasNews = true
    const cancelTimeout = world.after(15 * minuteMs, () => {
      if (host.alive && !host.closed) world.violate(`${host.name} cannot be closed`)
    })
    fleet
      .close()
      .then(() => {
        cancelTimeout()
        host.closed = true
        world.note(`${host.name} is closed`)
        // The host process stays up for a while, during which the closed fleet must not act.
        world.after(10_000, () => (host.alive ? this.#remove(host) : undefined))
      })
      .catch((error: unknown) => world.fail(error))
  }

  /** Removes the host and schedules the start of its replacement. */
  #remove(host: Host): void {
    const { backend, lease, invariants } = this.deps()
    host.crash()
    this.all.splice(this.all.indexOf(host), 1)
    backend.disconnect(host)
    invariants.waitingCallers.hostGone(host)
    lease.leave(host)
    this.world.after(this.world.between(0, minuteMs), () => this.start())
  }
}
