/** What ends a call before its answer does: its limit, its signal, or that the connection to the cluster is closed. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Underway } from '../../shared/underway.js'
import type { ApiCall } from './api-call.js'

export interface CallLimitsDependencies {
  readonly clock: Clock
  readonly underway: Underway
  /** Of a call that names none. */
  readonly limitMs: number
  /** Of the API server, for messages. */
  readonly place: string
}

export class CallLimits {
  readonly #parts: CallLimitsDependencies

  constructor(parts: CallLimitsDependencies) {
    this.#parts = parts
  }

  limitMs({ limitMs }: ApiCall): number {
    return limitMs ?? this.#parts.limitMs
  }

  /**
   * Of `giveUp` and what settles the call, whichever comes first is called, and nothing after it. What settles it is passed to
   * the function returned.
   */
  bind(call: ApiCall, leftMs: number, giveUp: (error: FleetError) => void): (how: () => void) => void {
    const { clock, underway } = this.#parts
    const { signal } = call
    let isSettled = false
    const settle = (how: () => void) => {
      if (isSettled) return
      isSettled = true
      cancel()
      signal?.removeEventListener('abort', leave)
      underway.delete(shut)
      how()
    }
    const leave = () => settle(() => giveUp(aborted(signal)))
    const shut = () => settle(() => giveUp(closed()))
    const cancel = clock.after(Math.max(0, leftMs), () => settle(() => giveUp(this.#late(call))))
    signal?.addEventListener('abort', leave, { once: true })
    underway.add(shut)
    // It may have been too late already while credentials were fetched.
    if (underway.closed) shut()
    else if (signal?.aborted) leave()
    return settle
  }

  #late(call: ApiCall): FleetError {
    const { place } = this.#parts
    const message = `the Kubernetes API at ${place} did not ${call.what} within ${this.limitMs(call) / 1_000} s`
    return new FleetError('unavailable', message)
  }
}

export function closed(): FleetError {
  return new FleetError('closed', 'the connection to the Kubernetes cluster is closed')
}

function aborted(signal: AbortSignal | undefined): FleetError {
  return new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason })
}
