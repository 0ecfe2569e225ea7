/**
 * Passes events on once every change of the inventory has been handled, so that listeners find the fleet in order, and what they call is
 * not part of a change. In the same tick, in the order in which the events were emitted.
 */
import type { FleetEmitter, UnnumberedEvent } from '../contracts/events.js'

export class Outbox {
  readonly #emitter: Pick<FleetEmitter, 'emit'>
  readonly #isHandling: () => boolean
  readonly #events: UnnumberedEvent[] = []
  #isSending = false

  /** `isHandling`: whether changes are being handled. When that is over, call `flush`. */
  constructor(emitter: Pick<FleetEmitter, 'emit'>, isHandling: () => boolean) {
    this.#emitter = emitter
    this.#isHandling = isHandling
  }

  emit(event: UnnumberedEvent): void {
    this.#events.push(event)
    if (!this.#isHandling()) this.flush()
  }

  /** Events emitted by listeners are sent last. */
  flush(): void {
    if (this.#isSending) return
    this.#isSending = true
    let sent = 0
    try {
      for (const event of this.#events) {
        sent++
        this.#emitter.emit(event)
      }
    } finally {
      this.#events.splice(0, sent)
      this.#isSending = false
    }
  }
}
