/**
 * Numbers events, adds them to the log, and calls listeners. A listener that throws affects neither the fleet nor other
 * listeners.
 */
import { EventEmitter } from 'eventemitter3'
import type {
  EventListener,
  EventsDropped,
  FleetEmitter,
  FleetEvent,
  FleetEventType,
  LoggedEvents,
  ReadEventsOptions,
  UnnumberedEvent,
} from '../contracts/events.js'
import type { Logger } from '../contracts/logger.js'
import { EventLog } from './event-log.js'

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

  emit(event: UnnumberedEvent): void {
    const numbered = notLogged.has(event.type) ? Object.assign(event, { seq: 0 }) : this.#log.append(event)
    if (this.#listeners.listenerCount(event.type) > 0) this.#listeners.emit(event.type, numbered)
    if (this.#listeners.listenerCount('*') > 0) this.#listeners.emit('*', numbered)
  }

  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void {
    const guarded = (event: Parameters<typeof listener>[0]) => {
      try {
        const result: unknown = listener(event)
        if (result instanceof Promise) result.catch((error: unknown) => this.#listenerFailed(type, error))
      } catch (error) {
        this.#listenerFailed(type, error)
      }
    }
    this.#listeners.on(type, guarded)
    return () => {
      this.#listeners.off(type, guarded)
    }
  }

  read(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped> {
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
