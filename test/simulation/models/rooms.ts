/** The sessions of a game that takes several at the same time: they begin with the fleet's answers, and each ends at a random time. */
import type { HeartbeatAnswer, NumberedSessionConfig } from '../../../src/rules/game/heartbeat.js'
import { afterAnswer, afterOwnEnd, noOwnSessions, reportOf } from '../../../src/rules/game/own-sessions.js'
import type { World } from '../world/world.js'

export interface RoomsDependencies {
  readonly longestMs: number
  began(session: NumberedSessionConfig): void
  ended(session: NumberedSessionConfig): void
}

export class Rooms {
  #own = noOwnSessions

  constructor(
    readonly world: World,
    readonly deps: RoomsDependencies,
  ) {}

  /** The id of the first session that runs. */
  get first(): string | undefined {
    return this.#own.running[0]?.sessionId
  }

  get running(): readonly NumberedSessionConfig[] {
    return this.#own.running
  }

  /** What heartbeats say. */
  get report() {
    return { several: reportOf(this.#own) }
  }

  answered({ sessions }: HeartbeatAnswer): void {
    if (!sessions) return
    const { own, begun, ending } = afterAnswer(this.#own, sessions)
    this.#own = own
    for (const session of begun) {
      this.deps.began(session)
      this.#endLater(session, this.world.between(1_000, this.deps.longestMs))
    }
    for (const session of ending) this.#endLater(session, this.world.between(0, 5_000))
  }

  #endLater(session: NumberedSessionConfig, ms: number): void {
    this.world.after(ms, () => {
      const isRunning = this.#own.running.some(({ number }) => number === session.number)
      // Sessions do not end while the fleet has to reach quiescence.
      if (!this.world.faultsEnabled || !isRunning) return
      this.deps.ended(session)
      this.#own = afterOwnEnd(this.#own, session.number)
    })
  }
}
