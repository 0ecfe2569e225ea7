/**
 * Invariants: a change of a server's data is stored before it succeeds, is made whole or not at all, is never lost, is made only once, and
 * never passes a capacity. Every change adds a unique ticket to a list and increments a counter.
 */
import { endedNumber } from '../../../src/rules/lifecycle/server-sessions.js'
import type { ServerDataUpdate } from '../../../src/rules/lifecycle/server-data.js'
import { keyOf, type Server } from '../../../src/rules/model/resources.js'
import type { StoreModel } from '../models/store-model.js'
import type { Host } from '../world/host.js'
import type { Lease } from '../world/lease.js'
import type { World } from '../world/world.js'
import type { FleetSnapshot } from './snapshot.js'

/** What every build of a run declares. The list is full first. */
export const declaredTickets = {
  counters: { tickets: { count: 0, capacity: 8 } },
  lists: { tickets: { values: [], capacity: 4 } },
}

interface Tickets {
  /** Those that may be on the server. */
  readonly tried: Set<string>
  /** Those that must be. */
  readonly done: Set<string>
}

export class ServerDataChanges {
  readonly #servers = new Map<string, Tickets>()
  #last = 0
  /** Those of allocations, which may be on any server. */
  readonly #ofAllocations = new Set<string>()
  /** How many allocations had a ticket that the server had already, by uid. */
  readonly #repeated = new Map<string, number>()

  constructor(
    readonly world: World,
    readonly deps: () => { readonly lease: Lease; readonly store: StoreModel },
  ) {}

  /** Runs an operator's change of a server. */
  async change(host: Host, server: Server, call: (change: ServerDataUpdate) => Promise<unknown>): Promise<void> {
    const ticket = `ticket-${++this.#last}`
    const tickets = this.#servers.get(server.uid) ?? { tried: new Set(), done: new Set() }
    this.#servers.set(server.uid, tickets)
    tickets.tried.add(ticket)
    const { lease, store } = this.deps()
    const { electedAt } = lease
    const increment = { tickets: { increment: 1 } }
    await call({ labels: { last: ticket }, counters: increment, lists: { tickets: { add: [ticket] } } })
    // A host that no longer leads may have been told of a write that the next leader has not read.
    if (lease.leader !== host || lease.electedAt !== electedAt) return
    const record = store.servers.get(keyOf(server))?.record
    if (record?.uid !== server.uid) return
    tickets.done.add(ticket)
    if (record.data?.lists['tickets']?.values.includes(ticket)) return
    this.world.violate(`not durable: ${ticket} was added to ${server.name}, whose stored record does not have it`)
  }

  /** Returns the ticket of an allocation. */
  ticketOfAllocation(): string {
    const ticket = `ticket-${++this.#last}`
    this.#ofAllocations.add(ticket)
    return ticket
  }

  /**
   * Called when a server's record is written. A caller that repeats its request after the session has ended gets a new session, perhaps
   * on the same server, which then has the caller's ticket already.
   */
  serverWritten(before: Server | undefined, after: Server): void {
    if (before?.uid !== after.uid || before.sessions[0] || !after.sessions[0] || !endedNumber(after)) return
    const [was, is] = [before.data, after.data]
    const added = (is?.counters['tickets']?.count ?? 0) - (was?.counters['tickets']?.count ?? 0)
    const addedTickets = (is?.lists['tickets']?.values.length ?? 0) - (was?.lists['tickets']?.values.length ?? 0)
    if (added > addedTickets) this.#repeated.set(after.uid, (this.#repeated.get(after.uid) ?? 0) + 1)
  }

  /** Called when a server's record is removed. A late create may bring it back as it was at first. */
  removed({ uid }: Server): void {
    this.#servers.delete(uid)
  }

  check({ servers }: FleetSnapshot): void {
    for (const [key, { metadata, status }] of servers) {
      const violate = (what: string) => this.world.violate(`data of ${metadata.name}: ${what}`)
      const { tickets: counter } = status.counters ?? {}
      const { tickets: list } = status.lists ?? {}
      if (!counter || !list) {
        violate('what its build declares is missing')
        continue
      }
      const { count } = counter
      const { values, capacity } = list
      if (values.length > capacity) violate(`the list has ${values.length} of ${capacity} tickets`)
      const record = this.deps().store.servers.get(key)?.record
      const tickets = record && this.#servers.get(record.uid)
      if (!tickets) continue
      const most = values.length + (this.#repeated.get(record.uid) ?? 0)
      if (count < values.length || count > most) violate(`the counter is ${count}, but ${most} tickets were added`)
      for (const ticket of tickets.done) if (!values.includes(ticket)) violate(`${ticket} was lost`)
      for (const ticket of values)
        if (!tickets.tried.has(ticket) && !this.#ofAllocations.has(ticket))
          violate(`${ticket} belongs to another server`)
    }
  }
}
