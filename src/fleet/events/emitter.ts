/**
 * Numbers events, adds them to the log, and calls listeners. A listener that throws affects neither the fleet nor other
 * listeners.
 */
import { EventEmitter } from 'eventemitter3'
import type {
  EventListener,
  EventReader,
  FleetEmitter,
  FleetEventType,
  LoggedEvents,
  UnnumberedEvent,
  ReadEventsOptions,
} from '../../contracts/events.js'
import { FleetError } from '../../contracts/errors.js'
import { checkEventType } from '../../contracts/events.js'
import type { Logger } from '../../contracts/logger.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { shown } from '../../rules/validation/problem.js'
import { complete, EventLog } from './event-log.js'
import { isPromise } from '../../rules/model/realms.js'

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
