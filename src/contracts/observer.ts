/** What a fleet measures of its own work, for whoever makes metrics of it. Nothing is measured while nobody observes. */
import type { Clock } from './clock.js'
import { type ErrorCode, FleetError, messageOf } from './errors.js'
import type { Logger } from './logger.js'
import type { Ref } from '../rules/model/resources.js'
import type { BuildCounts, BuildHealth } from '../rules/model/status.js'

export type BackendOperation = 'create' | 'destroy' | 'list' | 'prepare' | 'protect' | 'find'
export type StoreCollection = 'builds' | 'servers' | 'details'
export type StoreOperation = 'get' | 'list' | 'create' | 'update' | 'delete'

/** All times in ms. Called in the midst of the work: whatever takes long belongs elsewhere. */
export interface FleetObserver {
  /** A call of `allocate` has ended, with `ok` or the code of its error. */
  allocated?(outcome: 'ok' | ErrorCode, ms: number): void
  /** A pass over a build. */
  reconciled?(ms: number): void
  backendCall?(operation: BackendOperation, outcome: CallOutcome, ms: number): void
  storeCall?(collection: StoreCollection, operation: StoreOperation, outcome: CallOutcome, ms: number): void
}

/** `conflict`: refused because the record has changed, which is no failure of the store. */
export type CallOutcome = 'ok' | 'conflict' | 'failed'

/** A build in numbers. */
export interface BuildStats {
  readonly build: Ref
  readonly standingBy: number
  readonly max: number
  readonly health: BuildHealth
  readonly crashes: number
  readonly servers: BuildCounts
  /** Connected to its servers. */
  readonly players: number
  /** Callers that wait for one of its servers. */
  readonly waiting: number
}

export interface Observers {
  /** Nobody observes: what is hot asks this first, and spares itself the rest. */
  readonly idle: boolean
  /** Observes until the returned function is called. */
  add(observer: FleetObserver): () => void
  /** Does the work, and tells how long it took. */
  timed<T>(work: () => T, tell: (observer: FleetObserver, ms: number) => void): T
  /** The same for what ends later. */
  timedCall<T>(
    call: () => Promise<T>,
    tell: (observer: FleetObserver, outcome: 'ok' | ErrorCode, ms: number) => void,
  ): Promise<T>
}

export function observersOf(clock: Pick<Clock, 'elapsed'>, logger: Logger): Observers {
  const observing = new Set<FleetObserver>()
  const state = { idle: true }

  function tellAll(tell: (observer: FleetObserver) => void): void {
    for (const observer of observing) {
      try {
        tell(observer)
      } catch (error) {
        logger.error({ error: messageOf(error) }, 'an observer has failed')
      }
    }
  }

  return Object.assign(state, {
    add(observer: FleetObserver) {
      // Its own object: one that is added twice observes twice.
      const own = { ...bound(observer) }
      observing.add(own)
      state.idle = false
      return () => {
        observing.delete(own)
        state.idle = observing.size === 0
      }
    },
    timed<T>(work: () => T, tell: (observer: FleetObserver, ms: number) => void): T {
      const since = clock.elapsed()
      const result = work()
      const ms = clock.elapsed() - since
      tellAll((observer) => tell(observer, ms))
      return result
    },
    timedCall<T>(
      call: () => Promise<T>,
      tell: (observer: FleetObserver, outcome: 'ok' | ErrorCode, ms: number) => void,
    ): Promise<T> {
      const since = clock.elapsed()
      const over = (outcome: 'ok' | ErrorCode) => {
        const ms = clock.elapsed() - since
        tellAll((observer) => tell(observer, outcome, ms))
      }
      const promise = call()
      promise.then(
        () => over('ok'),
        (error: unknown) => over(FleetError.is(error) ? error.code : 'internal'),
      )
      return promise
    },
  })
}

export function callOutcome(outcome: 'ok' | ErrorCode): CallOutcome {
  if (outcome === 'ok') return 'ok'
  return outcome === 'conflict' || outcome === 'not-found' ? 'conflict' : 'failed'
}

function bound(observer: FleetObserver): FleetObserver {
  const { allocated, reconciled, backendCall, storeCall } = observer
  return {
    ...(allocated && { allocated: allocated.bind(observer) }),
    ...(reconciled && { reconciled: reconciled.bind(observer) }),
    ...(backendCall && { backendCall: backendCall.bind(observer) }),
    ...(storeCall && { storeCall: storeCall.bind(observer) }),
  }
}
