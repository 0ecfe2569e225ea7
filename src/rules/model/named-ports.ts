/** The public ports of a server by name, and how a caller finds one. Pure. */
import { closestName } from '../validation/closest-name.js'
import { type Checked, invalid, shown, valid } from '../validation/problem.js'
import type { PortPair } from './resources.js'
import type { AllocatedPort } from './wire.js'

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

export interface NamedPort {
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
