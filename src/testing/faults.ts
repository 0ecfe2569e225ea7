/**
 * Fault injection for calls of a contract: refused calls, lost or late replies, late effects, no reply. Used by
 * `faultyBackend` and `faultyStore`. Waits on the given clock only.
 */
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { seededRandom } from './random.js'

export type CallFault =
  /** The call has no effect and rejects. */
  | { readonly kind: 'refuse'; readonly error?: Error }
  /** The call takes effect but rejects, like a connection that breaks before the reply. */
  | { readonly kind: 'lose-reply'; readonly error?: Error }
  /** The call takes effect; the reply is delayed. */
  | { readonly kind: 'delay-reply'; readonly ms: number }
  /** The call rejects now but takes effect later. */
  | { readonly kind: 'delay-effect'; readonly ms: number; readonly error?: Error }
  /** The call takes effect but never gets a reply. The caller's signal ends the wait. */
  | { readonly kind: 'hang' }

/** A call that may get a fault. */
export interface FaultyCall {
  /** For example `create` or `servers.update`. */
  readonly method: string
  /** Absent for lists. */
  readonly ref?: Ref
}

/** Returns the fault for a call or an event; undefined for none. */
export type FaultPlan<C, F> = (subject: C) => F | undefined

export interface PlannedFault {
  /** The fault applies to the next call of this method. Default: any method. */
  readonly method?: string
  readonly fault: CallFault
}

/** Applies the faults in order, each to the next matching call. */
export function scriptedFaults(script: readonly PlannedFault[]): FaultPlan<FaultyCall, CallFault> {
  let at = 0
  return ({ method }) => {
    const next = script[at]
    if (!next || (next.method !== undefined && next.method !== method)) return undefined
    at++
    return next.fault
  }
}

/** Gives each call or event a random fault with this probability. The same seed gives the same faults. */
export function randomFaults<F>(options: {
  readonly seed: number
  /** 0 to 1. */
  readonly probability: number
  readonly faults: readonly F[]
}): FaultPlan<unknown, F> {
  const random = seededRandom(options.seed)
  return () => {
    const happens = random() < options.probability
    const choice = options.faults[Math.floor(random() * options.faults.length)]
    return happens ? choice : undefined
  }
}

export interface FaultOptions {
  readonly calls?: FaultPlan<FaultyCall, CallFault>
  /** Required for faults that take time. */
  readonly clock?: Clock
}

/** Makes a call with the fault that the plan returns for it. */
export async function withFaults<T>(
  options: FaultOptions,
  call: FaultyCall,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const fault = options.calls?.(call)
  if (!fault) return work()
  throwIfAborted(signal)
  switch (fault.kind) {
    case 'refuse':
      throw fault.error ?? injected(call, 'was refused')
    case 'lose-reply':
      await work()
      throw fault.error ?? injected(call, 'took effect, but its reply was lost')
    case 'delay-reply': {
      const result = await work()
      await new Promise<void>((resolve) => clockOf(options).after(fault.ms, resolve))
      return result
    }
    case 'delay-effect':
      // The outcome is ignored, since the call has already failed.
      clockOf(options).after(fault.ms, () => void work().catch(() => {}))
      throw fault.error ?? injected(call, 'got no reply and will take effect later')
    case 'hang':
      await work()
      return endOf(signal)
  }
}

function injected({ method, ref }: FaultyCall, what: string): FleetError {
  return new FleetError('unavailable', `injected fault: ${method}${ref ? ` of ${keyOf(ref)}` : ''} ${what}`)
}

export function clockOf({ clock }: { readonly clock?: Clock }): Clock {
  if (clock) return clock
  throw new FleetError('invalid', 'a fault that takes time needs the `clock` option: pass the clock of the fleet')
}

function endOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = () => reject(new FleetError('aborted', 'the call was aborted by its signal'))
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}
