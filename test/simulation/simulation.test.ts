/** Checks that the invariants hold for a fixed set of seeds, and that every planted bug is found by its pinned seed. */
import { readFile } from 'node:fs/promises'
import { createFleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { bundle, occurrences } from './bundle.js'
import { findsNothing, minutes } from './finds-nothing.js'
import { pinnedSeedProblem, readPinnedSeeds } from './pinned-seeds.js'
import { plantedBugs } from './planted-bugs.js'
import { run } from './pool.js'
import { simulate } from './simulate.js'

describe('the simulation', { timeout: 1_200_000 }, () => {
  it('finds no violation in 100 seeds of ten minutes with faults', () => findsNothing({ from: 1, seeds: 100 }))

  it('finds no violation in 50 seeds on a store with the journal of Kubernetes', () =>
    findsNothing({ from: 1, seeds: 50, journal: true }))

  it('gives the same result for the same seed', async () => {
    const script = await bundle()
    const once = () => run({ script, from: 7, seeds: 1, minutes, historyLines: 400 })
    expect(await once()).toEqual(await once())
  })
})

describe('a simulated fleet with other limits, or one that is broken', () => {
  it.each([
    ['few callers may wait', { maxWaiting: 1 }, 474],
    ['few callers may wait', { maxWaiting: 1 }, 506],
    ['back-off resets late', { backoffResetMs: 300_000 }, 163],
    ['back-off resets late', { backoffResetMs: 300_000 }, 290],
    ['back-off resets late', { backoffResetMs: 300_000 }, 264],
    [
      'back-off resets before a create can fail',
      { backoffResetMs: 5_000, backoffInitialMs: 100, maxConcurrentCreates: 1 },
      218,
    ],
    ['calls may hang for minutes', { callTimeoutMs: 600_000 }, 5038],
    ['calls may hang for minutes', { callTimeoutMs: 600_000 }, 5047],
  ])('finds no violation when %s: %j, seed %i', async (_, limits, seed) => {
    expect((await simulate({ seed, limits })).violation).toBeUndefined()
  })

  it('simulates a fleet from a custom createFleet with custom limits', async () => {
    const received: (number | undefined)[] = []
    const { violation, steps } = await simulate({
      seed: 3,
      minutes: 1,
      limits: { silenceMs: 15_000 },
      createFleet(options) {
        received.push(options.limits?.silenceMs)
        return createFleet(options)
      },
    })
    expect(violation).toBeUndefined()
    expect(steps).toBeGreaterThan(100)
    expect(new Set(received)).toEqual(new Set([15_000]))
  })

  it('rejects invalid limits', async () => {
    const rejected = simulate({ seed: 1, minutes: 1, limits: { heartbeatIntervalMs: 500 } })
    await expect(rejected).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('heartbeatIntervalMs') as string,
    })
  })

  it('reports a fleet that violates an invariant, with the history', async () => {
    const { violation, history } = await simulate({
      seed: 3,
      minutes: 1,
      async createFleet(options) {
        const fleet = await createFleet(options)
        return { ...fleet, servers: { ...fleet.servers, list: async () => (await fleet.servers.list()).slice(1) } }
      },
    })
    expect(violation).toContain('a recount')
    expect(history.length).toBeGreaterThan(0)
  })
})

describe('a planted bug', { timeout: 1_200_000 }, () => {
  it.each(plantedBugs)('is still one change of the sources: $name', async (bug) => {
    expect(await occurrences(bug)).toBe(1)
  })

  it('has a row in docs/simulation.md, and docs/explanation/guarantees.md gives the number of planted bugs', async () => {
    const table = (await readFile('docs/simulation.md', 'utf8')).split('| planted bug |')[1] ?? ''
    const rows = [...table.matchAll(/^\| (?!-)(.+?) +\| (.+?) +\|$/gm)].map(([, name, standsFor]) => ({
      name,
      standsFor,
    }))
    expect(rows).toEqual(plantedBugs.map(({ name, standsFor }) => ({ name, standsFor })))
    expect(await readFile('docs/explanation/guarantees.md', 'utf8')).toContain(
      `${plantedBugs.length} planted bugs are found`,
    )
  })

  it('has a pinned seed', async () => {
    expect(Object.keys(await readPinnedSeeds()), 'run `npm run simulate -- --find-seeds`').toEqual(
      plantedBugs.map(({ name }) => name),
    )
  })

  it.concurrent.each(plantedBugs)('is found: $name', async (bug) => {
    expect(await pinnedSeedProblem(bug, await readPinnedSeeds())).toBeUndefined()
  })
})
