/** Tells events: numbered, kept in the log, and handed to listeners, none of which can break the fleet or another one. */
import { EventEmitter } from 'eventemitter3'
import { messageOf } from '../contracts/errors.js'
import { EventLog } from './event-log.js'
import type { FleetEmitter, FleetEventType } from '../contracts/events.js'
import type { Logger } from '../contracts/logger.js'

/** Who plays where changes all the time and explains nothing: it is told, and not kept. */
const notKept: ReadonlySet<FleetEventType> = new Set(['PlayersChanged'])

/** A listener that throws or rejects is logged, and harms neither the fleet nor the other listeners. */
export function fleetEmitter(logger: Logger, logSize: number): FleetEmitter {
  const emitter = new EventEmitter<string>()
  const log = new EventLog(logSize)

  const failed = (type: string, error: unknown) => {
    logger.error({ error: messageOf(error), event: type }, 'an event listener failed')
  }

  return {
    emit(event) {
      const numbered = notKept.has(event.type) ? Object.assign(event, { seq: 0 }) : log.keep(event)
      if (emitter.listenerCount(event.type) > 0) emitter.emit(event.type, numbered)
      if (emitter.listenerCount('*') > 0) emitter.emit('*', numbered)
    },
    on(type, listener) {
      const guarded = (event: Parameters<typeof listener>[0]) => {
        try {
          const result: unknown = listener(event)
          if (result instanceof Promise) result.catch((error: unknown) => failed(type, error))
        } catch (error) {
          failed(type, error)
        }
      }
      emitter.on(type, guarded)
      return () => {
        emitter.off(type, guarded)
      }
    },
    read: (options) => log.read(options),
    logged: () => log,
    close: () => log.close(),
  }
}
