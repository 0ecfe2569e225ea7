/** Server objects and a journal in memory, with calls that a test can hold, fail and follow; and hosts that use them. */
import { openEntry, type StoredServer } from '../../../../adapters/kubernetes/store/journal/journal-entries.js'
import type { JournalContent, JournalStorage } from '../../../../adapters/kubernetes/store/journal/journal.js'
import { ServerJournal } from '../../../../adapters/kubernetes/store/journal/server-journal.js'
import type { ServerObjects, StatusWrite } from '../../../../adapters/kubernetes/store/journal/status-writer.js'
import { serverStatus, withStatus } from '../../../../adapters/kubernetes/store/server-object.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import { minimalServer } from '../../../../src/testing/records.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'

export type Call = 'read server' | 'write status' | 'remove server' | 'read journal' | 'write journal'
/** `lost`: it takes effect, and the answer does not arrive. `refused`: it does not arrive. `late`: it takes effect when `land` is called. */
export type Fault = 'lost' | 'refused' | 'late'

const key = new Uint8Array(32)

export class JournalWorld {
  readonly clock = virtualClock()
  readonly servers = new Map<string, StoredServer>()
  journal: (JournalContent & { readonly revision: string }) | undefined
  /** `<host>: <call> <name>` in the order in which they took effect. */
  readonly calls: string[] = []
  readonly warnings: string[] = []
  readonly #late: (() => void)[] = []
  #revision = 100

  server(name: string): StoredServer {
    const found = this.servers.get(`games/${name}`)
    if (!found) throw new Error(`no server ${name}`)
    return found
  }

  session(name: string): string | undefined {
    return this.server(name).record.sessions[0]?.id
  }

  addServer(name: string): string {
    const record = {
      ...minimalServer({ namespace: 'games', name }),
      uid: `uid-of-${name}`,
      state: 'StandingBy' as const,
    }
    const revision = this.next()
    this.servers.set(keyOf(record), { record, revision, uid: record.uid, upon: '1' })
    return revision
  }

  /** As `kubectl label` does. */
  touch(name: string): void {
    this.servers.set(`games/${name}`, { ...this.server(name), revision: this.next() })
  }

  next(): string {
    return String(++this.#revision)
  }

  /** Lets the late calls take effect. */
  land(): void {
    for (const effect of this.#late.splice(0)) effect()
  }

  async call<T>(host: Host, call: Call, name: string, effect: () => T): Promise<T> {
    await Promise.resolve()
    await host.held?.(call)
    const fault = host.faults[call]?.shift()
    const noted = () => {
      const result = effect()
      this.calls.push(`${host.name}: ${call} ${name}`.trim())
      return result
    }
    if (fault === undefined) return noted()
    if (fault === 'lost') noted()
    if (fault === 'late') {
      this.#late.push(() => {
        try {
          noted()
        } catch {
          // A conflict that nobody hears of.
        }
      })
    }
    throw new FleetError('unavailable', `${call}: ${fault}`)
  }
}

export class Host {
  readonly faults: Partial<Record<Call, Fault[]>> = {}
  /** Awaited before each call. */
  held: ((call: Call) => Promise<void> | undefined) | undefined
  term: number | undefined
  quietMs = 0
  readonly journal: ServerJournal
  readonly #seen = new Map<string, StoredServer>()

  constructor(
    readonly world: JournalWorld,
    readonly name: string,
    options: { readonly minGroup?: number } = {},
  ) {
    this.journal = new ServerJournal({
      ...{ clock: world.clock, logger: silentLogger, withStatus, objects: this.#objects(), storage: this.#storage() },
      term: () => this.term,
      key: () => key,
      warn: (message) => world.warnings.push(message),
      quietMs: () => this.quietMs,
      connections: 16,
      seen: (ref) => this.#seen.get(keyOf(ref)),
      ...options,
    })
  }

  /** Becomes the leader, and reads all servers. */
  async lead(term: number): Promise<this> {
    this.term = term
    await this.list()
    return this
  }

  /** From now on, the servers count as written by this host. */
  own(): this {
    for (const { record, revision } of this.world.servers.values()) this.journal.created(record, revision)
    return this
  }

  async list() {
    await this.journal.takeOver()
    return [...this.world.servers.values()].map((found) => this.#observe(found))
  }

  async get(name: string) {
    const ref = { namespace: 'games', name }
    await this.journal.settled(ref)
    const found = await this.#objects().read(ref)
    return found && this.#observe(found)
  }

  /** As the watch reports it. */
  see(name: string) {
    return this.#observe(this.world.server(name))
  }

  /** Writes the session to the server's record, as the engine does. */
  async allocate(name: string, sessionID: string, revision: string): Promise<string> {
    const { record: idle } = this.world.server(name)
    const number = (idle.startedSessions ?? 0) + 1
    const session = { id: sessionID, initialPlayers: [], number, startedAt: 0 }
    const record: Server = { ...idle, state: 'Active', startedSessions: number, sessions: [session] }
    return this.update(record, revision, true)
  }

  update(record: Server, revision: string, isAllocation = false): Promise<string> {
    return this.journal.update({ record, status: serverStatus(record), revision, isAllocation })
  }

  #observe(found: StoredServer) {
    this.#seen.set(keyOf(found.record), found)
    return this.journal.overlay(found)
  }

  #objects(): ServerObjects {
    const { world } = this
    const changed = (ref: Ref, at: string) => {
      const found = world.servers.get(keyOf(ref))
      if (!found) throw new FleetError('not-found', `${ref.name} is gone`)
      if (found.revision !== at) throw new FleetError('conflict', `${ref.name} has changed`)
      return found
    }
    return {
      read: (ref) => world.call(this, 'read server', ref.name, () => world.servers.get(keyOf(ref))),
      write: (ref, { status, at, upon }: StatusWrite) =>
        world.call(this, 'write status', ref.name, () => {
          const { record, uid } = changed(ref, at)
          const fields: Record<string, unknown> = JSON.parse(JSON.stringify(status))
          const written = { record: withStatus(record, fields), uid, revision: world.next(), upon }
          world.servers.set(keyOf(ref), written)
          return written.revision
        }),
      remove: (ref, at) =>
        world.call(this, 'remove server', ref.name, () => {
          if (world.servers.has(keyOf(ref))) changed(ref, at)
          world.servers.delete(keyOf(ref))
        }),
    }
  }

  #storage(): JournalStorage {
    const { world } = this
    return {
      read: () => world.call(this, 'read journal', '', () => world.journal),
      write: (content, revision) =>
        world.call(this, 'write journal', String(content.entries.length), () => {
          if (!world.journal && revision !== undefined) throw new FleetError('not-found', 'the journal is gone')
          if (world.journal?.revision !== revision) throw new FleetError('conflict', 'the journal has changed')
          world.journal = { ...content, revision: world.next() }
          return world.journal.revision
        }),
    }
  }
}

/** A leader with servers a, b, c and d. By default, it journals even a single allocation. */
export async function scene(minGroup = 1) {
  const world = new JournalWorld()
  for (const name of ['a', 'b', 'c', 'd']) world.addServer(name)
  const leader = (await new Host(world, 'one', { minGroup }).lead(1)).own()
  return { world, leader, at: (name: string) => world.server(name).revision }
}

/** The sessions in the journal. */
export function journaled({ journal }: JournalWorld): readonly unknown[] {
  return (journal?.entries ?? []).map((line) => openEntry(line, key)?.status['sessionID'])
}
