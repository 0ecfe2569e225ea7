/**
 * Counts the servers of the whole fleet on each machine: all of them, and those that have a session or are being allocated. Counting starts
 * with the first request that orders servers by machine, or the first scale-down over several machines, so other fleets do no work for it.
 */
import type { ServerEntry } from './entries.js'

export interface Machine {
  readonly name: string
  /** Number of servers with a session. */
  readonly load: number
  /** Number of servers that are not terminating. */
  readonly servers: number
}

interface KnownMachine extends Machine {
  load: number
  servers: number
  users: number
}

/** What a server contributes to the counts of its machine. */
interface Counted {
  readonly machine: KnownMachine
  load: number
}

export class MachineLoads {
  readonly #machines = new Map<string, KnownMachine>()
  readonly #counted = new Map<ServerEntry, Counted>()

  constructor(entries: Iterable<ServerEntry>) {
    for (const entry of entries) this.update(entry)
  }

  /** The machine of this name, whose load is read without a search. Call `release` once it is not used any more. */
  use(name: string): Machine {
    return this.#known(name)
  }

  release({ name }: Machine): void {
    const machine = this.#machines.get(name)
    if (machine && --machine.users === 0) this.#machines.delete(name)
  }

  /** The machine of a server that is not terminating. */
  of(entry: ServerEntry): Machine | undefined {
    return this.#counted.get(entry)?.machine
  }

  /** Call when the bucket or the machine of a server has changed. */
  update(entry: ServerEntry): void {
    const { bucket } = entry
    const name = bucket === 'terminating' ? undefined : machineOf(entry)
    const load = bucket === 'active' || bucket === 'reserved' ? 1 : 0
    const counted = this.#counted.get(entry)
    if (counted && counted.machine.name === name) {
      counted.machine.load += load - counted.load
      counted.load = load
      return
    }
    this.remove(entry)
    if (name === undefined) return
    const machine = this.#known(name)
    machine.load += load
    machine.servers++
    this.#counted.set(entry, { machine, load })
  }

  remove(entry: ServerEntry): void {
    const counted = this.#counted.get(entry)
    if (!counted) return
    const { machine, load } = counted
    this.#counted.delete(entry)
    machine.load -= load
    machine.servers--
    this.release(machine)
  }

  #known(name: string): KnownMachine {
    const machine = this.#machines.get(name) ?? { name, load: 0, servers: 0, users: 0 }
    machine.users++
    this.#machines.set(name, machine)
    return machine
  }
}

/** Servers whose machine is not known count as on one machine, as with a backend that uses only one. */
export function machineOf({ record }: ServerEntry): string {
  return record.node ?? ''
}
