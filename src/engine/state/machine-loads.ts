/**
 * Counts the servers with a session on each machine, in the whole fleet, including those that are being allocated. Kept from the first
 * request that asks for an order by machine, so other fleets do no work for it.
 */
import type { ServerEntry } from './entries.js'

export class MachineLoads {
  readonly #loads = new Map<string, number>()
  /** The machine on which a server is counted. */
  readonly #counted = new Map<ServerEntry, string>()

  constructor(entries: Iterable<ServerEntry>) {
    for (const entry of entries) this.update(entry)
  }

  of(machine: string): number {
    return this.#loads.get(machine) ?? 0
  }

  /** Call when the bucket or the machine of a server has changed. */
  update(entry: ServerEntry): void {
    const { bucket } = entry
    const machine = bucket === 'active' || bucket === 'reserved' ? machineOf(entry) : undefined
    const before = this.#counted.get(entry)
    if (machine === before) return
    this.remove(entry)
    if (machine === undefined) return
    this.#counted.set(entry, machine)
    this.#loads.set(machine, this.of(machine) + 1)
  }

  remove(entry: ServerEntry): void {
    const machine = this.#counted.get(entry)
    if (machine === undefined) return
    this.#counted.delete(entry)
    const left = this.of(machine) - 1
    if (left > 0) this.#loads.set(machine, left)
    else this.#loads.delete(machine)
  }
}

/** Servers whose machine is not known count as on one machine, as with a backend that uses only one. */
export function machineOf({ record }: ServerEntry): string {
  return record.node ?? ''
}
