/**
 * Invariants: a caller with `confirm` gets a server only after its game has received the session; if the game takes too long,
 * the session keeps its server.
 */
import type { FleetEvent } from '../../../../src/contracts/events.js'
import type { FleetError } from '../../../../src/contracts/errors.js'
import { keyOf, type Server } from '../../../../src/rules/model/resources.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { World } from '../../world/world.js'
import type { Sessions } from './sessions.js'

export interface ConfirmationsDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly sessions: Sessions
}

export class Confirmations {
  /** The sessions that games have received, each with the address of its server. */
  readonly #received = new Set<string>()
  /** The sessions whose server's record was deleted externally. */
  readonly #withoutRecord = new Set<string>()

  constructor(
    readonly world: World,
    readonly deps: () => ConfirmationsDependencies,
  ) {}

  /** Called when a game receives its session. */
  receivedByGame({ address }: ModelInstance, sessionID: string): void {
    this.#received.add(`${sessionID} ${address}`)
  }

  /** Called when the record of a server is deleted externally. */
  recordDeleted({ sessions: [session] }: Server): void {
    if (session) this.#withoutRecord.add(session.id)
  }

  /** With a journal, a server can be allocated whose record was deleted before its host knows of it. */
  eventEmitted(event: FleetEvent): void {
    if (event.type !== 'Allocated' || this.deps().store.servers.has(keyOf(event.server))) return
    this.#withoutRecord.add(event.sessionID)
  }

  /** Called when a caller with `confirm` gets a server. */
  confirmed(sessionID: string, address: string): void {
    if (this.#received.has(`${sessionID} ${address}`)) return
    this.world.violate(`a caller got ${address} for ${sessionID} before its game had received the session`)
  }

  /** Called when a caller with `confirm` gets the error `not-confirmed`. */
  notConfirmed(sessionID: string, { message }: FleetError): void {
    if (message.includes(' ended before it confirmed ')) return
    // The fleet may not know yet that the record was deleted.
    if (this.#withoutRecord.has(sessionID)) return
    const { backend, store, sessions } = this.deps()
    const holder = [...store.servers.values()].find(({ record }) => record.sessions[0]?.id === sessionID)?.record
    if (!holder) return this.world.violate(`a caller was told to retry ${sessionID}, which has no server`)
    const instance = backend.instances.get(keyOf(holder))
    if (instance?.spec.uid === holder.uid) sessions.keptForCaller(sessionID, instance)
  }
}
