/** Counts the servers of a simulated fleet over time. */
import type { Clock, Fleet, ServerState } from '../../index.js'

export class ServerHours {
  /** The most servers at the same time since `begin`. Servers that are ending do not count, as in `max`. */
  peak = 0
  readonly #clock: Clock
  readonly #states = new Map<string, ServerState>()
  readonly #ms = { idle: 0, active: 0 }
  #active = 0
  #countedAt = 0
  #isCounting = false

  constructor(clock: Clock, fleet: Fleet) {
    this.#clock = clock
    fleet.on('ServerCreated', ({ server }) => this.#set(server.name, 'Pending'))
    fleet.on('ServerStateChanged', ({ server, to }) => this.#set(server.name, to === 'Terminating' ? undefined : to))
    fleet.on('ServerRemoved', ({ server }) => this.#set(server.name, undefined))
  }

  /** Hours of servers without a match: starting or standing by. */
  get idle(): number {
    return this.#ms.idle / 3_600_000
  }

  get active(): number {
    return this.#ms.active / 3_600_000
  }

  begin(): void {
    this.#countedAt = this.#clock.elapsed()
    this.peak = this.#states.size
    this.#isCounting = true
  }

  end(): void {
    this.#count()
    this.#isCounting = false
  }

  #set(name: string, state: ServerState | undefined): void {
    this.#count()
    if (this.#states.get(name) === 'Active') this.#active--
    if (state === 'Active') this.#active++
    if (state === undefined) this.#states.delete(name)
    else this.#states.set(name, state)
    if (this.#isCounting) this.peak = Math.max(this.peak, this.#states.size)
  }

  /** Adds the time since the last change. */
  #count(): void {
    const now = this.#clock.elapsed()
    const ms = this.#isCounting ? now - this.#countedAt : 0
    this.#ms.active += ms * this.#active
    this.#ms.idle += ms * (this.#states.size - this.#active)
    this.#countedAt = now
  }
}
