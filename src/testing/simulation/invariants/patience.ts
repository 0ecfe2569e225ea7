/**
 * Whatever is not final ends in bounded time, and what is dead is noticed. Only the time counts in which the leader could
 * have done something about it.
 */
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServer } from '../../../rules/model/wire.js'
import type { BackendModel } from '../backend-model.js'
import type { World } from '../world.js'
import { buildNameOf, isInvalid, type Seen } from './seen.js'

interface Since {
  readonly situation: string
  readonly fairMs: number
}

export class Patience {
  /** Fair time so far. */
  #fairMs = 0
  /** What of it was over when the host last heard nobody for a while: then it gives everybody time again. */
  #brokenAtMs = 0
  #lookedAt = 0
  #since = new Map<string, Since>()

  constructor(
    readonly world: World,
    readonly backend: () => BackendModel,
    readonly limitMs: number,
  ) {}

  /** Called at every step. */
  passed(fair: boolean): void {
    if (fair) this.#fairMs += this.world.elapsedMs - this.#lookedAt
    else this.#brokenAtMs = this.#fairMs
    this.#lookedAt = this.world.elapsedMs
  }

  check(seen: Seen): void {
    const since = new Map<string, Since>()
    const invalid = new Set(seen.builds.filter(isInvalid).map(({ metadata }) => metadata.name))
    for (const [key, server] of seen.servers) {
      const situation = this.#situation(server, invalid.has(buildNameOf(server)))
      if (situation === undefined) continue
      const before = this.#since.get(key)
      const now = before?.situation === situation ? before : { situation, fairMs: this.#fairMs }
      since.set(key, now)
      const from = situation === 'Initializing' ? Math.max(now.fairMs, this.#brokenAtMs) : now.fairMs
      const waitedMs = this.#fairMs - from
      if (waitedMs <= this.limitMs) continue
      const why = server.status.message ?? 'nobody knows why'
      this.world.breach(`stuck: ${server.metadata.name} is ${situation} for ${waitedMs / 1000} s (${why})`)
    }
    this.#since = since
  }

  /** What must not last, in words. */
  #situation({ metadata, status }: GameServer, isInvalid: boolean): string | undefined {
    const instance = this.backend().instances.get(keyOf(metadata))
    switch (status.state) {
      case 'Pending':
        // Nothing is started from a spec that breaks a rule.
        if (isInvalid) return undefined
        // With no port left, or no such image, there is nothing that the fleet could do.
        return status.message === undefined || !status.message.startsWith('no ') ? 'Pending' : undefined
      case 'Initializing':
        return instance?.game?.running && instance.game.character === 'never-ready' ? undefined : 'Initializing'
      case 'StandingBy':
      case 'Active':
        return instance?.game?.running ? undefined : `${status.state} though its process is dead`
      case 'Terminating':
        return 'Terminating'
    }
  }
}
