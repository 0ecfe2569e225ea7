/**
 * One host process of the simulation: the real fleet over the modelled store and backend. It can crash at any moment,
 * which is any await point of the engine, be closed, be suspended, and have a clock that jumps.
 */
import type { Backend } from '../../contracts/backend.js'
import type { Clock } from '../../contracts/clock.js'
import type { Elector } from '../../contracts/elector.js'
import type { FleetEvent } from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import type { FleetOptions } from '../../contracts/options.js'
import type { Store } from '../../contracts/store.js'
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
  /** It has told of something, or was asked for something, since somebody last looked. */
  stirred = true
  #suspendedSince = 0
  #suspendedUntil = 0
  suspended = false
  #wallJumpMs = 0
  #late: (() => void)[] = []
  /** To be done as it wakes up. */
  #first: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly name: string,
    readonly heard: (event: FleetEvent) => void,
  ) {
    this.awakeSince = world.elapsedMs
    this.hearsSince = world.elapsedMs
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
    fn()
  }

  clock(): Clock {
    const { world } = this
    return {
      now: () => world.wallMs + this.#wallJumpMs,
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
    const fleet = await createFleet({ ...parts, limits, clock: this.clock(), agent: { external: 'agent:56001' } })
    if (!this.alive) return
    this.fleet = fleet
    fleet.on('*', (event) => {
      if (!this.alive) return
      if (event.type !== 'PlayersChanged') {
        this.stirred = true
        this.world.note(`${this.name}: ${event.type}: ${event.message}`)
      }
      this.heard(event)
    })
  }

  /** It is about to change something outside. */
  acts(where: string): void {
    this.stirred = true
    if (this.closed) this.world.breach(`${this.name} changes the ${where} after its fleet was closed`)
    else if (!this.leads) this.world.breach(`${this.name} changes the ${where}, and does not lead`)
  }

  /** As `run`, but before all that has been waiting for it to wake up, and before anybody else finds it awake. */
  runFirst(fn: () => void): void {
    if (this.alive && this.suspended) this.#first.push(fn)
    else this.run(fn)
  }

  /** From now on it does nothing and hears nothing. What it had asked for may still happen. */
  crash(): void {
    this.alive = false
    this.fleet = undefined
    this.#late = []
    this.#first = []
  }

  suspend(ms: number): void {
    const { elapsedMs } = this.world
    if (!this.suspended) this.#suspendedSince = elapsedMs
    this.suspended = true
    this.#suspendedUntil = Math.max(this.#suspendedUntil, elapsedMs + ms)
    this.world.after(ms, () => {
      if (this.world.elapsedMs >= this.#suspendedUntil) this.wake()
    })
  }

  wake(): void {
    if (!this.suspended) return
    const { elapsedMs } = this.world
    this.suspended = false
    this.awakeSince = elapsedMs
    if (elapsedMs - this.#suspendedSince >= noticedMs) this.hearsSince = elapsedMs
    for (const fn of this.#first.splice(0)) this.run(fn)
    for (const fn of this.#late.splice(0)) this.world.after(0, () => this.run(fn))
  }

  jumpWall(ms: number): void {
    this.world.skewMs += Math.abs(ms)
    this.#wallJumpMs += ms
  }
}
