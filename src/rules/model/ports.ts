/** Public ports: the range from which they are assigned, the order in which they are tried, and their names. Pure. */
import { closestName } from '../validation/closest-name.js'
import { type Checked, invalid, shown, valid } from '../validation/problem.js'
import type { PortPair } from './resources.js'
import type { AllocatedPort } from './wire.js'

/** A range of ports, including both ends. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

export const minPort = 1
export const maxPort = 65_535

export function isPort(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= minPort && Number(value) <= maxPort
}

export const defaultPortRange: PortRange = Object.freeze({ first: 10_000, last: 12_000 })

/** Reads `10000-12000`. */
export function readPortRange(text: string, field: string): Checked<PortRange> {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text.trim())
  const first = Number(match?.[1])
  const last = Number(match?.[2])
  if (!match || first < 1 || last > 65_535 || first > last) {
    return invalid(field, `must be two ports from 1 to 65535, lower first, like 10000-12000, but is ${shown(text)}`)
  }
  return valid({ first, last })
}

/**
 * Yields the free ports of the range in the order in which to try them: starting after port `after` and wrapping around.
 * This way a port that was just released is not reused immediately, while players of the previous match may still send to
 * it.
 */
export function* candidatePorts(range: PortRange, held: ReadonlySet<number>, after: number): Generator<number> {
  const size = range.last - range.first + 1
  const start = after >= range.first && after < range.last ? after + 1 - range.first : 0
  for (let i = 0; i < size; i++) {
    const port = range.first + ((start + i) % size)
    if (!held.has(port)) yield port
  }
}

/** What a template says about its ports, by port number. */
export type DeclaredPorts = ReadonlyMap<number, readonly { readonly name: string; readonly protocol: string }[]>

/** As in Kubernetes. */
const defaultProtocol = 'TCP'

/** The name of a port that has none in the template. */
export function defaultPortName(containerPort: number): string {
  return `port_${containerPort}`
}

/** Adds names and protocols to a server's ports. A port that the template declares for two protocols becomes two. */
export function namedPorts(pairs: readonly PortPair[], declared: DeclaredPorts): readonly AllocatedPort[] {
  const ports: AllocatedPort[] = []
  for (const { container, public: number } of pairs) {
    const known = declared.get(container)
    if (known === undefined) {
      ports.push({ name: defaultPortName(container), container, public: number, protocol: defaultProtocol })
    } else for (const { name, protocol } of known) ports.push({ name, container, public: number, protocol })
  }
  return ports
}

interface NamedPort {
  readonly name: string
  /** The port's number in the template. */
  readonly container: number
}

/** Finds a port by its name or its number in the template. If there is only one, `which` may be undefined. */
export function findPort<P extends NamedPort>(ports: readonly P[], which: unknown): Checked<P> {
  const names = new Set(ports.map(({ name, container }) => (container ? `${name} (${container})` : name)))
  if (names.size === 0) {
    return invalid('port', 'does not exist: this server has no public ports; list them in portsToExpose of its build')
  }
  const found = ports.find(({ name, container }) => which === undefined || which === name || which === container)
  const isOnlyOne = ports.every(({ container }) => container === ports[0]?.container)
  if (found && (which !== undefined || isOnlyOne)) return valid(found)
  const known = `this server has ${[...names].join(', ')}`
  if (which === undefined) return invalid('port', `needs a name or a number: ${known}`)
  const closest =
    typeof which === 'string'
      ? closestName(
          which,
          ports.map(({ name }) => name),
        )
      : undefined
  return invalid('port', `${shown(which)} does not exist: ${known}${closest ? `; did you mean ${closest}?` : ''}`)
}
