/** More seeds of the simulation than the inner circle runs. */
import { describe, it } from 'vitest'
import { findsNothing } from './finds-nothing.js'

describe('the simulation', { timeout: 3_600_000 }, () => {
  it('finds no violation in 400 more seeds with faults', () => findsNothing({ from: 101, seeds: 400 }))

  it('finds no violation in 200 more seeds on a store with the journal of Kubernetes', () =>
    findsNothing({ from: 51, seeds: 200, journal: true }))
})
