/** Settles a call early: on timeout, when its signal fires, or when the API client closes. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { CancelScope } from '../../shared/cancel-scope.js'
import type { ApiCall } from './api-call.js'

export interface CallLimitsDependencies {
  readonly clock: Clock
  readonly scope: CancelScope
  /** Default timeout of a call. */
  readonly timeoutMs: number
  /** Origin of the API server, used in messages. */
  readonly server: string
}

export class CallLimits {
  readonly #deps: CallLimitsDependencies

  constructor(deps: CallLimitsDependencies) {
    this.#deps = deps
  }

  timeoutMs({ timeoutMs }: ApiCall): number {
    return timeoutMs ?? this.#deps.timeoutMs
  }

  /**
   * Returns a function that settles the call with its own result. Whichever comes first, that function or `giveUp`, settles
   * the call; the other then has no effect.
   */
  bind(call: ApiCall, remainingMs: number, giveUp: (error: FleetError) => void): (settleWith: () => void) => void {
    const { clock, scope } = this.#deps
    const { signal } = call
    let isSettled = false
    const settle = (settleWith: () => void) => {
      if (isSettled) return
      isSettled = true
      cancel()
      signal?.removeEventListener('abort', abort)
      scope.delete(close)
      settleWith()
    }
    const abort = () => settle(() => giveUp(aborted(signal)))
    const close = () => settle(() => giveUp(closed()))
    const cancel = clock.after(Math.max(0, remainingMs), () => settle(() => giveUp(this.#timedOut(call))))
    signal?.addEventListener('abort', abort, { once: true })
    scope.add(close)
    // The client may have closed, or the signal fired, while credentials were being fetched.
    if (scope.closed) close()
    else if (signal?.aborted) abort()
    return settle
  }

  #timedOut(call: ApiCall): FleetError {
    const message = `failed to ${call.what}: the Kubernetes API at ${this.#deps.server} did not answer`
    return new FleetError('unavailable', `${message} within ${this.timeoutMs(call) / 1_000} s`)
  }
}

export function closed(): FleetError {
  return new FleetError('closed', 'the Kubernetes API client is closed')
}

function aborted(signal: AbortSignal | undefined): FleetError {
  return new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason })
}
