/**
 * The sessions whose end this host has reported, so that it reports each once, can say for a while how it has ended, and can answer those
 * who wait for it. Bounded by number and time; nothing is kept of a session while it runs.
 */
import type { Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import type { EventOf, FleetEmitter, UnnumberedEvent } from '../contracts/events.js'
import { sessionKey } from '../rules/model/names.js'

type Ended = EventOf<'SessionEnded'>

const keptMs = 60 * 60_000

export class EndedSessions {
  readonly #clock: Pick<Clock, 'after' | 'elapsed'>
  readonly #size: number
  /** By key, in the order in which they have ended. Of several with the same id, the last. */
  readonly #ended = new Map<string, { readonly event: Ended; readonly since: number }>()
  readonly #waiting = new Map<string, Set<(outcome: Ended | FleetError) => void>>()

  constructor(clock: Pick<Clock, 'after' | 'elapsed'>, size: number) {
    this.#clock = clock
    this.#size = size
  }

  /** Emits the event, unless this host has done so before. */
  report(
    unnumbered: Extract<UnnumberedEvent, { readonly type: 'SessionEnded' }>,
    emitter: Pick<FleetEmitter, 'emit'>,
  ): void {
    const { sessionID, sessionUid } = unnumbered
    const key = sessionKey(sessionID)
    if (this.#ended.get(key)?.event.sessionUid === sessionUid) return
    // The log numbers this object.
    const event = Object.assign(unnumbered, { seq: 0 })
    this.#ended.delete(key)
    this.#ended.set(key, { event, since: this.#clock.elapsed() })
    this.#forgetOld()
    emitter.emit(event)
    this.#settle(key, event)
  }

  find(sessionID: string): Ended | undefined {
    this.#forgetOld()
    return this.#ended.get(sessionKey(sessionID))?.event
  }

  /** Resolves with the next end of a session with this id. Rejects with `aborted` when the signal fires, or after `waitMs`. */
  next(
    sessionID: string,
    { signal, waitMs }: { readonly signal?: AbortSignal; readonly waitMs?: number },
  ): Promise<Ended> {
    const key = sessionKey(sessionID)
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting)
      const settle = (outcome: Ended | FleetError) => {
        waiting.delete(settle)
        if (waiting.size === 0) this.#waiting.delete(key)
        cancel()
        signal?.removeEventListener('abort', abort)
        if (FleetError.is(outcome)) reject(outcome)
        else resolve(outcome)
      }
      const abort = () => {
        settle(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason }))
      }
      const late = () => settle(new FleetError('aborted', `session ${sessionID} has not ended within ${waitMs} ms`))
      const cancel = waitMs === undefined ? () => {} : this.#clock.after(waitMs, late)
      signal?.addEventListener('abort', abort)
      waiting.add(settle)
    })
  }

  /** Call when this host does not hear of ends any longer. */
  rejectAll(error: FleetError): void {
    for (const key of [...this.#waiting.keys()]) this.#settle(key, error)
  }

  #settle(key: string, outcome: Ended | FleetError): void {
    for (const settle of [...(this.#waiting.get(key) ?? [])]) settle(outcome)
  }

  #forgetOld(): void {
    const oldest = this.#clock.elapsed() - keptMs
    for (const [key, { since }] of this.#ended) {
      if (since > oldest && this.#ended.size <= this.#size) return
      this.#ended.delete(key)
    }
  }
}
