/**
 * What a host's calls to the store say about the servers that it is just handing out: seen from outside, so that the
 * invariants need to know nothing of the engine.
 */
import { keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { Collection } from '../../contracts/store.js'
import type { Host } from './host.js'
import type { World } from './world.js'

interface Desk {
  /** Calls about this server's record that are not answered yet. */
  calls: number
  /** The session that was last to be written into it. */
  session: string | undefined
  /** That write failed, or its answer got lost: the host cannot know yet whose the server is. */
  unsure: boolean
}

export class Handing {
  readonly #desks = new WeakMap<Host, Map<string, Desk>>()
  /** Servers that were busy earlier in the present step, each with the session that was written last. */
  readonly #justBusy = new Map<string, string | undefined>()
  #step = 0

  constructor(readonly world: World) {}

  /** The same collection, watched. `stored` tells what it holds now. */
  watched(host: Host, servers: Collection<Server>, stored: (ref: Ref) => Server | undefined): Collection<Server> {
    const isNew = (record: Server) => {
      const before = stored(record)
      // Of a record that was removed by hand nobody can tell; and nothing can be written into it.
      return record.session !== undefined && before !== undefined && before.session === undefined
    }
    return {
      get: (ref) => this.#follow(host, ref, servers.get(ref)),
      list: () => servers.list(),
      create: (record) => this.#follow(host, record, servers.create(record), record),
      update: (record, revision) => this.#follow(host, record, servers.update(record, revision), record, isNew(record)),
      delete: (ref, revision) => this.#follow(host, ref, servers.delete(ref, revision)),
    }
  }

  /** True while the host cannot be expected to hand this server to anybody else. */
  isBusy(host: Host, server: string): boolean {
    return this.#of(host).has(server)
  }

  /** True while the host waits for an answer about any server: a call may stand behind it. */
  awaitsAnswer(host: Host): boolean {
    return [...this.#of(host).values()].some(({ calls }) => calls > 0)
  }

  /** Servers that the host must hold reserved for a session now. */
  reserved(host: Host): readonly string[] {
    return [...this.#of(host)].filter(([, { session }]) => session !== undefined).map(([server]) => server)
  }

  /** It was let go in the present step, and another may have been taken for its session since. */
  wasLetGo(server: string): boolean {
    return this.#justNow().has(server)
  }

  /** Sessions that are being written, or may have been. */
  sessions(host: Host): ReadonlySet<string | undefined> {
    return new Set([...this.#of(host).values()].map(({ session }) => session))
  }

  #of(host: Host): Map<string, Desk> {
    const known = this.#desks.get(host)
    if (known) return known
    const desks = new Map<string, Desk>()
    this.#desks.set(host, desks)
    return desks
  }

  #follow<T>(host: Host, ref: Ref, call: Promise<T>, written?: Server, gives = false): Promise<T> {
    const key = keyOf(ref)
    const desks = this.#of(host)
    const before = this.#justNow()
    const isFirst = !desks.has(key) && !before.has(key)
    const desk = desks.get(key) ?? { calls: 0, session: before.get(key), unsure: false }
    desks.set(key, desk)
    desk.calls++
    const session = gives ? written?.session?.id : undefined
    if (session !== undefined) {
      if (written && isFirst) this.#checkFit(written)
      desk.session = session
    }
    const over = (ok: boolean) => {
      desk.calls--
      if (written && ok) {
        desk.unsure = false
        if (session === undefined) desk.session = undefined
      } else if (session !== undefined) desk.unsure = true
      if (desk.calls > 0 || desk.unsure) return
      desks.delete(key)
      this.#justNow().set(key, desk.session)
    }
    // Before whoever made the call goes on.
    call.then(
      () => over(true),
      () => over(false),
    )
    return call
  }

  #justNow(): Map<string, string | undefined> {
    if (this.#step !== this.world.steps) this.#justBusy.clear()
    this.#step = this.world.steps
    return this.#justBusy
  }

  /** With no other call about it under way, it is being handed out as it was when it was taken. */
  #checkFit({ name, health, address }: Server): void {
    if (health === 'Unhealthy') this.world.breach(`${name} is handed out though it is Unhealthy`)
    if (address === undefined) this.world.breach(`${name} is handed out though nobody knows where it is`)
  }
}
