/** Invariant: a build never exceeds `max`, its counters equal a recount, and its crash count never decreases. */
import { standingByOf } from '../../../src/rules/model/build-status.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import type { BackendModel } from '../models/backend-model.js'
import type { World } from '../world/world.js'
import { buildNameOf, type FleetSnapshot } from './snapshot.js'

interface Before {
  readonly total: number
  readonly crashes: number
  readonly health: string
}

export class Counts {
  /** The counts at the last check, by build name and creation time. */
  readonly #before = new Map<string, Before>()
  /** Names of servers that were there at an earlier check. */
  readonly #known = new Set<string>()
  /** Names of builds for which a server was created since the last check. */
  readonly #created = new Set<string>()

  constructor(
    readonly world: World,
    readonly backend: () => BackendModel,
  ) {}

  serverCreated(build: string): void {
    this.#created.add(build)
  }

  check(snapshot: FleetSnapshot): void {
    const byBuild = new Map<string, GameServer[]>()
    const sessions = new Set<string>()
    for (const server of snapshot.servers.values()) {
      const build = buildNameOf(server)
      const list = byBuild.get(build)
      if (list) list.push(server)
      else byBuild.set(build, [server])
      const { sessionID } = server.status
      if (sessionID === undefined) continue
      if (sessions.has(sessionID)) this.world.violate(`session ${sessionID} is listed on two servers`)
      sessions.add(sessionID)
    }
    for (const build of snapshot.builds) this.#checkBuild(build, byBuild.get(build.metadata.name) ?? [])
    this.#created.clear()
    this.#checkPorts()
  }

  #checkBuild(build: GameServerBuild, servers: readonly GameServer[]): void {
    const { spec, status, metadata } = build
    const { name } = metadata
    const key = `${name} ${metadata.creationTimestamp}`
    const before = this.#before.get(key)
    const total = status.currentPending + status.currentInitializing + status.currentStandingBy + status.currentActive
    this.#before.set(key, { total, crashes: status.crashesCount, health: status.health })
    // After `max` was lowered, there may still be more servers than `max`, but their number must not grow. A new leader may find
    // servers again whose end the last one had not stored.
    const isNew = ({ metadata, status }: GameServer) =>
      status.state !== 'Terminating' && !this.#known.has(metadata.name)
    const hasNew = servers.some(isNew)
    for (const server of servers) this.#known.add(server.metadata.name)
    if (hasNew && total > Math.max(spec.max, before?.total ?? 0)) {
      this.world.violate(`more servers than max: build ${name} has ${total}, max is ${spec.max}`)
    }
    if (status.crashesCount < (before?.crashes ?? 0)) {
      this.world.violate(`the crash count decreased: build ${name} has ${status.crashesCount} after ${before?.crashes}`)
    }
    if (this.#created.has(name) && before?.health === 'Unhealthy' && status.health === 'Unhealthy') {
      this.world.violate(`build ${name} is Unhealthy and created a server`)
    }
    const readyOfDesired = `${status.currentStandingBy}/${standingByOf({ spec, status })}`
    if (status.currentStandingByReadyDesired !== readyOfDesired) {
      this.world.violate(
        `build ${name} reports ${status.currentStandingByReadyDesired} servers standing by, but has ${readyOfDesired}`,
      )
    }
    this.#recount(build, servers)
  }

  /** Ignores Terminating servers, which include any left over from a deleted build with the same name. */
  #recount({ status, metadata }: GameServerBuild, servers: readonly GameServer[]): void {
    const count = (state: string) => servers.filter((server) => server.status.state === state).length
    const { currentPending, currentInitializing, currentStandingBy, currentActive } = status
    const reported = [currentPending, currentInitializing, currentStandingBy, currentActive].join(', ')
    const recounted = [count('Pending'), count('Initializing'), count('StandingBy'), count('Active')].join(', ')
    if (reported !== recounted) {
      this.world.violate(
        `build ${metadata.name} reports ${reported} servers (Pending, Initializing, StandingBy, Active), a recount gives ${recounted}`,
      )
    }
  }

  #checkPorts(): void {
    const holders = new Map<number, string>()
    for (const { ports, spec } of this.backend().instances.values()) {
      for (const port of ports) {
        const holder = holders.get(port.public)
        if (holder !== undefined) {
          this.world.violate(`port ${port.public} is used by ${holder} and ${spec.ref.name}`)
        }
        holders.set(port.public, spec.ref.name)
      }
    }
  }
}
