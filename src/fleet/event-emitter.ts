/**
 * Numbers events, adds them to the log, and calls listeners. A listener that throws affects neither the fleet nor other
 * listeners.
 */
import { EventEmitter } from 'eventemitter3'
import type { AuditedAction } from '../contracts/call-options.js'
import { FleetError } from '../contracts/errors.js'
import {
  checkEventType,
  type EventListener,
  type EventReader,
  type EventsDropped,
  type FleetEmitter,
  type FleetEvent,
  type FleetEventType,
  type LoggedEvents,
  type ReadEventsOptions,
  type UnnumberedEvent,
} from '../contracts/events.js'
import type { Logger } from '../contracts/logger.js'
import { keyOf } from '../rules/model/resources.js'
import { cutMessage } from '../rules/model/sizes.js'
import { isPromise } from '../rules/model/values.js'
import { shown } from '../rules/validation/problem.js'

/** Frequent events that are of no use for diagnosis later: listeners get them, but the log omits them. */
const notLogged: ReadonlySet<FleetEventType> = new Set(['PlayersChanged'])

export class Emitter implements FleetEmitter {
  readonly #logger: Logger
  readonly #log: EventLog
  readonly #listeners = new EventEmitter<string>()

  constructor(logger: Logger, logSize: number) {
    this.#logger = logger
    this.#log = new EventLog(logSize)
  }

  emit(emitted: UnnumberedEvent): void {
    const event = withShortMessage(emitted)
    const seq = notLogged.has(event.type) ? 0 : this.#log.append(event)
    if (this.#listeners.listenerCount(event.type) === 0 && this.#listeners.listenerCount('*') === 0) return
    complete(event, seq)
    this.#listeners.emit(event.type, event)
    this.#listeners.emit('*', event)
  }

  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void {
    if (type !== '*') checkEventType('on', type)
    if (typeof listener !== 'function') {
      throw new FleetError('invalid', `on: the listener must be a function, but is ${shown(listener)}`)
    }
    const guarded = (event: Parameters<typeof listener>[0]) => {
      try {
        const result: unknown = listener(event)
        if (isPromise(result)) result.catch((error: unknown) => this.#listenerFailed(type, error))
      } catch (error) {
        this.#listenerFailed(type, error)
      }
    }
    this.#listeners.on(type, guarded)
    return () => {
      this.#listeners.off(type, guarded)
    }
  }

  read(options?: ReadEventsOptions): EventReader {
    return this.#log.read(options)
  }

  logged(): LoggedEvents {
    return this.#log
  }

  close(): void {
    this.#log.close()
  }

  #listenerFailed(type: string, error: unknown): void {
    this.#logger.error({ err: error, event: type }, 'event listener failed')
  }
}

/** The log keeps thousands of events, so none of them may have a message of any length. */
function withShortMessage(event: UnnumberedEvent): UnnumberedEvent {
  const message = cutMessage(event.message)
  return message === event.message ? event : { ...event, message }
}

/**
 * A bounded, numbered, in-memory log of events. When it is full, each new event replaces the oldest. A reader that falls
 * behind gets `EventsDropped`.
 */
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
  read({ last = 0, from = this.#newest(last), to = Infinity, types, signal }: ReadEventsOptions = {}): EventReader {
    // A number beyond the next one comes from another host's log and means nothing here, so start with the oldest event.
    return new LogReader(this, { from: from > this.#last + 1 ? 1 : Math.max(1, from), to, types, signal })
  }

  /** Number of the first of so many newest events. */
  #newest(count: number): number {
    return Math.max(this.#first(), this.#last + 1 - count)
  }

  /**
   * Returns event number `seq`, or what says that this event and those after it, up to `to`, are no longer in the log. Undefined if it has
   * not been emitted yet.
   */
  at(seq: number, to: number): FleetEvent | EventsDropped | undefined {
    const first = this.#first()
    if (seq < first) return dropped(seq, Math.min(first - 1, to))
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

interface Reading {
  readonly from: number
  readonly to: number
  readonly types: readonly FleetEventType[] | undefined
  readonly signal: AbortSignal | undefined
}

class LogReader implements EventReader {
  readonly #log: EventLog
  readonly #to: number
  readonly #types: ReadonlySet<string> | undefined
  readonly #signal: AbortSignal | undefined
  #next: number
  #ended = false
  #wake = () => {}

  constructor(log: EventLog, { from, to, types, signal }: Reading) {
    this.#log = log
    this.#next = from
    this.#to = to
    this.#types = types && new Set<string>(types)
    this.#signal = signal
  }

  take(): FleetEvent | EventsDropped | undefined {
    while (!this.#isOver()) {
      const event = this.#log.at(this.#next, this.#to)
      if (event) this.#next = event.seq + 1
      if (!event || event.type === 'EventsDropped' || this.#types?.has(event.type) !== false) return event
    }
    return undefined
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
    return this.#ended || this.#next > this.#to || this.#signal?.aborted === true
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
function complete(
  event: UnnumberedEvent & { message: string; seq?: number },
  seq: number,
): asserts event is FleetEvent {
  if (event.message === '') event.message = cutMessage(messageOf(event))
  event.seq = seq
}

function dropped(from: number, to: number): EventsDropped {
  return { type: 'EventsDropped', seq: to, from, message: `events ${from} to ${to} are no longer in the log` }
}

// Composes the messages of the events that every allocation emits. They follow from the events' other fields, so they are composed
// when an event is first read: most events never are.

type AuditedEvent = Extract<UnnumberedEvent, { readonly type: 'Audited' }>

/** Returns the event's own message unless it is empty. */
function messageOf(event: UnnumberedEvent): string {
  if (event.message !== '') return event.message
  const { type } = event
  if (type === 'Allocated') return `${event.server.name} was allocated to session ${event.sessionID}`
  if (type === 'ServerStateChanged') return `${event.server.name} went from ${event.from} to ${event.to}`
  return type === 'Audited' ? audited(event) : ''
}

const verbs: Readonly<Record<AuditedAction, string>> = {
  allocate: 'allocated',
  createBuild: 'created',
  applyBuild: 'applied',
  patchBuild: 'patched',
  updateBuild: 'updated',
  drainBuild: 'drains',
  resumeBuild: 'resumed',
  deleteBuild: 'deleted',
  updateServer: 'updated',
  reserveServer: 'reserved',
  releaseServer: 'released',
  drainServer: 'drains',
  writeStdin: 'sent a line to',
  deleteServer: 'deleted',
  endSession: 'ended',
  reserveSeats: 'reserved seats on',
  releaseSeats: 'released seats on',
  joinSession: 'reserved seats on',
  announceMaintenance: 'announced maintenance of',
  withdrawMaintenance: 'withdrew the maintenance of',
  drainFleet: 'drains',
}

function audited(event: AuditedEvent): string {
  const { action, outcome } = event
  const { kind, name, address } = event.caller
  const who = `${kind}${name === undefined ? '' : ` ${name}`}${address === undefined ? '' : ` at ${address}`}`
  return `${who} ${verbs[action]} ${subjectOf(event)}${outcome === 'unknown' ? ' (outcome unknown)' : ''}`
}

function subjectOf(event: AuditedEvent): string {
  const { node, sessionID } = event
  const session = sessionID === undefined ? '' : ` for session ${sessionID}`
  if ('server' in event) return `server ${keyOf(event.server)}${session}`
  if (node !== undefined) return `node ${node}`
  if ('build' in event) return `build ${keyOf(event.build)}`
  return sessionID === undefined ? 'the fleet' : `a server${session}`
}
