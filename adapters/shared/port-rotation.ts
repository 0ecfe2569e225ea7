/** What the port pools of all backends share: the rotation through a range, and ports that other programs hold. */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../src/rules/model/ports.js'

/** Continues after the port taken last, so that a released port is reused as late as possible. */
export class PortRotation {
  readonly range: PortRange
  #last: number

  constructor(range: PortRange) {
    this.range = range
    this.#last = range.first - 1
  }

  /** `count` ports that are not in `held`, or undefined when there are fewer. */
  take(count: number, held: ReadonlySet<number>): readonly number[] | undefined {
    const taken: number[] = []
    if (count === 0) return taken
    for (const port of this.candidates(held)) {
      if (taken.push(port) < count) continue
      this.advance(port)
      return taken
    }
    return undefined
  }

  /** Every port that is not in `held`, in the order to try them. */
  candidates(held: ReadonlySet<number>): Generator<number> {
    return candidatePorts(this.range, held, this.#last)
  }

  advance(port: number): void {
    this.#last = port
  }
}

const foreignMs = 60_000

/** Ports that turned out to be held by something outside the fleet; each is avoided for a minute. */
export class ForeignPorts {
  readonly #clock: Clock
  /** Elapsed ms until which each port is avoided. */
  readonly #until = new Map<number, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  mark(ports: readonly number[]): void {
    for (const port of ports) this.#until.set(port, this.#clock.elapsed() + foreignMs)
  }

  current(): ReadonlySet<number> {
    const now = this.#clock.elapsed()
    for (const [port, until] of this.#until) if (until <= now) this.#until.delete(port)
    return new Set(this.#until.keys())
  }
}

/** `detail` says what holds the ports. */
export function portsExhausted({ first, last }: PortRange, count: number, detail: string): FleetError {
  return new FleetError(
    'ports-exhausted',
    `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ${detail}`,
  )
}
