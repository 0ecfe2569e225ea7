/**
 * Invariants: every server leaves each transitional state within a bounded time, and a dead process is detected. A build that
 * has fewer servers standing by than it wants for longer than a bounded time says why, in a condition or by its health. Counts
 * only "fair" time, during which the leader can act.
 */
import { standingByOf } from '../../../src/rules/model/build-status.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import { unrunnableBuildName } from '../context.js'
import { type BackendModel, cannotBeCreated, type ModelInstance } from '../models/backend-model.js'
import type { World } from '../world/world.js'
import type { Host } from '../world/host.js'
import { buildNameOf, isInvalid, reservedIn, type FleetSnapshot } from './snapshot.js'

interface Observed {
  readonly situation: string
  readonly fairMs: number
}

/** A build that wants more servers than are standing by, and does not say why. */
interface Shortage {
  readonly fairMs: number
  readonly spec: string
  /** Each allocation takes one of the servers that were standing by, so it starts the time again. */
  readonly sessions: ReadonlySet<string>
}

/**
 * Longest time for which a build may lack servers without a condition. A server that says nothing is late, or is given up, after a
 * minute.
 */
const unexplainedMs = 150_000

export class Liveness {
  #fairMs = 0
  /** The fair time at the last interruption. The fleet restarts its timeouts after an interruption. */
  #interruptedAtMs = 0
  #countedUntil = 0
  #since = new Map<string, Observed>()
  #shortages = new Map<string, Shortage>()
  #host: Host | undefined

  constructor(
    readonly world: World,
    readonly backend: () => BackendModel,
    readonly limitMs: number,
  ) {}

  /** Called at every step. */
  timePassed(fair: boolean): void {
    if (fair) this.#fairMs += this.world.elapsedMs - this.#countedUntil
    else this.#interruptedAtMs = this.#fairMs
    this.#countedUntil = this.world.elapsedMs
  }

  check(snapshot: FleetSnapshot): void {
    const since = new Map<string, Observed>()
    const invalid = new Set(snapshot.builds.filter(isInvalid).map(({ metadata }) => metadata.name))
    for (const [key, server] of snapshot.servers) {
      const situation = this.#situation(server, invalid.has(buildNameOf(server)))
      if (situation === undefined) continue
      const before = this.#since.get(key)
      const now = before?.situation === situation ? before : { situation, fairMs: this.#fairMs }
      since.set(key, now)
      const from = situation === 'Initializing' ? Math.max(now.fairMs, this.#interruptedAtMs) : now.fairMs
      const waitedMs = this.#fairMs - from
      if (waitedMs <= this.limitMs) continue
      const reason = server.status.message ?? 'no message'
      this.world.violate(`stuck: ${server.metadata.name} has been ${situation} for ${waitedMs / 1000} s (${reason})`)
    }
    this.#since = since
    this.#checkShortages(snapshot)
  }

  #checkShortages(snapshot: FleetSnapshot): void {
    const before = this.#host === snapshot.host ? this.#shortages : new Map<string, Shortage>()
    this.#host = snapshot.host
    this.#shortages = new Map()
    for (const build of snapshot.builds) {
      const { name } = build.metadata
      const lacking = lackingServers(build, snapshot)
      if (lacking <= 0 || build.status.conditions || build.status.health === 'Unhealthy') continue
      const spec = JSON.stringify(build.spec)
      const sessions = sessionsOf(build, snapshot)
      const last = before.get(name)
      const goesOn = last?.spec === spec && [...sessions].every((id) => last.sessions.has(id))
      const fairMs = Math.max(goesOn ? last.fairMs : this.#fairMs, this.#interruptedAtMs)
      this.#shortages.set(name, { fairMs, spec, sessions })
      const lackedMs = this.#fairMs - fairMs
      if (lackedMs <= unexplainedMs) continue
      this.world.violate(
        `build ${name} has lacked ${lacking} servers for ${lackedMs / 1000} s and no condition says why`,
      )
    }
  }

  /** Describes the server's situation if it must not last; otherwise undefined. */
  #situation(server: GameServer, isInvalid: boolean): string | undefined {
    const { metadata, status } = server
    const instance = this.backend().instances.get(keyOf(metadata))
    switch (status.state) {
      case 'Pending':
        // The fleet does not start servers of a build whose spec is invalid.
        return isInvalid || cannotBeCreated(server) || mayHang(server, instance) ? undefined : 'Pending'
      case 'Initializing':
        return instance?.game?.running && instance.game.behavior === 'never-ready' ? undefined : 'Initializing'
      case 'StandingBy':
      case 'Active':
        return instance?.game?.running ? undefined : `${status.state} although its process is dead`
      case 'Terminating':
        return 'Terminating'
    }
  }
}

/** How many servers a build has too few. Reserved ones count like Active ones. */
function lackingServers(build: GameServerBuild, snapshot: FleetSnapshot): number {
  const { metadata, spec, status } = build
  const reserved = reservedIn(snapshot, metadata.name)
  const standingBy = status.currentStandingBy - reserved.filter((one) => one.status.state === 'StandingBy').length
  const wanted = Math.max(0, Math.min(standingByOf(build), spec.max - status.currentActive - reserved.length))
  return wanted - standingBy
}

function sessionsOf({ metadata }: GameServerBuild, { servers }: FleetSnapshot): ReadonlySet<string> {
  const own = [...servers.values()].filter((server) => buildNameOf(server) === metadata.name)
  return new Set(own.flatMap(({ status }) => status.sessionID ?? []))
}

/** True if its start or its create hangs. Late servers are checked separately. */
function mayHang(server: GameServer, instance: ModelInstance | undefined): boolean {
  return instance?.hangs ?? buildNameOf(server) === unrunnableBuildName
}
