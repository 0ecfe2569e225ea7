/**
 * Maintenance that operators announce and the backend reports. Kept in the records of the servers, so that a restart does not
 * change it. Heartbeat answers take it from there.
 */
import { FleetError } from '../../contracts/errors.js'
import { afterAnnouncement, checkMaintenanceTime, transition } from '../../rules/lifecycle/lifecycle.js'
import type { Maintenance, MaintenanceSource } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { ServerEntry } from '../state/entries.js'
import { isUncertain } from '../state/queries.js'

export class MaintenanceAnnouncements {
  readonly #ctx: EngineContext
  readonly #writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>
  /** Announcements for whole nodes, which also apply to servers that start there later. */
  readonly #ofNodes = new Map<string, Maintenance>()
  /** Nodes in the backend's last report. */
  #reported: ReadonlySet<string> = new Set()

  constructor(ctx: EngineContext, writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>) {
    this.#ctx = ctx
    this.#writer = writer
  }

  /** Call when the records have been loaded. Recovers the announcements for whole nodes. */
  recover(): void {
    for (const { record } of this.#ctx.inventory.servers.values()) {
      const { maintenance, node, state } = record
      // The record of a terminating server no longer changes, so its announcement may have been withdrawn or replaced.
      if (node === undefined || !maintenance || state === 'Terminating') continue
      if (maintenance.source !== 'server') this.#ofNodes.set(node, maintenance)
    }
  }

  /** Resolves with the number of servers that have the announcement, which is durable then. Rejects with `invalid`. */
  async announceForServer(entry: ServerEntry, at: Date | number): Promise<number> {
    const maintenance: Maintenance = { at: this.#checked(at), source: 'server' }
    await this.#changeAll([entry], () => this.#announce(entry, maintenance))
    return countWith([entry], 'server')
  }

  /** Like `announceForServer`, for all servers on a node that have no announcement of their own. Also rejects with `not-found` if there are none. */
  async announceForNode(node: string, at: Date | number): Promise<number> {
    const maintenance: Maintenance = { at: this.#checked(at), source: 'node' }
    const entries = this.#serversOn(node)
    if (entries.length === 0) throw new FleetError('not-found', `no server runs on the node ${node}`)
    this.#ofNodes.set(node, maintenance)
    await this.#changeAll(entries, (entry) => this.#announce(entry, maintenance))
    return countWith(entries, 'node')
  }

  /**
   * Resolves with the number of servers, 0 or 1, whose announcement was withdrawn, which is durable then. An announcement for
   * the server's node that was outranked applies from then on.
   */
  withdrawForServer(entry: ServerEntry): Promise<number> {
    const { maintenance } = entry.record
    const ofNode = maintenance?.source === 'server' ? this.#aheadOn(entry.record.node) : undefined
    return this.#changeAll(maintenance ? [entry] : [], () => this.#set(entry, ofNode))
  }

  /** Withdraws a node's announcement, but none that was made for a single server. Rejects with `not-found`. */
  async withdrawForNode(node: string): Promise<number> {
    const entries = this.#serversOn(node)
    const isKnown = this.#ofNodes.delete(node)
    if (entries.length === 0 && !isKnown) throw new FleetError('not-found', `no server runs on the node ${node}`)
    const announced = entries.filter(({ record: { maintenance } }) => maintenance && maintenance.source !== 'server')
    return this.#changeAll(announced, (entry) => this.#withdraw(entry))
  }

  /** Applies the backend's report of all nodes that are due for maintenance. */
  report(nodes: ReadonlyMap<string, number>): void {
    for (const [node, at] of nodes) if (!this.#reported.has(node)) this.#announceReported(node, at)
    for (const [node, { source }] of [...this.#ofNodes]) {
      if (source === 'backend' && !nodes.has(node)) this.#withdrawReported(node)
    }
    this.#reported = new Set(nodes.keys())
  }

  /** Call when it becomes known which node a server is on. */
  placed(entry: ServerEntry): void {
    const maintenance = this.#aheadOn(entry.record.node)
    if (maintenance) this.#announce(entry, maintenance)
  }

  /** Returns the announcement for a node unless its time has come. */
  #aheadOn(node: string | undefined): Maintenance | undefined {
    const maintenance = node === undefined ? undefined : this.#ofNodes.get(node)
    return maintenance && maintenance.at > this.#ctx.clock.now() ? maintenance : undefined
  }

  #checked(at: Date | number): number {
    const checked = checkMaintenanceTime(at, this.#ctx.clock.now())
    if (!checked.ok) throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
    return checked.value
  }

  #announceReported(node: string, at: number): void {
    // An earlier report, or an operator's announcement that is still ahead, takes precedence.
    if (this.#ofNodes.get(node)?.source === 'backend' || this.#aheadOn(node)) return
    const maintenance: Maintenance = { at: Math.floor(at / 1000) * 1000, source: 'backend' }
    this.#ofNodes.set(node, maintenance)
    for (const entry of this.#serversOn(node)) this.#announce(entry, maintenance)
  }

  #withdrawReported(node: string): void {
    this.#ofNodes.delete(node)
    for (const entry of this.#serversOn(node)) {
      if (entry.record.maintenance?.source === 'backend') this.#withdraw(entry)
    }
  }

  #announce(entry: ServerEntry, announced: Maintenance): void {
    const now = this.#ctx.clock.now()
    this.#set(entry, afterAnnouncement(entry.record.maintenance, announced, now))
  }

  #withdraw(entry: ServerEntry): void {
    this.#set(entry, undefined)
  }

  #set(entry: ServerEntry, maintenance: Maintenance | undefined): void {
    const { clock, inventory } = this.#ctx
    inventory.update(entry, transition(entry.record, { type: 'maintenance', maintenance }, clock.now()))
  }

  /** Changes the servers and saves them. A server that is lost meanwhile terminates and needs no announcement. */
  async #changeAll(entries: readonly ServerEntry[], change: (entry: ServerEntry) => void): Promise<number> {
    for (const entry of entries) change(entry)
    await Promise.all(entries.map((entry) => this.#save(entry)))
    return entries.length
  }

  async #save(entry: ServerEntry): Promise<void> {
    try {
      if (isUncertain(entry)) await this.#writer.resolveUncertain(entry)
      await this.#writer.save(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw error
      // Another host has allocated the server, and the announcement still has to be saved.
      if (entry.record.state !== 'Terminating') await this.#save(entry)
    }
  }

  #serversOn(node: string): readonly ServerEntry[] {
    return [...this.#ctx.inventory.servers.values()].filter(
      ({ record }) => record.node === node && record.state !== 'Terminating',
    )
  }
}

/** How many of the servers have an announcement from this source. */
function countWith(entries: readonly ServerEntry[], source: MaintenanceSource): number {
  return entries.filter(({ record }) => record.maintenance?.source === source).length
}
