/** Checks that the invariants hold for a fixed set of seeds, and that the simulation detects every planted bug. */
import { readFile } from 'node:fs/promises'
import { createFleet } from 'gamekeeper'
import { simulate } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { bundle, occurrences } from './bundle.js'
import { plantedBugs } from './planted-bugs.js'
import { run } from './pool.js'

const minutes = 10

describe('the simulation', { timeout: 600_000 }, () => {
  it('finds no violation in 200 seeds of ten minutes with faults', async () => {
    const results = await run({
      script: await bundle(),
      from: 1,
      seeds: 200,
      minutes,
      historyLines: 60,
      maxFailures: 1,
    })
    const failed = results.filter(({ violation }) => violation !== undefined)
    expect(failed.map(({ seed, violation, history }) => [seed, violation, ...history].join('\n'))).toEqual([])
    expect(results).toHaveLength(200)
  })

  it('finds no violation in 100 seeds on a store with the journal of Kubernetes', async () => {
    const script = await bundle()
    const results = await run({ script, from: 1, seeds: 100, minutes, journal: true, historyLines: 60, maxFailures: 1 })
    const failed = results.filter(({ violation }) => violation !== undefined)
    expect(failed.map(({ seed, violation, history }) => [seed, violation, ...history].join('\n'))).toEqual([])
    expect(results).toHaveLength(100)
  })

  it('gives the same result for the same seed', async () => {
    const script = await bundle()
    const once = () => run({ script, from: 7, seeds: 1, minutes, historyLines: 400 })
    expect(await once()).toEqual(await once())
  })
})

describe('the simulation of `gamekeeper/testing`', () => {
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

describe('a planted bug', { timeout: 600_000 }, () => {
  it.each(plantedBugs)('is still one change of the sources: $name', async (bug) => {
    expect(await occurrences(bug)).toBe(1)
  })

  it('has a row in docs/simulation.md, and docs/explanation/guarantees.md gives the number of planted bugs', async () => {
    const table = (await readFile('docs/simulation.md', 'utf8')).split('| planted bug |')[1] ?? ''
    const rows = [...table.matchAll(/^\| (.+?) +\| (.+?) +\| [1-9]\d* +\|$/gm)].map(([, name, standsFor]) => ({
      name,
      standsFor,
    }))
    expect(rows).toEqual(plantedBugs.map(({ name, standsFor }) => ({ name, standsFor })))
    expect(await readFile('docs/explanation/guarantees.md', 'utf8')).toContain(
      `${plantedBugs.length} planted bugs are found`,
    )
  })

  it.each(plantedBugs)('is found: $name', async (bug) => {
    const results = await run({
      script: await bundle(bug),
      from: 1,
      seeds: bug.seeds ?? 60,
      minutes,
      journal: bug.journal,
      historyLines: 0,
      maxFailures: 1,
    })
    expect(results.filter(({ violation }) => violation !== undefined)).not.toEqual([])
  })
})
