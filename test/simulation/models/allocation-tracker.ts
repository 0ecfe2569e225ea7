/**
 * Infers from a host's store calls which servers it is allocating, so that the invariants do not depend on the engine's
 * internals.
 */
import { endedNumber } from '../../../src/rules/lifecycle/server-sessions.js'
import type { Collection } from '../../../src/contracts/store.js'
import { keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'

/** The calls in flight for one server. */
interface InFlight {
  /** Number of unanswered calls for the server's record. */
  calls: number
  /** The session in the last write. */
  session: string | undefined
  /** The last write failed or its reply was lost, so the host cannot know yet which session the server has. */
  uncertain: boolean
}

/** What a write changes about the server's session. */
type SessionChange = 'begins' | 'ends' | undefined

export class AllocationTracker {
  readonly #byHost = new WeakMap<Host, Map<string, InFlight>>()
  /** Servers whose last call ended in the current step, each with the session from its last write. */
  readonly #released = new Map<string, string | undefined>()
  /** Servers whose allocation began in the current step, by host. */
  readonly #begun = new Map<Host, Set<string>>()
  #step = 0

  constructor(readonly world: World) {}

  /** Wraps a collection to track its calls. `stored` returns the current record. */
  track(host: Host, servers: Collection<Server>, stored: (ref: Ref) => Server | undefined): Collection<Server> {
    const sessionChange = (record: Server): SessionChange => {
      const before = stored(record)
      // A record that was deleted externally has no previous state here and can no longer be updated.
      if (before === undefined) return undefined
      if (record.sessions[0] !== undefined) return before.sessions[0] === undefined ? 'begins' : undefined
      return endedNumber(record) > endedNumber(before) ? 'ends' : undefined
    }
    return {
      get: (ref) => this.#follow(host, ref, servers.get(ref)),
      list: () => servers.list(),
      create: (record) => this.#follow(host, record, servers.create(record), record),
      update: (record, revision) =>
        this.#follow(host, record, servers.update(record, revision), record, sessionChange(record)),
      delete: (ref, revision) => this.#follow(host, ref, servers.delete(ref, revision)),
    }
  }

  /** True while the host cannot allocate this server to another session. */
  isBusy(host: Host, server: string): boolean {
    return this.#of(host).has(server)
  }

  /** True while any call is unanswered, since an allocation may be waiting for it. */
  hasPendingCalls(host: Host): boolean {
    return [...this.#of(host).values()].some(({ calls }) => calls > 0)
  }

  /** Returns the servers that the host must currently have reserved for a session. */
  reserved(host: Host): readonly string[] {
    return [...this.#of(host)].filter(([, { session }]) => session !== undefined).map(([server]) => server)
  }

  /** Returns the servers that this host has chosen for a session in the current step. */
  begunNow(host: Host): ReadonlySet<string> {
    this.#forgetLastStep()
    return this.#begun.get(host) ?? new Set()
  }

  /** True if the server was released in the current step. Its session may already have another server. */
  wasJustReleased(server: string): boolean {
    return this.#releasedNow().has(server)
  }

  /** Returns the sessions in writes that are in flight or uncertain. */
  sessionsInFlight(host: Host): ReadonlySet<string | undefined> {
    return new Set([...this.#of(host).values()].map(({ session }) => session))
  }

  /** Returns the session in the last write of the server that is in flight or uncertain. */
  sessionOn(host: Host, server: string): string | undefined {
    return this.#of(host).get(server)?.session
  }

  #of(host: Host): Map<string, InFlight> {
    const known = this.#byHost.get(host)
    if (known) return known
    const created = new Map<string, InFlight>()
    this.#byHost.set(host, created)
    return created
  }

  #follow<T>(host: Host, ref: Ref, call: Promise<T>, written?: Server, change?: SessionChange): Promise<T> {
    const key = keyOf(ref)
    const servers = this.#of(host)
    const before = this.#releasedNow()
    const isFirst = !servers.has(key) && !before.has(key)
    const entry = servers.get(key) ?? { calls: 0, session: before.get(key), uncertain: false }
    servers.set(key, entry)
    entry.calls++
    const session = change === 'begins' ? written?.sessions[0]?.id : undefined
    // The host knows that the server has had its session, so nothing is uncertain about the allocation.
    if (change === 'ends') Object.assign(entry, { session: undefined, uncertain: false })
    if (session !== undefined) {
      if (written && isFirst) {
        this.#checkAllocatable(written)
        this.#begun.set(host, new Set(this.#begun.get(host)).add(key))
      }
      entry.session = session
    }
    const settled = (ok: boolean) => {
      entry.calls--
      if (written && ok) {
        entry.uncertain = false
        if (session === undefined) entry.session = undefined
      } else if (session !== undefined) entry.uncertain = true
      if (entry.calls > 0 || entry.uncertain) return
      servers.delete(key)
      this.#releasedNow().set(key, entry.session)
    }
    // Subscribes before the caller does, so that this runs before the caller continues.
    call.then(
      () => settled(true),
      () => settled(false),
    )
    return call
  }

  #releasedNow(): Map<string, string | undefined> {
    this.#forgetLastStep()
    return this.#released
  }

  #forgetLastStep(): void {
    if (this.#step === this.world.steps) return
    this.#step = this.world.steps
    this.#released.clear()
    this.#begun.clear()
  }

  /** Call only if no other call is in flight: then the server has not changed since the fleet picked it. */
  #checkAllocatable({ name, health, address }: Server): void {
    if (health === 'Unhealthy') this.world.violate(`${name} is allocated although it is Unhealthy`)
    if (address === undefined) this.world.violate(`${name} is allocated although it has no address`)
  }
}
