/**
 * Counts the servers with a session on each machine, in the whole fleet, including those that are being allocated. Kept from the first
 * request that asks for an order by machine, so other fleets do no work for it.
 */
import type { ServerEntry } from './entries.js'

export interface Machine {
  readonly name: string
  /** Number of servers with a session. */
  readonly load: number
}

interface KnownMachine extends Machine {
  load: number
  users: number
}

export class MachineLoads {
  readonly #machines = new Map<string, KnownMachine>()
  /** The machine on which a server is counted. */
  readonly #counted = new Map<ServerEntry, KnownMachine>()

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

  /** Call when the bucket or the machine of a server has changed. */
  update(entry: ServerEntry): void {
    const { bucket } = entry
    const name = bucket === 'active' || bucket === 'reserved' ? machineOf(entry) : undefined
    if (name === this.#counted.get(entry)?.name) return
    this.remove(entry)
    if (name === undefined) return
    const machine = this.#known(name)
    machine.load++
    this.#counted.set(entry, machine)
  }

  remove(entry: ServerEntry): void {
    const machine = this.#counted.get(entry)
    if (!machine) return
    this.#counted.delete(entry)
    machine.load--
    this.release(machine)
  }

  #known(name: string): KnownMachine {
    const machine = this.#machines.get(name) ?? { name, load: 0, users: 0 }
    machine.users++
    this.#machines.set(name, machine)
    return machine
  }
}

/** Servers whose machine is not known count as on one machine, as with a backend that uses only one. */
export function machineOf({ record }: ServerEntry): string {
  return record.node ?? ''
}
