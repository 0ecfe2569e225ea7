/**
 * Faults at the edge of a contract: what a caller sees when replies are lost, late or never come. Used by
 * `faultyBackend` and `faultyStore`; waits through the given clock only.
 */
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { seededRandom } from './random.js'

export type CallFault =
  /** Nothing is done; rejects. */
  | { readonly kind: 'refuse'; readonly error?: Error }
  /** It is done; rejects, as when the connection breaks before the answer. */
  | { readonly kind: 'lose-reply'; readonly error?: Error }
  /** It is done; the answer comes this much later. */
  | { readonly kind: 'delay-reply'; readonly ms: number }
  /** Rejects now and is done this much later all the same. */
  | { readonly kind: 'delay-effect'; readonly ms: number; readonly error?: Error }
  /** It is done; no answer ever comes. The caller's signal ends the wait. */
  | { readonly kind: 'hang' }

/** A call that a fault may befall: `create`, `servers.update`… and whom it concerns. */
export interface FaultyCall {
  readonly method: string
  /** Absent for lists. */
  readonly ref?: Ref
}

/** Says what befalls a call or an event; undefined: nothing. */
export type FaultPlan<C, F> = (subject: C) => F | undefined

export interface PlannedFault {
  /** The next call of this method; of any when absent. */
  readonly method?: string
  readonly fault: CallFault
}

/** Each fault befalls the first call that fits it and comes after those of the faults before it. */
export function scriptedFaults(script: readonly PlannedFault[]): FaultPlan<FaultyCall, CallFault> {
  let at = 0
  return ({ method }) => {
    const next = script[at]
    if (!next || (next.method !== undefined && next.method !== method)) return undefined
    at++
    return next.fault
  }
}

/** Each call or event meets one of the faults with this probability. The same seed gives the same faults. */
export function randomFaults<F>(options: {
  readonly seed: number
  /** 0 to 1. */
  readonly probability: number
  readonly faults: readonly F[]
}): FaultPlan<unknown, F> {
  const random = seededRandom(options.seed)
  return () => {
    const befalls = random() < options.probability
    const choice = options.faults[Math.floor(random() * options.faults.length)]
    return befalls ? choice : undefined
  }
}

export interface FaultSurroundings {
  readonly calls?: FaultPlan<FaultyCall, CallFault>
  /** Needed by faults that take time. */
  readonly clock?: Clock
}

/** Makes a call as the plan has it. */
export async function withFaults<T>(
  around: FaultSurroundings,
  call: FaultyCall,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const fault = around.calls?.(call)
  if (!fault) return work()
  throwIfAborted(signal)
  switch (fault.kind) {
    case 'refuse':
      throw fault.error ?? injected(call, 'was refused')
    case 'lose-reply':
      await work()
      throw fault.error ?? injected(call, 'was done, but its reply was lost')
    case 'delay-reply': {
      const result = await work()
      await new Promise<void>((resolve) => clockOf(around).after(fault.ms, resolve))
      return result
    }
    case 'delay-effect':
      // Whatever comes of it, nobody waits for it any more: that is the fault.
      clockOf(around).after(fault.ms, () => void work().catch(() => {}))
      throw fault.error ?? injected(call, 'got no reply, and will yet be done')
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
  throw new FleetError('invalid', 'a fault that takes time needs a clock: give the one that the fleet has')
}

function endOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = () => reject(new FleetError('aborted', 'the call was aborted by its signal'))
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}
