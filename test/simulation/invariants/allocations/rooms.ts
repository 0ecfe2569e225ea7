/**
 * Invariants of servers with several sessions: a session has one server; a server never has more sessions than its build allows, and no two
 * with the same number; a session is stored before a caller or a game receives it, and goes on until its own game ends it or its server
 * ends. So no late or repeated report, and no other session's end, ends it.
 */
import { keyOf, type Server } from '../../../../src/rules/model/resources.js'
import { severalBuildName } from '../../context.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { World } from '../../world/world.js'
import type { FleetSnapshot } from '../snapshot.js'
import type { Sessions } from './sessions.js'

interface Told {
  readonly sessionID: string
  /** Undefined until its game has received it. */
  number: number | undefined
}

interface Numbered {
  readonly sessionId: string
  readonly number: number
}

export interface RoomsDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
}

export class RoomsInvariants {
  /** The sessions of which a caller or the game was told and that the game has not ended, by uid of the server. */
  readonly #told = new Map<string, Map<string, Told>>()
  /** Sessions that games have ended: uid, id. Until the fleet knows that, callers may still get them. */
  readonly #ended = new Map<string, Set<string>>()
  /** The highest limit that the build may have had. */
  #most = 0

  constructor(
    readonly world: World,
    readonly deps: () => RoomsDependencies,
    readonly sessions: Pick<Sessions, 'hasNoRecord' | 'mayEnd'>,
  ) {}

  limitChanged(most: number): void {
    this.#most = Math.max(this.#most, most)
  }

  returnedToCaller(sessionID: string, address: string): void {
    const instance = this.deps().backend.instanceAt(address)
    if (!instance || this.#ended.get(instance.spec.uid)?.has(sessionID)) return
    this.#tell(instance, { sessionID, number: undefined }, 'a caller got')
  }

  /** Called when a game receives a session. */
  began(instance: ModelInstance, { sessionId: sessionID, number }: Numbered): void {
    const { uid, ref } = instance.spec
    this.#ended.get(uid)?.delete(sessionID)
    for (const other of this.#of(uid).values()) {
      if (other.number === number) this.world.violate(`${ref.name} has two sessions with the number ${number}`)
    }
    this.#tell(instance, { sessionID, number }, 'a game started on')
    const running = [...this.#of(uid).values()].filter((one) => one.number !== undefined).length
    if (running > this.#limit())
      this.world.violate(`${ref.name} plays ${running} sessions, and at most ${this.#limit()} are allowed`)
  }

  /** Called when a game ends one of its sessions. */
  ended({ spec }: ModelInstance, { sessionId, number }: Numbered): void {
    this.world.note(`${spec.ref.name} ends ${sessionId}, its session ${number}`)
    this.#of(spec.uid).delete(sessionId)
    const ended = this.#ended.get(spec.uid) ?? new Set<string>()
    this.#ended.set(spec.uid, ended.add(sessionId))
  }

  serverWritten(before: Server | undefined, after: Server): void {
    if (after.build !== severalBuildName) return
    const { name, uid } = after
    const sessions = after.sessions
    if (sessions.length > this.#limit())
      this.world.violate(
        `${name} has ${sessions.length} sessions in the store, and at most ${this.#limit()} are allowed`,
      )
    const numbers = new Set(sessions.map((session) => session.number))
    if (numbers.size < sessions.length) this.world.violate(`${name} has two sessions with the same number in the store`)
    if (before?.uid !== uid || this.sessions.hasNoRecord(uid)) return
    for (const session of before.sessions) {
      const { number } = session
      const told = this.#of(uid).get(session.id)
      if (!told || (told.number !== undefined && told.number !== number)) continue
      if (sessions.some((other) => other.id === session.id && other.number === number)) continue
      this.world.violate(`${name} lost its session ${session.id} in the store, which its game has not ended`)
    }
  }

  /** Called when the fleet terminates an instance whose process is running. */
  terminating(instance: ModelInstance): void {
    const { ref, uid } = instance.spec
    const { size } = this.#of(uid)
    if (size === 0 || !this.#isRunning(instance) || this.sessions.mayEnd(instance)) return
    this.world.violate(`matches were terminated: ${ref.name} was playing ${size}`)
  }

  /** Checks that the leader knows every running session, even after a restart. */
  check({ host, servers }: FleetSnapshot): void {
    for (const instance of this.deps().backend.instances.values()) {
      const { build, ref, uid } = instance.spec
      if (build.name !== severalBuildName || !this.#isRunning(instance) || this.sessions.mayEnd(instance)) continue
      const status = servers.get(keyOf(ref))?.status
      const known = new Set([status?.sessionID, ...(status?.sessions ?? []).map(({ sessionID }) => sessionID)])
      for (const { sessionID } of this.#of(uid).values()) {
        if (status?.state === 'Active' && known.has(sessionID)) continue
        this.world.violate(
          `a match was lost: ${ref.name} plays ${sessionID}, but ${host.name} has ${status?.state ?? 'nothing'} without it`,
        )
      }
    }
  }

  #tell(instance: ModelInstance, told: Told, how: string): void {
    const { ref, uid } = instance.spec
    const { sessionID } = told
    const record = this.deps().store.servers.get(keyOf(ref))?.record
    const isStored = record?.uid === uid && record.sessions.some(({ id }) => id === sessionID)
    if (!isStored && this.#isRunning(instance) && !this.sessions.hasNoRecord(uid)) {
      this.world.violate(`not durable: ${how} ${ref.name} for ${sessionID}, which is not in the store`)
    }
    for (const other of this.deps().backend.instances.values()) {
      if (other === instance || !this.#of(other.spec.uid).has(sessionID)) continue
      if (!this.#isRunning(other) || this.sessions.hasNoRecord(other.spec.uid)) continue
      this.world.violate(
        `one session, two servers: ${how} ${ref.name} for ${sessionID}, which is on ${other.spec.ref.name}`,
      )
    }
    const known = this.#of(uid).get(sessionID)
    if (known) known.number ??= told.number
    else this.#of(uid).set(sessionID, told)
  }

  #limit(): number {
    const { spec } = this.deps().store.builds.get(keyOf({ namespace: 'default', name: severalBuildName }))?.record ?? {}
    this.limitChanged(spec?.sessionsPerServer ?? 1)
    return this.#most
  }

  #of(uid: string): Map<string, Told> {
    const known = this.#told.get(uid) ?? new Map<string, Told>()
    this.#told.set(uid, known)
    return known
  }

  #isRunning(instance: ModelInstance): boolean {
    return instance.game?.running === true && this.deps().backend.instances.get(keyOf(instance.spec.ref)) === instance
  }
}
