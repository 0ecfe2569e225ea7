/** The engine keeps its promises in every story of a fixed set of seeds; and the simulation would notice if it did not. */
import { readFile } from 'node:fs/promises'
import { createFleet } from 'gamekeeper'
import { simulate } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { bundle, occurrences } from './bundle.js'
import { mutants } from './mutants.js'
import { run } from './pool.js'

const minutes = 10

describe('the simulation', { timeout: 600_000 }, () => {
  it('finds nothing in 200 seeds of ten minutes in which everything fails', async () => {
    const results = await run({
      script: await bundle(),
      from: 1,
      seeds: 200,
      minutes,
      historyLines: 60,
      mostFailures: 1,
    })
    const failed = results.filter(({ violation }) => violation !== undefined)
    expect(failed.map(({ seed, violation, history }) => [seed, violation, ...history].join('\n'))).toEqual([])
    expect(results).toHaveLength(200)
  })

  it('tells the same story again for the same seed', async () => {
    const script = await bundle()
    const once = () => run({ script, from: 7, seeds: 1, minutes, historyLines: 400 })
    expect(await once()).toEqual(await once())
  })
})

describe('the simulation of `gamekeeper/testing`', () => {
  it.each([
    ['few may wait', { maxWaiting: 1 }, 474],
    ['few may wait', { maxWaiting: 1 }, 506],
    ['nobody is trusted for long after a crash', { backoffResetMs: 300_000 }, 163],
    ['nobody is trusted for long after a crash', { backoffResetMs: 300_000 }, 290],
    ['nobody is trusted for long after a crash', { backoffResetMs: 300_000 }, 264],
    [
      'a try may outlast its row of failures',
      { backoffResetMs: 5_000, backoffInitialMs: 100, maxConcurrentCreates: 1 },
      218,
    ],
    ['calls may hang for long', { callTimeoutMs: 600_000 }, 5038],
    ['calls may hang for long', { callTimeoutMs: 600_000 }, 5047],
  ])('finds nothing where %s: %j, seed %i', async (_, limits, seed) => {
    expect((await simulate({ seed, limits })).violation).toBeUndefined()
  })

  it("tries a host's own way to make a fleet, with limits of its own", async () => {
    const given: (number | undefined)[] = []
    const { violation, steps } = await simulate({
      seed: 3,
      minutes: 1,
      limits: { silenceMs: 15_000 },
      createFleet(options) {
        given.push(options.limits?.silenceMs)
        return createFleet(options)
      },
    })
    expect(violation).toBeUndefined()
    expect(steps).toBeGreaterThan(100)
    expect(new Set(given)).toEqual(new Set([15_000]))
  })

  it('refuses limits that cannot be', async () => {
    const refused = simulate({ seed: 1, minutes: 1, limits: { heartbeatIntervalMs: 500 } })
    await expect(refused).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('heartbeatIntervalMs') as string,
    })
  })

  it('tells of a fleet that breaks a promise, and what led there', async () => {
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

describe('a deliberate bug', { timeout: 600_000 }, () => {
  it.each(mutants)('$name is still one change of the sources', async (mutant) => {
    expect(await occurrences(mutant)).toBe(1)
  })

  it('is in the table of docs/simulation.md, each with how often it is found, and docs/operations.md says how many there are', async () => {
    const table = (await readFile('docs/simulation.md', 'utf8')).split('## Deliberate bugs')[1] ?? ''
    const rows = [...table.matchAll(/^\| (.+?) +\| (.+?) +\| [1-9]\d* +\|$/gm)].map(([, name, kind]) => ({
      name,
      kind,
    }))
    expect(rows).toEqual(mutants.map(({ name, kind }) => ({ name, kind })))
    expect(await readFile('docs/operations.md', 'utf8')).toContain(`${mutants.length} deliberate bugs are found`)
  })

  it.each(mutants)('$name is found', async (mutant) => {
    const results = await run({
      script: await bundle(mutant),
      from: 1,
      seeds: mutant.seeds ?? 60,
      minutes,
      historyLines: 0,
      mostFailures: 1,
    })
    expect(results.filter(({ violation }) => violation !== undefined)).not.toEqual([])
  })
})
