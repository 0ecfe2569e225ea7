/**
 * Invariants: the end of every session that a caller got is reported, by no host twice, and always with the same sessionUid; no session
 * that goes on is reported.
 */
import type { EventOf } from '../../../../src/contracts/events.js'
import { sessionUid } from '../../../../src/rules/lifecycle/server-sessions.js'
import { Violation, type World } from '../../world/world.js'
import type { ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Sessions } from './sessions.js'

export class SessionEnds {
  /** Sessions that callers got, with the uids of their servers. */
  readonly #answered = new Map<string, { readonly sessionID: string; readonly server: string }>()
  /** Reports by sessionUid. */
  readonly #reported = new Map<string, string>()
  readonly #reportedBy = new WeakMap<Host, Set<string>>()

  constructor(
    readonly world: World,
    readonly deps: () => { readonly store: StoreModel; readonly sessions: Sessions },
  ) {}

  returnedToCaller(sessionID: string, { spec: { uid: server } }: ModelInstance): void {
    this.#answered.set(`${server} ${sessionID}`, { sessionID, server })
  }

  reported(host: Host, { sessionID, sessionUid }: EventOf<'SessionEnded'>): void {
    const ownReports = this.#reportedBy.get(host) ?? new Set()
    this.#reportedBy.set(host, ownReports)
    if (ownReports.has(sessionUid)) this.world.violate(`${host.name} reports the end of ${sessionID} twice`)
    ownReports.add(sessionUid)
    const known = this.#reported.get(sessionUid)
    if (known !== undefined && known !== sessionID)
      this.world.violate(`${sessionID} and ${known} are reported as ended with the same sessionUid`)
    this.#reported.set(sessionUid, sessionID)
  }

  /** Call when the fleet has reached quiescence. */
  check(): void {
    const { sessions, store } = this.deps()
    const running = new Set<string>()
    for (const { record } of store.servers.values()) {
      for (const session of record.sessions) {
        if (this.#reported.has(sessionUid(record, session)))
          throw new Violation(`${session.id} is reported as ended, but goes on on ${record.name}`)
        running.add(`${record.uid} ${session.id}`)
      }
    }
    const ended = new Set([...this.#reported].map(([uid, id]) => `${uid.slice(0, uid.lastIndexOf('-'))} ${id}`))
    for (const [key, { sessionID, server }] of this.#answered) {
      // Whoever deletes its record takes the only trace of it.
      if (running.has(key) || ended.has(key) || sessions.hasNoRecord(server)) continue
      throw new Violation(`a caller got ${sessionID}, which has ended, but no host has reported that`)
    }
  }
}
