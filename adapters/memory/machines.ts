/** The machines of the memory backend: where a server is placed and which public ports it holds. */
import { FleetError } from '../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../src/rules/model/ports.js'
import type { PortPair } from '../../src/rules/model/resources.js'

/** A place on a machine, held until it is released. */
export interface Place {
  readonly node: string
  readonly address: string
  readonly ports: readonly PortPair[]
  release(): void
}

export interface Machines {
  /** All ports or none. Throws `ports-exhausted` when no machine has enough of them. */
  place(portsToExpose: readonly number[]): Place
}

interface Machine {
  readonly node: string
  readonly address: string
  /** Public ports of its servers. */
  readonly held: Set<number>
  lastPort: number
  servers: number
}

/** The machine with the fewest servers is first in turn. */
export function machinesOf(nodes: readonly string[], range: PortRange): Machines {
  const size = range.last - range.first + 1
  const machines = nodes.map((node, index): Machine => ({
    node,
    address: addressOf(index),
    held: new Set(),
    lastPort: 0,
    servers: 0,
  }))
  return {
    place(portsToExpose) {
      let chosen: Machine | undefined
      for (const machine of machines) {
        const fits = size - machine.held.size >= portsToExpose.length
        if (fits && (!chosen || machine.servers < chosen.servers)) chosen = machine
      }
      if (!chosen) {
        throw new FleetError(
          'ports-exhausted',
          `no machine has ${portsToExpose.length} free public ports in ${range.first}-${range.last}: give a wider range`,
        )
      }
      return placeOn(chosen, portsToExpose, range)
    },
  }
}

function placeOn(machine: Machine, portsToExpose: readonly number[], range: PortRange): Place {
  const free = candidatePorts(range, machine.held, machine.lastPort)
  const ports: PortPair[] = []
  for (const container of portsToExpose) {
    const next = free.next()
    if (next.done) break
    ports.push({ container, public: next.value })
  }
  for (const port of ports) machine.held.add(port.public)
  machine.lastPort = ports.at(-1)?.public ?? machine.lastPort
  machine.servers++
  return {
    node: machine.node,
    address: machine.address,
    ports: Object.freeze(ports),
    release() {
      for (const port of ports) machine.held.delete(port.public)
      machine.servers--
    },
  }
}

/** 127.0.0.1, 127.0.0.2… : a pair of address and port names one server. */
function addressOf(index: number): string {
  const number = index + 1
  return `127.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`
}
