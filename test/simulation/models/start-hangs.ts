/** Decides which instances stay pending for long or for ever, and which port of the range something else holds in this run. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import type { World } from '../world/world.js'

export class StartHangs {
  /** The probability that an instance hangs. */
  readonly #rate: number
  /** The port that something else holds. An instance that gets it never runs, even after the last fault. */
  readonly heldPort: number | undefined

  constructor(
    readonly world: World,
    range: PortRange,
  ) {
    this.#rate = world.oneOf([0, 0, 0.05, 0.3]) ?? 0
    this.heldPort = world.chance(0.3) ? world.between(range.first, range.last) : undefined
  }

  /** Whether starts may hang in this run. */
  get any(): boolean {
    return this.#rate > 0 || this.heldPort !== undefined
  }

  /** Returns how long an instance with these ports hangs in ms, possibly for ever. */
  durationMs(ports: Instance['ports']): number {
    if (ports.some((port) => port.public === this.heldPort)) return Infinity
    if (!this.world.faultsEnabled || !this.world.fault('backend: start hangs', this.#rate)) return 0
    return this.world.chance(0.5) ? Infinity : this.world.between(15_000, 120_000)
  }
}
