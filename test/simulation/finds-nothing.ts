/** Runs seeds of the simulation, and expects that no invariant is violated. */
import { expect } from 'vitest'
import { bundle } from './bundle.js'
import { run } from './pool.js'

/** Simulated minutes of each seed. */
export const minutes = 10

export async function findsNothing(options: {
  readonly from: number
  readonly seeds: number
  readonly journal?: boolean
}): Promise<void> {
  const results = await run({ script: await bundle(), ...options, minutes, historyLines: 60, maxFailures: 1 })
  const failed = results.filter(({ violation }) => violation !== undefined)
  expect(failed.map(({ seed, violation, history }) => [seed, violation, ...history].join('\n'))).toEqual([])
  expect(results).toHaveLength(options.seeds)
}
