/**
 * Postpones answers to heartbeats of servers that are standing by, so that their games learn of a session or a termination at
 * once instead of with the next heartbeat. At most one answer per server, and constant work for each.
 */
import { type HeartbeatAnswer, type HeartbeatHold, holdTimeMs } from '../../rules/game/heartbeat.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { isBeingAllocated } from '../state/queries.js'

interface HeldAnswer {
  readonly hold: HeartbeatHold
  readonly cancelTimer: () => void
}

export class HeldHeartbeats {
  readonly #ctx: EngineContext
  readonly #answerOf: (entry: ServerEntry) => HeartbeatAnswer
  readonly #held = new Map<ServerEntry, HeldAnswer>()

  /** `answerOf` returns the current answer to a heartbeat that reports StandingBy. */
  constructor(ctx: EngineContext, answerOf: (entry: ServerEntry) => HeartbeatAnswer) {
    this.#ctx = ctx
    this.#answerOf = answerOf
  }

  /** Implements `Fleet.holdHeartbeat`. */
  hold(hostId: string, hold: HeartbeatHold): (() => void) | undefined {
    const { clock, inventory, limits } = this.#ctx
    const entry = inventory.serverByHostId(hostId)
    if (!entry || this.#ctx.stopped()) return undefined
    const holdMs = holdTimeMs(hold.waitMs, limits.heartbeatIntervalMs, isBeingAllocated(entry))
    if (!(holdMs > 0)) return undefined
    this.supersede(entry)
    const timeOut = () => this.#send(entry, held)
    const held: HeldAnswer = { hold, cancelTimer: holdMs === Infinity ? noTimer : clock.after(holdMs, timeOut) }
    this.#held.set(entry, held)
    if (entry.bucket === 'ready') entry.build.heldReady.add(entry)
    return () => void this.#end(entry, held)
  }

  /** Call when the answer to the server's heartbeat may have changed. */
  answerChanged(entry: ServerEntry): void {
    const held = this.#held.get(entry)
    if (!held) return
    if (isNews(this.#answerOf(entry))) this.#send(entry, held)
    // Its game has ended a session with this heartbeat.
    else if (entry.bucket === 'ready') entry.build.heldReady.add(entry)
  }

  /** Call when another heartbeat of the server arrives. */
  supersede(entry: ServerEntry): void {
    const held = this.#held.get(entry)
    if (held) this.#send(entry, held)
  }

  /** Ends all holds with an answer that lets the games connect to another host. */
  stop(): void {
    const nextHeartbeatIntervalMs = this.#ctx.limits.heartbeatIntervalMs
    for (const [entry, held] of [...this.#held]) {
      this.#send(entry, held, { operation: 'Continue', nextHeartbeatIntervalMs, isElsewhere: true })
    }
  }

  #send(entry: ServerEntry, held: HeldAnswer, answer = this.#answerOf(entry)): void {
    if (!this.#end(entry, held)) return
    try {
      held.hold.answer(answer)
    } catch (error) {
      this.#ctx.logger.error({ server: entry.record.name, err: error }, 'held heartbeat could not be answered')
    }
  }

  /** Returns false if the hold has already ended. */
  #end(entry: ServerEntry, held: HeldAnswer): boolean {
    if (this.#held.get(entry) !== held) return false
    this.#held.delete(entry)
    entry.build.heldReady.delete(entry)
    held.cancelTimer()
    return true
  }
}

const noTimer = () => {}

/** True if the game acts on the answer. */
function isNews({ operation, sessionConfig }: HeartbeatAnswer): boolean {
  return operation !== 'Continue' || sessionConfig !== undefined
}
