/** One session, one server; one server, one session; durable before it is told; and no match ends but by its players. */
import { keyOf } from '../../../rules/model/resources.js'
import type { BackendModel, ModelInstance } from '../backend-model.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import type { Seen } from './seen.js'

export class Sessions {
  /** Instance by session, as acknowledged to a caller or told to a game. */
  readonly #bySession = new Map<string, ModelInstance>()
  readonly #sessionOf = new Map<ModelInstance, string>()
  /** Uids of instances that an operator has asked to end, and of builds. */
  readonly #mayEnd = new Set<string>()
  /** Uids of servers whose record was removed by hand: nothing can be said of their sessions any more. */
  readonly #disowned = new Set<string>()

  constructor(
    readonly world: World,
    readonly parts: () => { readonly backend: BackendModel; readonly store: StoreModel },
  ) {}

  /** An operator asked for the end of this server, or of all servers of this build. */
  allowEnd(uid: string): void {
    this.#mayEnd.add(uid)
  }

  /** The record of this server is removed past every host. */
  disown(uid: string): void {
    this.#mayEnd.add(uid)
    this.#disowned.add(uid)
  }

  isDisowned(uid: string): boolean {
    return this.#disowned.has(uid)
  }

  mayEnd({ spec }: ModelInstance): boolean {
    return this.isAllowed(spec.uid) || this.isAllowed(spec.build.uid) || this.parts().backend.vanished.has(spec.uid)
  }

  isAllowed(uid: string): boolean {
    return this.#mayEnd.has(uid)
  }

  /** A caller was answered with a server. */
  acknowledged(sessionID: string, address: string): void {
    const instance = [...this.parts().backend.instances.values()].find((one) => one.address === address)
    // It may have ended on the way back to the caller.
    if (instance) this.#bind(sessionID, instance, 'a caller was given')
  }

  /** A game was told that it plays a session. */
  told(instance: ModelInstance, sessionID: string): void {
    this.#bind(sessionID, instance, 'a game was told')
  }

  #bind(sessionID: string, instance: ModelInstance, how: string): void {
    const { name } = instance.spec.ref
    const record = this.parts().store.servers.get(keyOf(instance.spec.ref))?.record
    const isOurs = record?.uid === instance.spec.uid
    const isKnown = this.#lives(instance) && !this.isDisowned(instance.spec.uid)
    if (isOurs ? record.session?.id !== sessionID : isKnown) {
      this.world.breach(`not durable: ${how} ${name} for ${sessionID}, and the store knows nothing of it`)
    }
    const other = this.#bySession.get(sessionID)
    if (other && other !== instance && this.#lives(other) && !this.isDisowned(other.spec.uid)) {
      this.world.breach(`one session, two servers: ${how} ${name} for ${sessionID}, which is on ${other.spec.ref.name}`)
    }
    const before = this.#sessionOf.get(instance)
    if (before !== undefined && before !== sessionID) {
      this.world.breach(`one server, two sessions: ${name} has ${before}, and ${how} it for ${sessionID}`)
    }
    this.#bySession.set(sessionID, instance)
    this.#sessionOf.set(instance, sessionID)
  }

  #lives(instance: ModelInstance): boolean {
    return instance.game?.running === true && this.parts().backend.instances.get(keyOf(instance.spec.ref)) === instance
  }

  /** The fleet ends an instance whose process runs, or tells its game to end. */
  ending(instance: ModelInstance): void {
    const session = this.#sessionOf.get(instance)
    if (session === undefined || !this.#lives(instance) || this.mayEnd(instance)) return
    this.world.breach(`a match was ended: ${instance.spec.ref.name} plays ${session} and nobody asked for its end`)
  }

  /** Every match that goes on is known to whoever leads, also after a restart. */
  check(seen: Seen): void {
    for (const instance of this.parts().backend.instances.values()) {
      const session = this.#sessionOf.get(instance)
      if (session === undefined || !this.#lives(instance) || this.mayEnd(instance)) continue
      const status = seen.servers.get(keyOf(instance.spec.ref))?.status
      if (status?.state === 'Active' && status.sessionID === session) continue
      const { name } = instance.spec.ref
      const said = status ? `${status.state} with session ${status.sessionID ?? 'none'}` : 'nothing'
      this.world.breach(`a match was forgotten: ${name} plays ${session}, and ${seen.host.name} knows it as ${said}`)
    }
  }
}
