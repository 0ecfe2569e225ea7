/**
 * What must hold at every step, whatever fails. Reads the world from outside: what was answered to callers, what games
 * were told, what runs, and what the fleet says of itself.
 */
import { keyOf } from '../../rules/resources.js'
import type { GameServerBuild, GameServer } from '../../rules/wire.js'
import type { BackendModel, ModelInstance } from './backend-model.js'
import type { World } from './world.js'

export class Violation extends Error {}

export class Invariants {
  /** Instance by session, as acknowledged to a caller or told to a game. */
  readonly #bySession = new Map<string, ModelInstance>()
  readonly #sessionOf = new Map<ModelInstance, string>()
  /** Uids of instances that an operator has asked to end, and of builds. */
  readonly #mayEnd = new Set<string>()
  readonly #totals = new Map<string, number>()

  constructor(
    readonly world: World,
    readonly backend: () => BackendModel,
  ) {}

  /** An operator asked for the end of this server, or of all servers of this build. */
  allowEnd(uid: string): void {
    this.#mayEnd.add(uid)
  }

  /** A caller was answered with a server. */
  acknowledged(sessionID: string, address: string): void {
    const instance = [...this.backend().instances.values()].find((one) => one.address === address)
    // It may have ended on the way back to the caller.
    if (instance) this.#bind(sessionID, instance, 'a caller was given')
  }

  /** A game was told that it plays a session. */
  told(instance: ModelInstance, sessionID: string): void {
    this.#bind(sessionID, instance, 'a game was told')
  }

  #bind(sessionID: string, instance: ModelInstance, how: string): void {
    const other = this.#bySession.get(sessionID)
    if (other && other !== instance && this.#lives(other)) {
      throw new Violation(
        `one session, two servers: ${how} ${instance.spec.ref.name} for ${sessionID}, which is on ${other.spec.ref.name}`,
      )
    }
    const before = this.#sessionOf.get(instance)
    if (before !== undefined && before !== sessionID) {
      throw new Violation(`one server, two sessions: ${instance.spec.ref.name} has ${before}, and ${how} ${sessionID}`)
    }
    this.#bySession.set(sessionID, instance)
    this.#sessionOf.set(instance, sessionID)
  }

  #lives(instance: ModelInstance): boolean {
    return instance.game?.running === true && this.backend().instances.get(keyOf(instance.spec.ref)) === instance
  }

  /** The fleet ends an instance whose process runs, or tells its game to end. */
  ending(instance: ModelInstance): void {
    const session = this.#sessionOf.get(instance)
    if (session === undefined || !this.#lives(instance)) return
    const { uid, build, ref } = instance.spec
    if (this.#mayEnd.has(uid) || this.#mayEnd.has(build.uid)) return
    throw new Violation(`a match was ended: ${ref.name} plays ${session} and nobody asked for its end`)
  }

  /** Compares what the fleet says with itself, at any step. */
  check(builds: readonly GameServerBuild[], servers: readonly GameServer[]): void {
    const byBuild = new Map<string, GameServer[]>()
    const sessions = new Set<string>()
    for (const server of servers) {
      const build = server.metadata.name.slice(0, server.metadata.name.lastIndexOf('-'))
      const list = byBuild.get(build)
      if (list) list.push(server)
      else byBuild.set(build, [server])
      const { sessionID } = server.status
      if (sessionID === undefined) continue
      if (sessions.has(sessionID)) throw new Violation(`session ${sessionID} stands on two servers of the list`)
      sessions.add(sessionID)
    }
    for (const build of builds) this.#checkBuild(build, byBuild.get(build.metadata.name) ?? [])
    this.#checkPorts()
  }

  #checkBuild(build: GameServerBuild, servers: readonly GameServer[]): void {
    const { spec, status, metadata } = build
    const count = (state: string) => servers.filter((server) => server.status.state === state).length
    const idleAndActive =
      status.currentPending + status.currentInitializing + status.currentStandingBy + status.currentActive
    const key = `${metadata.name} ${metadata.creationTimestamp}`
    // A lowered max may leave more Active servers than it allows; then there must never be yet more.
    const allowed = Math.max(spec.max, this.#totals.get(key) ?? spec.max)
    if (idleAndActive > allowed) {
      throw new Violation(`more than max: build ${metadata.name} has ${idleAndActive} servers with max ${spec.max}`)
    }
    this.#totals.set(key, idleAndActive)
    const recount = {
      currentActive: count('Active'),
      currentStandingBy: count('StandingBy'),
      currentPending: count('Pending'),
      currentInitializing: count('Initializing'),
    }
    for (const [name, counted] of Object.entries(recount)) {
      const told: unknown = Object.entries(status).find(([field]) => field === name)?.[1]
      // Servers of a deleted build of the same name are still listed while they end; those are Terminating.
      if (told !== counted) throw new Violation(`${name} of ${metadata.name} is ${String(told)}, a recount ${counted}`)
    }
  }

  #checkPorts(): void {
    const holders = new Map<number, string>()
    for (const instance of this.backend().instances.values()) {
      for (const port of instance.ports) {
        const holder = holders.get(port.public)
        if (holder !== undefined) {
          throw new Violation(`port ${port.public} has two holders: ${holder} and ${instance.spec.ref.name}`)
        }
        holders.set(port.public, instance.spec.ref.name)
      }
    }
  }
}
