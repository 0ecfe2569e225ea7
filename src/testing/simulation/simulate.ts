/**
 * Runs the real fleet, unchanged, in a modelled world where everything fails, and checks the invariants after every
 * step. At the end the faults stop, and the fleet has to come to rest by itself and then make no call.
 */
import { createFleet } from '../../fleet/create-fleet.js'
import { FleetError } from '../../contracts/errors.js'
import type { Fleet } from '../../contracts/fleet.js'
import type { FleetLimits, FleetOptions } from '../../contracts/options.js'
import { Story } from './story.js'
import { Violation } from './world.js'

export interface SimulationOptions {
  /** Decides everything: the same seed is the same story. */
  readonly seed: number
  /** Simulated time with faults. Default 10 minutes; some more without faults follows. */
  readonly minutes?: number
  /** How much of the history is kept in the result. Default 60 lines. */
  readonly historyLines?: number
  /** Limits of the fleet. Games beat every 2 s. Default: those of `createFleet`, but for a resync every 30 s. */
  readonly limits?: Partial<FleetLimits>
  /** Makes the fleet to try, from these options and no others for its world. Default: `createFleet` of gamekeeper. */
  readonly createFleet?: (options: FleetOptions) => Promise<Fleet>
}

export interface SimulationResult {
  readonly seed: number
  /** What must never happen, and did. Absent when every invariant held. */
  readonly violation?: string
  /** What happened last, oldest first; with how things stood when something was violated. */
  readonly history: readonly string[]
  /** 16 hexadecimal digits over everything that happened: equal when two versions of the code behave the same. */
  readonly fingerprint: string
  readonly steps: number
  readonly allocations: number
  readonly refusals: number
  readonly hostCrashes: number
  /** Faults injected, by kind. */
  readonly faults: Readonly<Record<string, number>>
}

/** Resolves whether invariants held or not: look at `violation`. Rejects with `invalid` for limits that cannot be. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const story = new Story(options.seed, options.createFleet ?? createFleet, options.limits ?? {})
  let violation: string | undefined
  try {
    await story.run((options.minutes ?? 10) * 60_000)
  } catch (error) {
    if (FleetError.is(error, 'invalid')) throw error
    violation =
      error instanceof Violation ? error.message : `unexpected: ${error instanceof Error ? error.stack : String(error)}`
    story.lastWords()
  } finally {
    story.end()
  }
  const { world, tally, hosts } = story
  return {
    seed: options.seed,
    ...(violation !== undefined && { violation }),
    history: world.history(options.historyLines ?? 60),
    fingerprint: String(world.fingerprint),
    steps: world.steps,
    ...tally,
    hostCrashes: hosts.crashes,
    faults: world.faults,
  }
}
