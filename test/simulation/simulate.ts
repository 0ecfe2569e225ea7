/**
 * Runs the real, unchanged fleet against models of a store, a backend and games, injects random faults, and checks the
 * invariants after every step. At the end the faults stop, and the fleet must reach the specified state and make no more calls.
 */
import { FleetError } from '../../src/contracts/errors.js'
import type { FleetLimits } from '../../src/contracts/options.js'
import { createFleetWith } from '../../src/fleet/create-fleet.js'
import type { TestedJournal } from './models/tested-journal.js'
import { SimulationRun } from './run.js'
import type { CreateFleet } from './world/host.js'
import { Violation } from './world/world.js'
import { isError } from '../../src/rules/model/values.js'

export interface SimulationOptions {
  /** The seed, which determines the whole run. */
  readonly seed: number
  /** Simulated minutes with faults; some minutes without faults follow. Default 10. */
  readonly minutes?: number
  /** Number of history lines in the result. Default 60. */
  readonly historyLines?: number
  /** Limits for the fleet. Default: those of `createFleet`, but with a heartbeat every 2 s and a resync every 30 s. */
  readonly limits?: Partial<FleetLimits>
  /** Creates the fleet under test. Must use the backend, store, clock and elector from the options. Default: `createFleet`. */
  readonly createFleet?: CreateFleet
}

export interface SimulationResult {
  readonly seed: number
  /** The violated invariant. Absent if all invariants held. */
  readonly violation?: string
  /** The last events of the run, oldest first, followed by the final state if an invariant was violated. */
  readonly history: readonly string[]
  /** A digest of the whole run, as 16 hexadecimal digits. A code change that does not alter behavior does not alter it. */
  readonly fingerprint: string
  readonly steps: number
  readonly allocations: number
  readonly refusals: number
  readonly hostCrashes: number
  /** Number of injected faults by kind. */
  readonly faults: Readonly<Record<string, number>>
}

/**
 * Resolves even if an invariant was violated: check `violation`. Rejects with `invalid` if the limits are invalid. With `journal`, the
 * store is shared, and keeps several allocations in a journal through this code.
 */
export async function simulate(options: SimulationOptions, journal?: TestedJournal): Promise<SimulationResult> {
  const createFleet: CreateFleet = options.createFleet ?? createFleetWith
  const simulation = new SimulationRun(options.seed, createFleet, options.limits ?? {}, journal)
  let violation: string | undefined
  try {
    await simulation.run((options.minutes ?? 10) * 60_000)
  } catch (error) {
    if (FleetError.is(error, 'invalid')) throw error
    violation =
      error instanceof Violation ? error.message : `unexpected error: ${isError(error) ? error.stack : String(error)}`
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
