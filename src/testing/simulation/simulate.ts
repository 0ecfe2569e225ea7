/**
 * Runs the real fleet, unchanged, against models of a store, a backend and games with random faults, and checks the
 * invariants after every step. At the end the faults stop, and the fleet has to reach quiescence: it makes no more calls.
 */
import { FleetError } from '../../contracts/errors.js'
import type { Fleet } from '../../contracts/fleet.js'
import type { FleetLimits, FleetOptions } from '../../contracts/options.js'
import { createFleet } from '../../fleet/create-fleet.js'
import { SimulationRun } from './run.js'
import { Violation } from './world/world.js'

export interface SimulationOptions {
  /** Determines the whole run. */
  readonly seed: number
  /** Simulated time with faults, followed by some minutes without. Default 10. */
  readonly minutes?: number
  /** Number of history lines in the result. Default 60. */
  readonly historyLines?: number
  /** Limits of the fleet. Default: those of `createFleet`, with a heartbeat every 2 s and a resync every 30 s. */
  readonly limits?: Partial<FleetLimits>
  /** Creates the fleet under test; must use the backend, store, clock and elector of the options. Default: `createFleet`. */
  readonly createFleet?: (options: FleetOptions) => Promise<Fleet>
}

export interface SimulationResult {
  readonly seed: number
  /** The violated invariant. Absent if all invariants held. */
  readonly violation?: string
  /** The last events of the run, oldest first, followed by the final state if an invariant was violated. */
  readonly history: readonly string[]
  /** 16 hexadecimal digits: a digest of the whole run. Two versions of the code with the same behavior give the same one. */
  readonly fingerprint: string
  readonly steps: number
  readonly allocations: number
  readonly refusals: number
  readonly hostCrashes: number
  /** Number of injected faults by kind. */
  readonly faults: Readonly<Record<string, number>>
}

/** Resolves even if an invariant was violated: see `violation`. Rejects with `invalid` for invalid limits. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const simulation = new SimulationRun(options.seed, options.createFleet ?? createFleet, options.limits ?? {})
  let violation: string | undefined
  try {
    await simulation.run((options.minutes ?? 10) * 60_000)
  } catch (error) {
    if (FleetError.is(error, 'invalid')) throw error
    violation =
      error instanceof Violation
        ? error.message
        : `unexpected error: ${error instanceof Error ? error.stack : String(error)}`
    simulation.noteFinalState()
  } finally {
    simulation.stop()
  }
  const { world, totals, hosts } = simulation
  return {
    seed: options.seed,
    ...(violation !== undefined && { violation }),
    history: world.history(options.historyLines ?? 60),
    fingerprint: String(world.fingerprint),
    steps: world.steps,
    ...totals,
    hostCrashes: hosts.crashes,
    faults: world.faults,
  }
}
