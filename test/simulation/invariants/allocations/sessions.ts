/**
 * Invariants: a session has at most one server, and a server at most one session at a time; a session is stored before a caller or a
 * game receives it; only players and operators end a match, and no report of the end of an earlier one does.
 */
import { keyOf } from '../../../../src/rules/model/resources.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { World } from '../../world/world.js'
import type { FleetSnapshot } from '../snapshot.js'

export class Sessions {
  /** The instance of each session, as reported to a caller or a game. */
  readonly #bySession = new Map<string, ModelInstance>()
  readonly #sessionOf = new Map<ModelInstance, string>()
  /** The last session that each game has ended. Until the fleet knows that, callers may still get its server. */
  readonly #endedBy = new Map<ModelInstance, string>()
  /** Uids of servers and builds that operators have terminated: their matches may end. */
  readonly #mayEnd = new Set<string>()
  /** Uids of servers whose record was deleted externally, so the fleet may no longer know their sessions. */
  readonly #withoutRecord = new Set<string>()

  constructor(
    readonly world: World,
    readonly deps: () => { readonly backend: BackendModel; readonly store: StoreModel },
  ) {}

  /** Called when an operator terminates this server, or all servers of this build. */
  allowEnd(uid: string): void {
    this.#mayEnd.add(uid)
  }

  /** Called when the record of this server is deleted externally. */
  recordDeleted(uid: string): void {
    this.#mayEnd.add(uid)
    this.#withoutRecord.add(uid)
  }

  hasNoRecord(uid: string): boolean {
    return this.#withoutRecord.has(uid)
  }

  mayEnd({ spec }: ModelInstance): boolean {
    return (
      this.isAllowed(spec.uid) || this.isAllowed(spec.build.uid) || this.deps().backend.deletedExternally.has(spec.uid)
    )
  }

  isAllowed(uid: string): boolean {
    return this.#mayEnd.has(uid)
  }

  /** True if the game at this address has ended this session, and has had none since. */
  hasEnded(sessionID: string, address: string): boolean {
    const instance = this.deps().backend.instanceAt(address)
    return instance !== undefined && this.#endedBy.get(instance) === sessionID
  }

  /** Called when a caller gets a server. */
  returnedToCaller(sessionID: string, address: string): void {
    const instance = this.deps().backend.instanceAt(address)
    // The instance may have exited before the answer reached the caller.
    if (instance) this.#bind(sessionID, instance, 'a caller got')
  }

  /** Called when a caller learns that the session keeps its server, although it does not get the server's address. */
  keptForCaller(sessionID: string, instance: ModelInstance): void {
    this.#bind(sessionID, instance, 'a caller waited for')
  }

  /** Called when a game ends its session and goes on. */
  endedByGame(instance: ModelInstance, sessionID: string): void {
    this.#endedBy.set(instance, sessionID)
    this.#sessionOf.delete(instance)
    if (this.#bySession.get(sessionID) === instance) this.#bySession.delete(sessionID)
  }

  /** Called when a game receives its session. */
  receivedByGame(instance: ModelInstance, sessionID: string): void {
    if (this.#endedBy.get(instance) === sessionID) this.#endedBy.delete(instance)
    this.#bind(sessionID, instance, 'a game started on')
  }

  #bind(sessionID: string, instance: ModelInstance, how: string): void {
    // Its game has ended the session, which the store may say before the host knows it.
    if (this.#endedBy.get(instance) === sessionID) return
    const { name } = instance.spec.ref
    const record = this.deps().store.servers.get(keyOf(instance.spec.ref))?.record
    const hasRecord = record?.uid === instance.spec.uid
    const mustHaveRecord = this.#isRunning(instance) && !this.hasNoRecord(instance.spec.uid)
    if (hasRecord ? record.sessions[0]?.id !== sessionID : mustHaveRecord) {
      this.world.violate(`not durable: ${how} ${name} for ${sessionID}, which is not in the store`)
    }
    const other = this.#bySession.get(sessionID)
    // What an earlier instance of the same server left behind still sends heartbeats.
    if (other && other !== instance && other.spec.uid === instance.spec.uid && this.#isRunning(other)) return
    if (other && other !== instance && this.#isRunning(other) && !this.hasNoRecord(other.spec.uid)) {
      this.world.violate(
        `one session, two servers: ${how} ${name} for ${sessionID}, which is on ${other.spec.ref.name}`,
      )
    }
    const before = this.#sessionOf.get(instance)
    if (before !== undefined && before !== sessionID) {
      this.world.violate(`one server, two sessions: ${name} has ${before}, but ${how} it for ${sessionID}`)
    }
    this.#bySession.set(sessionID, instance)
    this.#sessionOf.set(instance, sessionID)
  }

  #isRunning(instance: ModelInstance): boolean {
    return instance.game?.running === true && this.deps().backend.instances.get(keyOf(instance.spec.ref)) === instance
  }

  /** Called when the fleet terminates an instance whose process is running. */
  terminating(instance: ModelInstance): void {
    const session = this.#sessionOf.get(instance)
    if (session === undefined || !this.#isRunning(instance) || this.mayEnd(instance)) return
    this.world.violate(`a match was terminated: ${instance.spec.ref.name} was playing ${session}`)
  }

  /** Checks that the leader knows every running match, even after a restart. */
  check(snapshot: FleetSnapshot): void {
    for (const instance of this.deps().backend.instances.values()) {
      const session = this.#sessionOf.get(instance)
      if (session === undefined || !this.#isRunning(instance) || this.mayEnd(instance)) continue
      const status = snapshot.servers.get(keyOf(instance.spec.ref))?.status
      if (status?.state === 'Active' && status.sessionID === session) continue
      const { name } = instance.spec.ref
      const reported = status ? `${status.state} with session ${status.sessionID ?? 'none'}` : 'nothing'
      this.world.violate(`a match was lost: ${name} plays ${session}, but ${snapshot.host.name} has ${reported}`)
    }
  }
}
