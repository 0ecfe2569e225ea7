/**
 * Code shared by the port pools of all backends: rotation through a port range, and a record of ports that other programs
 * hold.
 */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { candidatePorts, isPort, type PortRange } from '../../src/rules/model/ports.js'
import type { PortPair } from '../../src/rules/model/resources.js'

/** Starts after the last port taken, so that a released port is reused as late as possible. */
export class PortRotation {
  readonly range: PortRange
  #last: number

  constructor(range: PortRange) {
    this.range = range
    this.#last = range.first - 1
  }

  /** Returns `count` ports that are not in `held`, or undefined if there are not enough. */
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

  /** All ports that are not in `held`, in the order in which to try them. */
  candidates(held: ReadonlySet<number>): Generator<number> {
    return candidatePorts(this.range, held, this.#last)
  }

  advance(port: number): void {
    this.#last = port
  }
}

const foreignMs = 60_000

/** Ports found to be in use outside the fleet; each one is avoided for a while, by default a minute. */
export class ForeignPorts {
  readonly #clock: Clock
  readonly #avoidMs: number
  /** Elapsed ms until which each port is avoided, by port. */
  readonly #until = new Map<number, number>()

  constructor(clock: Clock, avoidMs = foreignMs) {
    this.#clock = clock
    this.#avoidMs = avoidMs
  }

  mark(ports: readonly number[]): void {
    for (const port of ports) this.#until.set(port, this.#clock.elapsed() + this.#avoidMs)
  }

  current(): ReadonlySet<number> {
    const now = this.#clock.elapsed()
    for (const [port, until] of this.#until) if (until <= now) this.#until.delete(port)
    return new Set(this.#until.keys())
  }
}

/** `detail` says what is using the ports. */
export function portsExhausted({ first, last }: PortRange, count: number, detail: string): FleetError {
  return new FleetError(
    'ports-exhausted',
    `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ${detail}`,
  )
}

// Converts port pairs to and from the text stored in labels and annotations, such as `7777:10000,7778:10001`.

export function formatPortPairs(ports: readonly PortPair[]): string {
  return ports.map((port) => `${port.container}:${port.public}`).join(',')
}

/** Returns undefined if the text is malformed. */
export function parsePortPairs(text: unknown): readonly PortPair[] | undefined {
  if (typeof text !== 'string') return undefined
  const pairs = text === '' ? [] : text.split(',').map((pair) => pair.split(':').map(Number))
  const ports = pairs.map(([container, number]) => ({ container: container ?? 0, public: number ?? 0 }))
  return ports.every((port) => isPort(port.container) && isPort(port.public)) ? ports : undefined
}
