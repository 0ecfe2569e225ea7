/**
 * Fault injection for store and backend calls: a call is refused, its reply is lost, late or never sent, or its effect is
 * late. Used by `faultyBackend` and `faultyStore`. All delays use the given clock.
 */
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { seededRandom } from './random.js'

export type CallFault =
  /** The call has no effect and rejects. */
  | { readonly kind: 'refuse'; readonly error?: Error }
  /** The call takes effect but rejects, as when the connection breaks before the reply. */
  | { readonly kind: 'lose-reply'; readonly error?: Error }
  /** The call takes effect; the reply is delayed. */
  | { readonly kind: 'delay-reply'; readonly ms: number }
  /** The call rejects now but takes effect later. */
  | { readonly kind: 'delay-effect'; readonly ms: number; readonly error?: Error }
  /** The call takes effect but never settles, unless the caller aborts it through its signal. */
  | { readonly kind: 'hang' }

/** A call into which a fault may be injected. */
export interface FaultyCall {
  /** The method name, such as `create` or `servers.update`. */
  readonly method: string
  /** The object of the call. Absent for `list`. */
  readonly ref?: Ref
}

/** Chooses the fault for a call or an event, or returns undefined for no fault. */
export type FaultPlan<C, F> = (subject: C) => F | undefined

export interface PlannedFault {
  /** The fault applies to the next call of this method. Default: any method. */
  readonly method?: string
  readonly fault: CallFault
}

/** Applies the faults in order, each to the next call that matches. */
export function scriptedFaults(script: readonly PlannedFault[]): FaultPlan<FaultyCall, CallFault> {
  let at = 0
  return ({ method }) => {
    const next = script[at]
    if (!next || (next.method !== undefined && next.method !== method)) return undefined
    at++
    return next.fault
  }
}

/** Injects a random fault into each call or event with the given probability. The same seed yields the same faults. */
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
  /** Required for faults with a delay. */
  readonly clock?: Clock
}

/** Runs `work` with the fault that the plan chooses for this call. */
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
      // The caller has already received an error, so the late outcome is ignored.
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
