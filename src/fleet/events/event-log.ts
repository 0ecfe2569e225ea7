/**
 * A bounded, numbered, in-memory log of events. When it is full, each new event replaces the oldest. A reader that falls
 * behind gets `EventsDropped`.
 */
import type {
  EventReader,
  EventsDropped,
  FleetEvent,
  LoggedEvents,
  ReadEventsOptions,
  UnnumberedEvent,
} from '../../contracts/events.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { messageOf } from './event-messages.js'

export class EventLog implements LoggedEvents {
  /** Ring buffer: event `seq` is at index `seq % size`. */
  readonly #ring: UnnumberedEvent[] = []
  #last = 0
  #waiting = new Set<() => void>()
  #closed = false

  constructor(readonly size: number) {}

  get last(): number {
    return this.#last
  }

  /** Adds the event to the log. Returns its number. */
  append(event: UnnumberedEvent): number {
    const seq = ++this.#last
    this.#ring[seq % this.size] = event
    this.#wake()
    return seq
  }

  *[Symbol.iterator](): Iterator<FleetEvent> {
    for (let seq = this.#first(); seq <= this.#last; seq++) {
      const event = this.#event(seq)
      if (event) yield event
    }
  }

  /** The start position is fixed when `read` is called, not at the first `next`. */
  read({ from = this.#last + 1, signal }: ReadEventsOptions = {}): EventReader {
    // A number beyond the next one comes from another host's log and means nothing here, so start with the oldest event.
    return new LogReader(this, from > this.#last + 1 ? 1 : Math.max(1, from), signal)
  }

  /** Returns event number `seq`, or what says that it is no longer in the log. Undefined if it has not been emitted yet. */
  at(seq: number): FleetEvent | EventsDropped | undefined {
    const first = this.#first()
    if (seq < first) return dropped(seq, first - 1)
    return seq <= this.#last ? this.#event(seq) : undefined
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** Calls `fn` once, when an event is added or the log closes. Returns a function that cancels this. */
  onceChanged(fn: () => void): () => void {
    this.#waiting.add(fn)
    return () => void this.#waiting.delete(fn)
  }

  /** Ends all current and future readers once they have read the last event in the log. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  #event(seq: number): FleetEvent | undefined {
    const event = this.#ring[seq % this.size]
    if (event) complete(event, seq)
    return event
  }

  #first(): number {
    return Math.max(1, this.#last - this.size + 1)
  }

  #wake(): void {
    if (this.#waiting.size === 0) return
    const waiting = this.#waiting
    this.#waiting = new Set()
    for (const fn of waiting) fn()
  }
}

class LogReader implements EventReader {
  readonly #log: EventLog
  readonly #signal: AbortSignal | undefined
  #next: number
  #ended = false
  #wake = () => {}

  constructor(log: EventLog, from: number, signal: AbortSignal | undefined) {
    this.#log = log
    this.#next = from
    this.#signal = signal
  }

  take(): FleetEvent | EventsDropped | undefined {
    const event = this.#isOver() ? undefined : this.#log.at(this.#next)
    if (event) this.#next = event.seq + 1
    return event
  }

  async next(): Promise<IteratorResult<FleetEvent | EventsDropped, undefined>> {
    for (;;) {
      const value = this.take()
      if (value) return { done: false, value }
      if (this.#isOver() || this.#log.isClosed) return { done: true, value: undefined }
      await this.#changed()
    }
  }

  return(): Promise<IteratorResult<FleetEvent | EventsDropped, undefined>> {
    this.#ended = true
    this.#wake()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #isOver(): boolean {
    return this.#ended || this.#signal?.aborted === true
  }

  /** Resolves when there may be another event, or when reading has ended. */
  async #changed(): Promise<void> {
    const signal = this.#signal
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      cancel = this.#log.onceChanged(resolve)
      this.#wake = resolve
      signal?.addEventListener('abort', this.#wake)
    })
    cancel()
    signal?.removeEventListener('abort', this.#wake)
  }
}

/**
 * Gives the event its number, and its message if that is composed. Done when the event is first read, and on the event itself: most
 * events never are, and allocations emit several each.
 */
export function complete(
  event: UnnumberedEvent & { message: string; seq?: number },
  seq: number,
): asserts event is FleetEvent {
  if (event.message === '') event.message = cutMessage(messageOf(event))
  event.seq = seq
}

function dropped(from: number, to: number): EventsDropped {
  return { type: 'EventsDropped', seq: to, from, message: `events ${from} to ${to} are no longer in the log` }
}
