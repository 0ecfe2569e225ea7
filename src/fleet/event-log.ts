/**
 * A bounded, numbered, in-memory log of events. When it is full, each new event replaces the oldest. A reader that falls
 * behind gets `EventsDropped`.
 */
import type {
  EventsDropped,
  FleetEvent,
  LoggedEvents,
  ReadEventsOptions,
  UnnumberedEvent,
} from '../contracts/events.js'

export class EventLog implements LoggedEvents {
  /** Ring buffer: event `seq` is at index `seq % size`. */
  readonly #ring: FleetEvent[] = []
  #last = 0
  #waiting: (() => void)[] = []
  #closed = false

  constructor(readonly size: number) {}

  get last(): number {
    return this.#last
  }

  /** Assigns the next number to the event and adds it to the log. */
  append(event: UnnumberedEvent): FleetEvent {
    const numbered = Object.assign(event, { seq: ++this.#last })
    this.#ring[this.#last % this.size] = numbered
    this.#wake()
    return numbered
  }

  *[Symbol.iterator](): Iterator<FleetEvent> {
    for (let seq = this.#first(); seq <= this.#last; seq++) {
      const event = this.#ring[seq % this.size]
      if (event) yield event
    }
  }

  /** The start position is fixed when `read` is called, not at the first `next`. */
  read({ from = this.#last + 1, signal }: ReadEventsOptions = {}): AsyncGenerator<FleetEvent | EventsDropped> {
    // A number beyond the next one comes from another host's log and means nothing here, so start with the oldest event.
    return this.#follow(from > this.#last + 1 ? 1 : Math.max(1, from), signal)
  }

  /** Ends all current and future readers once they have read the last event in the log. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  async *#follow(next: number, signal: AbortSignal | undefined): AsyncGenerator<FleetEvent | EventsDropped> {
    const aborted = () => this.#wake()
    signal?.addEventListener('abort', aborted)
    try {
      while (!signal?.aborted) {
        const first = this.#first()
        if (next < first) {
          yield dropped(next, first - 1)
          next = first
        }
        const event = next <= this.#last ? this.#ring[next % this.size] : undefined
        if (event) {
          next++
          yield event
        } else if (this.#closed) {
          return
        } else {
          await new Promise<void>((resolve) => this.#waiting.push(resolve))
        }
      }
    } finally {
      signal?.removeEventListener('abort', aborted)
    }
  }

  #first(): number {
    return Math.max(1, this.#last - this.size + 1)
  }

  #wake(): void {
    if (this.#waiting.length === 0) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const fn of waiting) fn()
  }
}

function dropped(from: number, to: number): EventsDropped {
  return { type: 'EventsDropped', seq: to, from, message: `events ${from} to ${to} are no longer in the log` }
}
