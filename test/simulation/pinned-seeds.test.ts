/** Tests of the pinned seeds themselves: of the check, the search for new ones, and the options of the command. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SimulationResult } from './simulate.js'
import { readFlags } from './flags.js'
import { findSeeds, pinnedSeedProblem, readPinnedSeeds, type RunPlanted } from './pinned-seeds.js'
import { type PlantedBug, plantedBugs } from './planted-bugs.js'

let directory = ''
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'pinned-seeds-'))
})
afterEach(() => rm(directory, { recursive: true }))

const log: string[] = []

function bugCalled(name: string, seeds?: number): PlantedBug {
  return { name, standsFor: 'a defect', file: 'src/index.ts', from: 'a', to: 'b', ...(seeds && { seeds }) }
}

/** Stands in for the simulation. The steps after which a seed finds a bug, by bug and seed; all other seeds find nothing. */
function finds(steps: Readonly<Record<string, Readonly<Record<number, number>>>>) {
  const ran: string[] = []
  const run: RunPlanted = ({ name }, { from, seeds }) => {
    ran.push(`${name}: ${from} to ${from + seeds - 1}`)
    return Promise.resolve(Array.from({ length: seeds }, (_, index) => resultOf(from + index, steps[name] ?? {})))
  }
  return { run, ran }
}

function resultOf(seed: number, steps: Readonly<Record<number, number>>): SimulationResult {
  const found = steps[seed]
  return {
    ...{ seed, history: [], fingerprint: '', allocations: 0, refusals: 0, hostCrashes: 0, faults: {} },
    ...(found === undefined ? { steps: 10_000 } : { steps: found, violation: 'max exceeded' }),
  }
}

async function search(
  bugs: readonly PlantedBug[],
  pinned: Readonly<Record<string, number>>,
  run: RunPlanted,
  seeds?: number,
) {
  const file = join(directory, 'pinned-seeds.json')
  await writeFile(file, JSON.stringify(pinned))
  const missed = await findSeeds({ bugs, file, run, from: 1, seeds, log: (line) => log.push(line) })
  return { missed: missed.map(({ name }) => name), text: await readFile(file, 'utf8') }
}

describe('a pinned seed', { timeout: 1_200_000 }, () => {
  const [bug] = plantedBugs.filter(({ name }) => name === 'an instance is created before its record is written')
  if (!bug) throw new Error('no such bug')

  it('that finds nothing any more fails, with the command that searches for another', async () => {
    const harmless = { ...bug, to: bug.from }
    expect(await pinnedSeedProblem(harmless, { [bug.name]: 5 })).toBe(
      'pinned seed 5 no longer finds the bug: run `npm run simulate -- --find-seeds` to search for a seed and pin it',
    )
  })

  it('that is missing fails, with the same command', async () => {
    expect(await pinnedSeedProblem(bug, {})).toMatch(/^no seed is pinned: run `npm run simulate -- --find-seeds`/)
  })

  it('is found by a search, written to the file, and then finds the bug', async () => {
    const file = join(directory, 'pinned-seeds.json')
    await writeFile(file, '{}')
    expect(await findSeeds({ bugs: [bug], file, from: 1, seeds: 3, log: () => {} })).toEqual([])
    expect(await pinnedSeedProblem(bug, await readPinnedSeeds(file))).toBeUndefined()
  })
})

describe('a search for seeds', () => {
  it('leaves seeds that find their bugs, and replaces those that do not by the quickest find of the first batch with one', async () => {
    const { run, ran } = finds({ kept: { 900: 50 }, lost: { 20: 300, 25: 200, 40: 100 } })
    const { missed, text } = await search([bugCalled('kept'), bugCalled('lost')], { lost: 7, kept: 900, gone: 3 }, run)
    expect(missed).toEqual([])
    expect(text).toBe('{\n  "kept": 900,\n  "lost": 25\n}\n')
    expect(ran).toEqual(['kept: 900 to 900', 'lost: 7 to 7', 'lost: 1 to 16', 'lost: 17 to 32'])
  })

  it('prefers a run that ended with a violation to one that crashed or did not end', async () => {
    const { run } = finds({ lost: { 3: 0, 4: 500 } })
    expect((await search([bugCalled('lost')], {}, run)).text).toBe('{\n  "lost": 4\n}\n')
  })

  it('names the bugs that no seed found, keeps their seeds, and tries as many seeds as the bug or the option says', async () => {
    const { run, ran } = finds({ other: { 1: 10 } })
    const bugs = [bugCalled('rare', 20), bugCalled('other')]
    expect(await search(bugs, { rare: 8 }, run)).toEqual({
      missed: ['rare'],
      text: '{\n  "rare": 8,\n  "other": 1\n}\n',
    })
    expect(ran).toContain('rare: 17 to 20')
    expect(log.at(-2)).toBe('rare: not found in 20 seeds')
    await search(bugs, {}, run, 30)
    expect(ran.at(-2)).toBe('rare: 17 to 30')
  })

  it('that is interrupted keeps what it has found', async () => {
    const { run } = finds({ first: { 2: 10 } })
    const interrupted: RunPlanted = (bug, range) =>
      bug.name === 'second' ? Promise.reject(new Error('interrupted')) : run(bug, range)
    await expect(search([bugCalled('first'), bugCalled('second')], {}, interrupted)).rejects.toThrow('interrupted')
    expect(await readPinnedSeeds(join(directory, 'pinned-seeds.json'))).toEqual({ first: 2 })
  })
})

describe('the options of the command', () => {
  it('combine --find-seeds with --from and --seeds only', () => {
    expect(readFlags(['--find-seeds', '--from', '61', '--seeds', '500'])).toMatchObject({
      findSeeds: true,
      from: 61,
      seeds: 500,
    })
    for (const other of [['--hours', '1'], ['--history', '5'], ['--journal'], ['--planted-bugs']]) {
      expect(() => readFlags(['--find-seeds', ...other])).toThrow(
        '--find-seeds can be combined with --from and --seeds only',
      )
    }
  })

  it('leave the number of seeds to the command if it is not given', () => {
    expect(readFlags([]).seeds).toBeUndefined()
    expect(() => readFlags(['--seeds', '0'])).toThrow('--seeds must be an integer of at least 1, got "0"')
  })
})
