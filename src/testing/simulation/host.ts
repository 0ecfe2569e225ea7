/**
 * One host process of the simulation: the real fleet over the modelled store and backend. It can crash at any moment,
 * which is any await point of the engine, be suspended, and have a clock that jumps.
 */
import type { Backend } from '../../backend.js'
import type { Clock } from '../../clock.js'
import type { Elector } from '../../elector.js'
import type { Fleet } from '../../fleet.js'
import type { FleetOptions } from '../../options.js'
import type { Store } from '../../store.js'
import type { World } from './world.js'

export class Host {
  alive = true
  fleet: Fleet | undefined
  #suspendedUntil = 0
  #wallJumpMs = 0
  #late: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly name: string,
  ) {}

  get suspended(): boolean {
    return this.world.elapsedMs < this.#suspendedUntil
  }

  /** Does something as this host: never once it has crashed, late while it is suspended. */
  run(fn: () => void): void {
    if (!this.alive) return
    if (this.suspended) this.#late.push(fn)
    else fn()
  }

  clock(): Clock {
    const { world } = this
    return {
      now: () => 1_700_000_000_000 + world.elapsedMs + this.#wallJumpMs,
      elapsed: () => world.elapsedMs,
      after: (ms, fn) => world.after(ms, () => this.run(fn)),
      randomBytes: (count) => world.bytes(count),
    }
  }

  async start(
    createFleet: (options: FleetOptions) => Promise<Fleet>,
    parts: { readonly backend: Backend; readonly store: Store; readonly elector: Elector },
    limits: NonNullable<FleetOptions['limits']>,
  ): Promise<void> {
    const fleet = await createFleet({ ...parts, limits, clock: this.clock(), agent: { mounted: 'agent:56001' } })
    if (!this.alive) return
    this.fleet = fleet
    fleet.on('*', (event) => {
      if (event.type !== 'PlayersChanged') this.world.note(`${this.name}: ${event.type}: ${event.message}`)
    })
  }

  /** As `run`, but before all that has been waiting for it to wake up. */
  runFirst(fn: () => void): void {
    if (this.alive && this.suspended) this.#late.unshift(fn)
    else this.run(fn)
  }

  /** From now on it does nothing and hears nothing. What it had asked for may still happen. */
  crash(): void {
    this.alive = false
    this.fleet = undefined
    this.#late = []
  }

  suspend(ms: number): void {
    this.#suspendedUntil = this.world.elapsedMs + ms
    this.world.after(ms, () => {
      const late = this.#late
      this.#late = []
      for (const fn of late) this.world.after(0, () => this.run(fn))
    })
  }

  jumpWall(ms: number): void {
    this.#wallJumpMs += ms
  }
}
