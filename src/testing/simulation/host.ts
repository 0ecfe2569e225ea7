/**
 * One host process of the simulation: the real fleet over the modelled store and backend. It can crash at any moment,
 * which is any await point of the engine, be closed, be suspended, and have a clock that jumps.
 */
import type { Backend } from '../../backend.js'
import type { Clock } from '../../clock.js'
import type { Elector } from '../../elector.js'
import type { FleetEvent } from '../../events.js'
import type { Fleet } from '../../fleet.js'
import type { FleetOptions } from '../../options.js'
import type { Store } from '../../store.js'
import type { World } from './world.js'

export interface HostParts {
  readonly backend: Backend
  readonly store: Store
  readonly elector: Elector
}

/** A shorter absence than this may go unnoticed: then nobody is forgiven for having been unheard meanwhile. */
const noticedMs = 4_000

export class Host {
  alive = true
  closing = false
  /** Its fleet has said that it let go of everything. */
  closed = false
  /** What it was last told by its elector. */
  leads = false
  fleet: Fleet | undefined
  /** Elapsed ms since which it runs without a break. */
  awakeSince: number
  /** Elapsed ms since which it hears, and knows that it did not before. */
  hearsSince: number
  /** Code of this host has run since somebody last looked. */
  stirred = true
  #suspendedUntil = 0
  #wallJumpMs = 0
  #late: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly name: string,
    readonly heard: (event: FleetEvent) => void,
  ) {
    this.awakeSince = world.elapsedMs
    this.hearsSince = world.elapsedMs
  }

  get suspended(): boolean {
    return this.world.elapsedMs < this.#suspendedUntil
  }

  /** Takes calls. */
  get answers(): boolean {
    return this.alive && !this.suspended && !this.closing && this.fleet !== undefined
  }

  /** Does something as this host: never once it has crashed, late while it is suspended. */
  run(fn: () => void): void {
    if (!this.alive) return
    if (this.suspended) {
      this.#late.push(fn)
      return
    }
    this.stirred = true
    fn()
  }

  clock(): Clock {
    const { world } = this
    return {
      now: () => 1_700_000_000_000 + world.elapsedMs + this.#wallJumpMs,
      elapsed: () => world.elapsedMs,
      after: (ms, fn) => {
        // Cancelled is cancelled, also when it is due and waits for the host to wake up.
        let due: (() => void) | undefined = fn
        const cancel = world.after(ms, () => this.run(() => due?.()))
        return () => {
          due = undefined
          cancel()
        }
      },
      randomBytes: (count) => world.bytes(count),
    }
  }

  async start(
    createFleet: (options: FleetOptions) => Promise<Fleet>,
    parts: HostParts,
    limits: NonNullable<FleetOptions['limits']>,
  ): Promise<void> {
    const fleet = await createFleet({ ...parts, limits, clock: this.clock(), agent: { mounted: 'agent:56001' } })
    if (!this.alive) return
    this.fleet = fleet
    fleet.on('*', (event) => {
      if (!this.alive) return
      this.stirred = true
      if (event.type !== 'PlayersChanged') this.world.note(`${this.name}: ${event.type}: ${event.message}`)
      this.heard(event)
    })
  }

  /** It is about to change something outside. */
  acts(where: string): void {
    if (this.closed) this.world.breach(`${this.name} changes the ${where} after its fleet was closed`)
    else if (!this.leads) this.world.breach(`${this.name} changes the ${where}, and does not lead`)
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
    this.#suspendedUntil = Math.max(this.#suspendedUntil, this.world.elapsedMs + ms)
    this.world.after(ms, () => {
      if (this.suspended) return
      this.awakeSince = this.world.elapsedMs
      if (ms >= noticedMs) this.hearsSince = this.world.elapsedMs
      const late = this.#late
      this.#late = []
      for (const fn of late) this.world.after(0, () => this.run(fn))
    })
  }

  jumpWall(ms: number): void {
    this.#wallJumpMs += ms
  }
}
