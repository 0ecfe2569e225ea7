/** The hosts of a story: started, crashed, closed, and started again, each in the place of one before. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { FleetEvent } from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import type { FleetOptions } from '../../contracts/options.js'
import type { BackendModel } from './backend-model.js'
import { Host } from './host.js'
import type { Waiting } from './invariants/waiting.js'
import type { Lease } from './lease.js'
import type { StoreModel } from './store-model.js'
import type { World } from './world.js'

const minuteMs = 60_000

export interface HostsParts {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
  readonly waiting: Waiting
}

export interface HostsOptions {
  readonly createFleet: (options: FleetOptions) => Promise<Fleet>
  readonly limits: NonNullable<FleetOptions['limits']>
  readonly heard: (host: Host, event: FleetEvent) => void
}

export class Hosts {
  /** All that are up, suspended ones included. */
  readonly all: Host[] = []
  crashes = 0
  #count = 0

  constructor(
    readonly world: World,
    readonly parts: () => HostsParts,
    readonly options: HostsOptions,
  ) {}

  start(): void {
    const { world } = this
    const { backend, store, lease } = this.parts()
    const { createFleet, limits, heard } = this.options
    const host: Host = new Host(world, `host-${++this.#count}`, (event) => heard(host, event))
    this.all.push(host)
    world.note(`${host.name} starts`)
    const parts = { backend: backend.for(host), store: store.for(host), elector: lease.elector(host) }
    host.start(createFleet, parts, limits).catch((error: unknown) => {
      // As a supervisor would: a host that cannot start is started again.
      world.note(`${host.name} could not start: ${messageOf(error)}`)
      // What it was given can never be.
      if (FleetError.is(error, 'invalid')) return world.fail(error)
      if (host.alive) this.crash(host)
    })
  }

  /** One that answers, mostly the one that leads; undefined when none does. */
  any(): Host | undefined {
    const able = this.all.filter((host) => host.answers)
    const leading = able.find((host) => host === this.parts().lease.leader)
    return leading && !(this.world.faulty && this.world.chance(0.05)) ? leading : (this.world.oneOf(able) ?? leading)
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
    host.stirred = true
    const tooLate = world.after(15 * minuteMs, () => {
      if (host.alive && !host.closed) world.breach(`${host.name} cannot be closed`)
    })
    fleet
      .close()
      .then(() => {
        tooLate()
        host.closed = true
        world.note(`${host.name} is closed`)
        // It has the time to show that it really does nothing any more.
        world.after(10_000, () => (host.alive ? this.#remove(host) : undefined))
      })
      .catch((error: unknown) => world.fail(error))
  }

  /** Gone for good; another one is started in its place. */
  #remove(host: Host): void {
    const { backend, lease, waiting } = this.parts()
    host.crash()
    this.all.splice(this.all.indexOf(host), 1)
    backend.forget(host)
    waiting.gone(host)
    lease.gone(host)
    this.world.after(this.world.between(0, minuteMs), () => this.start())
  }
}
