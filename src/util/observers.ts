/** Measures calls and reports them to the observers of one fleet. Without an observer, nothing is measured. */
import type { Clock } from '../contracts/clock.js'
import { type ErrorCode, FleetError } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import type { FleetObserver } from '../contracts/observer.js'

export class Observers {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #logger: Logger
  readonly #observers = new Set<FleetObserver>()

  constructor(clock: Pick<Clock, 'elapsed'>, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** True if there are no observers. Hot paths check this first, to skip the measurement. */
  get isEmpty(): boolean {
    return this.#observers.size === 0
  }

  /** Adds an observer. The returned function removes it. An observer that is added twice is called twice. */
  add(observer: FleetObserver): () => void {
    const copy = withBoundMethods(observer)
    this.#observers.add(copy)
    return () => {
      this.#observers.delete(copy)
    }
  }

  /** Runs `work` and reports its duration through `report`. */
  timed<T>(work: () => T, report: (observer: FleetObserver, ms: number) => void): T {
    const since = this.#clock.elapsed()
    const result = work()
    const ms = this.#clock.elapsed() - since
    this.report((observer) => report(observer, ms))
    return result
  }

  /** Like `timed`, for a call that returns a promise. `outcome` is `ok` or the error code. */
  timedCall<T>(
    call: () => Promise<T>,
    report: (observer: FleetObserver, outcome: 'ok' | ErrorCode, ms: number) => void,
  ): Promise<T> {
    const since = this.#clock.elapsed()
    const settled = (outcome: 'ok' | ErrorCode) => {
      const ms = this.#clock.elapsed() - since
      this.report((observer) => report(observer, outcome, ms))
    }
    const promise = call()
    promise.then(
      () => settled('ok'),
      (error: unknown) => settled(FleetError.is(error) ? error.code : 'internal'),
    )
    return promise
  }

  /** Calls an observer's method, for what needs no duration. */
  report(report: (observer: FleetObserver) => void): void {
    for (const observer of this.#observers) {
      try {
        report(observer)
      } catch (error) {
        this.#logger.error({ err: error }, 'observer failed')
      }
    }
  }
}

function withBoundMethods(observer: FleetObserver): FleetObserver {
  const { allocated, answered, reconciled, backendCall, storeCall, forwarded } = observer
  return {
    ...(allocated && { allocated: allocated.bind(observer) }),
    ...(answered && { answered: answered.bind(observer) }),
    ...(reconciled && { reconciled: reconciled.bind(observer) }),
    ...(backendCall && { backendCall: backendCall.bind(observer) }),
    ...(storeCall && { storeCall: storeCall.bind(observer) }),
    ...(forwarded && { forwarded: forwarded.bind(observer) }),
  }
}
