/** What a build says of itself: never more than max, counters equal to a recount, crashes that never become fewer. */
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { BackendModel } from '../backend-model.js'
import type { World } from '../world.js'
import { buildNameOf, type Seen } from './seen.js'

interface Before {
  readonly total: number
  readonly crashes: number
  readonly health: string
}

export class Counts {
  /** By name and time of creation. */
  readonly #before = new Map<string, Before>()
  /** Names of builds that got a server since the last look. */
  readonly #created = new Set<string>()

  constructor(
    readonly world: World,
    readonly backend: () => BackendModel,
  ) {}

  serverCreated(build: string): void {
    this.#created.add(build)
  }

  check(seen: Seen): void {
    const byBuild = new Map<string, GameServer[]>()
    const sessions = new Set<string>()
    for (const server of seen.servers.values()) {
      const build = buildNameOf(server)
      const list = byBuild.get(build)
      if (list) list.push(server)
      else byBuild.set(build, [server])
      const { sessionID } = server.status
      if (sessionID === undefined) continue
      if (sessions.has(sessionID)) this.world.breach(`session ${sessionID} stands on two servers of the list`)
      sessions.add(sessionID)
    }
    for (const build of seen.builds) this.#checkBuild(build, byBuild.get(build.metadata.name) ?? [])
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
    // A lowered max may leave more Active servers than it allows; then there must never be yet more.
    if (total > Math.max(spec.max, before?.total ?? 0)) {
      this.world.breach(`more than max: build ${name} has ${total} servers with max ${spec.max}`)
    }
    if (status.crashesCount < (before?.crashes ?? 0)) {
      this.world.breach(`crashes were forgotten: build ${name} has ${status.crashesCount} after ${before?.crashes}`)
    }
    if (this.#created.has(name) && before?.health === 'Unhealthy' && status.health === 'Unhealthy') {
      this.world.breach(`build ${name} is Unhealthy and got a new server`)
    }
    const readyOfDesired = `${status.currentStandingBy}/${spec.standingBy}`
    if (status.currentStandingByReadyDesired !== readyOfDesired) {
      this.world.breach(`build ${name} says ${status.currentStandingByReadyDesired}, and has ${readyOfDesired}`)
    }
    this.#recount(build, servers)
  }

  /** Servers of a deleted build of the same name are still listed while they end; those are Terminating. */
  #recount({ status, metadata }: GameServerBuild, servers: readonly GameServer[]): void {
    const count = (state: string) => servers.filter((server) => server.status.state === state).length
    const { currentPending, currentInitializing, currentStandingBy, currentActive } = status
    const told = [currentPending, currentInitializing, currentStandingBy, currentActive].join(', ')
    const recounted = [count('Pending'), count('Initializing'), count('StandingBy'), count('Active')].join(', ')
    if (told !== recounted) {
      this.world.breach(
        `build ${metadata.name} counts ${told} servers (Pending, Initializing, StandingBy, Active), a recount ${recounted}`,
      )
    }
  }

  #checkPorts(): void {
    const holders = new Map<number, string>()
    for (const { ports, spec } of this.backend().instances.values()) {
      for (const port of ports) {
        const holder = holders.get(port.public)
        if (holder !== undefined) {
          this.world.breach(`port ${port.public} has two holders: ${holder} and ${spec.ref.name}`)
        }
        holders.set(port.public, spec.ref.name)
      }
    }
  }
}
