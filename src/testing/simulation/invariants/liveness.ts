/**
 * Invariant: every server leaves each transitional state within a bounded time, and a dead process is detected. Counts only
 * "fair" time, during which the leader can act.
 */
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServer } from '../../../rules/model/wire.js'
import { unrunnableBuildName } from '../context.js'
import { type BackendModel, cannotBeCreated, type ModelInstance } from '../models/backend-model.js'
import type { World } from '../world/world.js'
import { buildNameOf, isInvalid, type FleetSnapshot } from './snapshot.js'

interface Observed {
  readonly situation: string
  readonly fairMs: number
}

export class Liveness {
  #fairMs = 0
  /** The fair time at the last interruption. The fleet restarts its timeouts after an interruption. */
  #interruptedAtMs = 0
  #countedUntil = 0
  #since = new Map<string, Observed>()

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

/** True if its start or its create hangs. Late servers are checked separately. */
function mayHang(server: GameServer, instance: ModelInstance | undefined): boolean {
  return instance?.hangs ?? buildNameOf(server) === unrunnableBuildName
}
