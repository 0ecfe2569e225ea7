/**
 * The pinned seeds: for each planted bug, one seed that is known to find it. Most seeds do not find a rare bug, so the tests run
 * the pinned ones only. A change of the engine may make a pinned seed find nothing; `findSeeds` then searches for another.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { SimulationResult } from './simulate.js'
import { bundle } from './bundle.js'
import type { PlantedBug } from './planted-bugs.js'
import { run } from './pool.js'

/** By the name of the planted bug. */
export type PinnedSeeds = Readonly<Record<string, number>>

export interface SeedRange {
  readonly from: number
  readonly seeds: number
  /** Default: one per core. */
  readonly threads?: number
  /** Stop after this many seeds with a violation. Default: never. */
  readonly maxFailures?: number
}

export type RunPlanted = (bug: PlantedBug, range: SeedRange) => Promise<readonly SimulationResult[]>

export interface SeedSearch {
  readonly bugs: readonly PlantedBug[]
  /** First seed to try. */
  readonly from: number
  /** Maximum number of seeds to try for each bug. Default: as the bug says. */
  readonly seeds?: number | undefined
  readonly log: (line: string) => void
  /** Default: test/simulation/pinned-seeds.json. */
  readonly file?: string
  /** Default: `runPlanted`. */
  readonly run?: RunPlanted
}

const pinnedFile = fileURLToPath(new URL('pinned-seeds.json', import.meta.url))

/** Of the first batch with a find, the seed that finds the bug in the fewest steps is pinned, so that the tests are quick. */
const batch = 16

/** The number of seeds to try for a bug that is not known to be rare. */
const commonSeeds = 60

export function maxSeeds(bug: PlantedBug): number {
  return bug.seeds ?? commonSeeds
}

export async function readPinnedSeeds(file = pinnedFile): Promise<PinnedSeeds> {
  return JSON.parse(await readFile(file, 'utf8')) as PinnedSeeds
}

/** Runs seeds of ten simulated minutes each with the planted bug. */
export const runPlanted: RunPlanted = async (bug, range) =>
  run({ script: await bundle(bug), minutes: 10, journal: bug.journal, historyLines: 0, ...range })

/** Resolves to why the bug's pinned seed does not find it, and what to do; to undefined if it does. */
export async function pinnedSeedProblem(
  bug: PlantedBug,
  pinned: PinnedSeeds,
  runBug = runPlanted,
): Promise<string | undefined> {
  const seed = pinned[bug.name]
  if (seed === undefined) return `no seed is pinned: ${remedy}`
  const results = await runBug(bug, { from: seed, seeds: 1, threads: 1 })
  return results.some(isFind) ? undefined : `pinned seed ${seed} no longer finds the bug: ${remedy}`
}

const remedy = 'run `npm run simulate -- --find-seeds` to search for a seed and pin it'

/**
 * Searches for a new seed for each bug whose pinned seed does not find it, and rewrites the file after each find, so that an
 * interrupted search loses nothing. Resolves to the bugs for which none was found.
 */
export async function findSeeds(search: SeedSearch): Promise<readonly PlantedBug[]> {
  const { bugs, log, file = pinnedFile, run: runBug = runPlanted } = search
  const pinned = { ...(await readPinnedSeeds(file)) }
  const lost = await withoutSeed(bugs, pinned, runBug)
  log(`${bugs.length - lost.length} of ${bugs.length} planted bugs are found by their pinned seeds`)
  await write(file, bugs, pinned)
  const missed: PlantedBug[] = []
  for (const bug of lost) {
    const found = await quickestFind(bug, search, runBug)
    if (!found) {
      missed.push(bug)
      log(`${bug.name}: not found in ${search.seeds ?? maxSeeds(bug)} seeds`)
      continue
    }
    pinned[bug.name] = found.seed
    await write(file, bugs, pinned)
    log(`${bug.name}: seed ${found.seed}, ${found.steps} steps`)
  }
  return missed
}

/** Checks as many bugs at once as there are cores. Resolves to those whose pinned seeds do not find them, in the given order. */
async function withoutSeed(
  bugs: readonly PlantedBug[],
  pinned: PinnedSeeds,
  runBug: RunPlanted,
): Promise<readonly PlantedBug[]> {
  const lost = new Set<PlantedBug>()
  const remaining = bugs.values()
  const check = async () => {
    for (const bug of remaining) {
      if ((await pinnedSeedProblem(bug, pinned, runBug)) !== undefined) lost.add(bug)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, check))
  return bugs.filter((bug) => lost.has(bug))
}

async function quickestFind(
  bug: PlantedBug,
  { from, seeds = maxSeeds(bug) }: SeedSearch,
  runBug: RunPlanted,
): Promise<SimulationResult | undefined> {
  for (let tried = 0; tried < seeds; tried += batch) {
    const results = await runBug(bug, { from: from + tried, seeds: Math.min(batch, seeds - tried) })
    const [quickest] = results.filter(isFind).toSorted((a, b) => stepsOf(a) - stepsOf(b))
    if (quickest) return quickest
  }
  return undefined
}

export function isFind({ violation }: SimulationResult): boolean {
  return violation !== undefined
}

/** A run that crashed or did not end reports no steps. It may have taken minutes. */
function stepsOf({ steps }: SimulationResult): number {
  return steps === 0 ? Infinity : steps
}

/** Writes the seeds in the order of the bugs, and drops those of bugs that no longer exist. */
async function write(file: string, bugs: readonly PlantedBug[], pinned: PinnedSeeds): Promise<void> {
  const entries = bugs.flatMap(({ name }) => (pinned[name] === undefined ? [] : [[name, pinned[name]] as const]))
  await writeFile(file, `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`)
}
