/**
 * Postpones answers to heartbeats of servers that are standing by, so that their games learn of a session or a termination at
 * once instead of with the next heartbeat. At most one answer per server, and constant work for each.
 */
import { type HeartbeatAnswer, type ParkedHeartbeat, parkTimeMs } from '../../rules/game/heartbeat.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { isBeingAllocated } from '../state/queries.js'

interface ParkedAnswer {
  readonly heartbeat: ParkedHeartbeat
  readonly cancelTimer: () => void
}

export class ParkedHeartbeats {
  readonly #ctx: EngineContext
  readonly #answerOf: (entry: ServerEntry) => HeartbeatAnswer
  readonly #parked = new Map<ServerEntry, ParkedAnswer>()

  /** `answerOf` returns the current answer to a heartbeat that reports StandingBy. */
  constructor(ctx: EngineContext, answerOf: (entry: ServerEntry) => HeartbeatAnswer) {
    this.#ctx = ctx
    this.#answerOf = answerOf
  }

  /** Implements `Fleet.parkHeartbeat`. */
  park(hostId: string, heartbeat: ParkedHeartbeat): (() => void) | undefined {
    const { clock, inventory, limits } = this.#ctx
    const entry = inventory.serverByHostId(hostId)
    if (!entry || this.#ctx.stopped()) return undefined
    const parkMs = parkTimeMs(heartbeat.waitMs, limits.heartbeatIntervalMs, isBeingAllocated(entry))
    if (!(parkMs > 0)) return undefined
    this.supersede(entry)
    const timeOut = () => this.#send(entry, parked)
    const parked: ParkedAnswer = {
      heartbeat,
      cancelTimer: parkMs === Infinity ? noTimer : clock.after(parkMs, timeOut),
    }
    this.#parked.set(entry, parked)
    if (entry.bucket === 'ready') entry.build.parkedReady.add(entry)
    return () => void this.#end(entry, parked)
  }

  /** Call when the answer to the server's heartbeat may have changed. */
  answerChanged(entry: ServerEntry): void {
    const parked = this.#parked.get(entry)
    if (!parked) return
    if (isNews(this.#answerOf(entry))) this.#send(entry, parked)
    // Its game has ended a session with this heartbeat.
    else if (entry.bucket === 'ready') entry.build.parkedReady.add(entry)
  }

  /** Call when another heartbeat of the server arrives. */
  supersede(entry: ServerEntry): void {
    const parked = this.#parked.get(entry)
    if (parked) this.#send(entry, parked)
  }

  /** Answers all of them in a way that lets the games connect to another host. */
  stop(): void {
    const nextHeartbeatIntervalMs = this.#ctx.limits.heartbeatIntervalMs
    for (const [entry, parked] of [...this.#parked]) {
      this.#send(entry, parked, { operation: 'Continue', nextHeartbeatIntervalMs, isElsewhere: true })
    }
  }

  #send(entry: ServerEntry, parked: ParkedAnswer, answer = this.#answerOf(entry)): void {
    if (!this.#end(entry, parked)) return
    try {
      parked.heartbeat.answer(answer)
    } catch (error) {
      this.#ctx.logger.error({ server: entry.record.name, err: error }, 'parked heartbeat could not be answered')
    }
  }

  /** Returns false if it has been answered already. */
  #end(entry: ServerEntry, parked: ParkedAnswer): boolean {
    if (this.#parked.get(entry) !== parked) return false
    this.#parked.delete(entry)
    entry.build.parkedReady.delete(entry)
    parked.cancelTimer()
    return true
  }
}

const noTimer = () => {}

/** True if the game acts on the answer. */
function isNews({ operation, sessionConfig }: HeartbeatAnswer): boolean {
  return operation !== 'Continue' || sessionConfig !== undefined
}
