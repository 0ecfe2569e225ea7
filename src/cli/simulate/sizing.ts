/** Finds the smallest `standingBy` with which a load is served without a refusal. */
import type { BuildSpec } from '../../index.js'
import type { Caller, Load } from './load.js'
import { type Outcome, runLoad } from './run-load.js'

export interface SizingOptions {
  /** An outcome that is known already. */
  readonly known: { readonly standingBy: number; readonly outcome: Outcome }
  /** Called when a run begins, and once a simulated minute. */
  readonly onMinute: (standingBy: number, simulatedMs: number) => void
  readonly signal: AbortSignal
}

/**
 * Doubles until a number suffices, then halves the interval: with one fewer than the result, at least one caller is refused. Undefined
 * if even `max` does not suffice.
 */
export async function smallestStandingBy(
  spec: BuildSpec,
  load: Load,
  callers: readonly Caller[],
  { known, onMinute, signal }: SizingOptions,
): Promise<number | undefined> {
  const suffices = async (standingBy: number) => {
    if (standingBy === known.standingBy) return known.outcome.refused === 0
    const outcome = await runLoad({ ...spec, standingBy }, load, callers, {
      isOver: (refused) => refused > 0,
      onMinute: (ms) => onMinute(standingBy, ms),
      signal,
    })
    return outcome.refused === 0
  }
  let tooFew = known.outcome.refused === 0 ? -1 : known.standingBy
  let enough = known.outcome.refused === 0 ? known.standingBy : Math.max(1, known.standingBy * 2)
  if (known.outcome.refused > 0) {
    while (enough < spec.max && !(await suffices(enough))) [tooFew, enough] = [enough, enough * 2]
    if (enough >= spec.max) {
      enough = spec.max
      if (tooFew >= enough || !(await suffices(enough))) return undefined
    }
  }
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (await suffices(middle)) enough = middle
    else tooFew = middle
  }
  return enough
}
