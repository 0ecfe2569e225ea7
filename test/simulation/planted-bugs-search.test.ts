/** Checks that each planted bug is found by another seed than the pinned one. Takes long. */
import { describe, expect, it } from 'vitest'
import { isFind, maxSeeds, readPinnedSeeds, runPlanted } from './pinned-seeds.js'
import { plantedBugs } from './planted-bugs.js'

describe('a planted bug', { timeout: 3_600_000 }, () => {
  it.each(plantedBugs)('is found by one of the seeds after the pinned one: $name', async (bug) => {
    const from = ((await readPinnedSeeds())[bug.name] ?? 0) + 1
    const results = await runPlanted(bug, { from, seeds: maxSeeds(bug), maxFailures: 1 })
    expect(results.some(isFind), `not found in seeds ${from} to ${from + maxSeeds(bug) - 1}`).toBe(true)
  })
})
