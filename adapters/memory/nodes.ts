/** The nodes of the memory backend. Decides on which node each server is placed and which public ports it gets. */
import { FleetError } from '../../src/contracts/errors.js'
import type { PortRange } from '../../src/rules/model/ports.js'
import type { PortPair } from '../../src/rules/model/resources.js'
import { PortRotation } from '../shared/public-ports.js'
import { counted } from '../../src/rules/validation/problem.js'

/** A server's node and ports, held until they are released. */
export interface Placement {
  readonly node: string
  readonly address: string
  readonly ports: readonly PortPair[]
  release(): void
}

interface Node {
  readonly name: string
  readonly address: string
  readonly rotation: PortRotation
  readonly takenPorts: Set<number>
  servers: number
}

export class Nodes {
  readonly #range: PortRange
  readonly #nodes: readonly Node[]

  constructor(names: readonly string[], range: PortRange) {
    this.#range = range
    this.#nodes = names.map((name, index) => ({
      name,
      address: addressOf(index),
      rotation: new PortRotation(range),
      takenPorts: new Set(),
      servers: 0,
    }))
  }

  /**
   * Places a server on the node that has enough free ports and the fewest servers. Throws `ports-exhausted` if no node has
   * enough.
   */
  place(portsToExpose: readonly number[]): Placement {
    const { first, last } = this.#range
    let chosen: Node | undefined
    for (const node of this.#nodes) {
      const fits = last - first + 1 - node.takenPorts.size >= portsToExpose.length
      if (fits && (!chosen || node.servers < chosen.servers)) chosen = node
    }
    const taken = chosen?.rotation.take(portsToExpose.length, chosen.takenPorts)
    if (!chosen || !taken) {
      const count = portsToExpose.length
      throw new FleetError(
        'ports-exhausted',
        `no node has ${counted(count, 'free public port')} in ${first}-${last}; use a wider portRange`,
      )
    }
    return placementOn(
      chosen,
      portsToExpose.map((container, i) => ({ container, public: taken[i] ?? 0 })),
    )
  }
}

function placementOn(node: Node, ports: readonly PortPair[]): Placement {
  for (const port of ports) node.takenPorts.add(port.public)
  node.servers++
  return {
    node: node.name,
    address: node.address,
    ports: Object.freeze(ports),
    release() {
      for (const port of ports) node.takenPorts.delete(port.public)
      node.servers--
    },
  }
}

/** Nodes get the addresses 127.0.0.1, 127.0.0.2…, so that address and port together identify a server. */
function addressOf(index: number): string {
  const number = index + 1
  return `127.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`
}
