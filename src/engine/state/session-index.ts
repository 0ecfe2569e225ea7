/** Finds the server of a session, also while the server is only reserved for it. */
import type { NewSession, Server } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/session-ids.js'
import type { ServerEntry } from './entries.js'

export class SessionIndex {
  readonly #servers = new Map<string, ServerEntry>()

  get(key: string): ServerEntry | undefined {
    return this.#servers.get(key)
  }

  add(session: NewSession | undefined, entry: ServerEntry): void {
    if (session) this.#servers.set(sessionKey(session.id), entry)
  }

  remove(session: NewSession | undefined, entry: ServerEntry): void {
    if (!session) return
    const key = sessionKey(session.id)
    if (this.#servers.get(key) === entry) this.#servers.delete(key)
  }

  addAll(server: Server, entry: ServerEntry): void {
    for (const session of server.sessions) this.add(session, entry)
  }

  removeAll(server: Server, entry: ServerEntry): void {
    for (const session of server.sessions) this.remove(session, entry)
  }

  /** Call when the record of a server is replaced. */
  replace(before: Server, after: Server, entry: ServerEntry): void {
    if (before.sessions === after.sessions) return
    this.removeAll(before, entry)
    this.addAll(after, entry)
  }
}
