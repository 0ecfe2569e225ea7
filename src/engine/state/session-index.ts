/** Finds the server of a session, also while the server is only reserved for it. */
import type { Server } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/names.js'
import type { ServerEntry } from './entries.js'

export class SessionIndex {
  readonly #servers = new Map<string, ServerEntry>()

  get(key: string): ServerEntry | undefined {
    return this.#servers.get(key)
  }

  add(key: string, entry: ServerEntry): void {
    this.#servers.set(key, entry)
  }

  remove(key: string, entry: ServerEntry): void {
    if (this.#servers.get(key) === entry) this.#servers.delete(key)
  }

  addAll(server: Server, entry: ServerEntry): void {
    for (const { id } of server.sessions) this.add(sessionKey(id), entry)
  }

  removeAll(server: Server, entry: ServerEntry): void {
    for (const { id } of server.sessions) this.remove(sessionKey(id), entry)
  }

  /** Call when the record of a server is replaced. */
  replace(before: Server, after: Server, entry: ServerEntry): void {
    if (before.sessions === after.sessions) return
    this.removeAll(before, entry)
    this.addAll(after, entry)
  }
}
