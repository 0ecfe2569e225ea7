/**
 * `npm run simulate`: runs a range of seeds, counts how many of them find each planted bug, or searches for a seed for those bugs
 * that their pinned seeds no longer find.
 */
import type { SimulationResult } from './simulate.js'
import { bundle } from './bundle.js'
import { type Flags, readFlags, usage } from './flags.js'
import { findSeeds } from './pinned-seeds.js'
import { plantedBugs } from './planted-bugs.js'
import { run } from './pool.js'
import { progress, summary } from './report.js'

const maxFailures = 5

async function main(args: readonly string[]): Promise<number> {
  let flags: Flags
  try {
    flags = readFlags(args)
  } catch (error) {
    console.error(`simulate: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}; see --help`)
    return 2
  }
  if (flags.help) {
    console.log(usage)
    return 0
  }
  if (flags.findSeeds) return pinSeeds(flags)
  return flags.plantedBugs ? countPlantedBugs(flags) : simulateAll(flags)
}

async function simulateAll({ from, seeds = 100, hours, history, journal }: Flags): Promise<number> {
  const progressLine = progress(seeds)
  const results = await run({
    script: await bundle(),
    from,
    seeds,
    minutes: hours === undefined ? undefined : hours * 60,
    historyLines: history,
    journal,
    maxFailures,
    onResult(result) {
      progressLine.result(result)
      // Print each failure immediately, since a run may take hours.
      if (result.violation !== undefined) console.log(failure(result, hours, journal))
    },
  })
  progressLine.end()
  console.log(summary(results))
  return results.some((result) => result.violation !== undefined) ? 1 : 0
}

function failure({ seed, violation, history }: SimulationResult, hours: number | undefined, journal: boolean): string {
  const journalFlag = journal ? ' --journal' : ''
  const hoursFlag = hours === undefined ? '' : ` --hours ${hours}`
  return [
    `seed ${seed}: ${violation}`,
    ...history.map((line) => `  ${line}`),
    `replay: npm run simulate -- --from ${seed} --seeds 1${hoursFlag}${journalFlag} --history 400\n`,
  ].join('\n')
}

async function countPlantedBugs({ from, seeds = 200, hours }: Flags): Promise<number> {
  let missed = 0
  console.log(`| planted bug | stands for | found in, of ${seeds} seeds | most frequent violation |\n|---|---|---|---|`)
  for (const bug of plantedBugs) {
    const minutes = hours === undefined ? undefined : hours * 60
    const { journal } = bug
    const results = await run({ script: await bundle(bug), from, seeds, minutes, journal, historyLines: 0 })
    const violations = results.flatMap(({ violation }) => (violation === undefined ? [] : [withoutNames(violation)]))
    if (violations.length === 0) missed++
    console.log(`| ${bug.name} | ${bug.standsFor} | ${violations.length} | ${mostFrequent(violations)} |`)
  }
  return missed > 0 ? 1 : 0
}

async function pinSeeds({ from, seeds }: Flags): Promise<number> {
  const missed = await findSeeds({ bugs: plantedBugs, from, seeds, log: console.log })
  if (missed.length === 0) return 0
  console.log(`not found, try more seeds with --from and --seeds:\n${missed.map(({ name }) => `  ${name}`).join('\n')}`)
  return 1
}

/** Returns the first line with names and numbers replaced, so that the same violation compares equal across seeds. */
function withoutNames(violation: string): string {
  const [line = ''] = violation.split('\n')
  return line
    .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(arena|duel|lobby|doomed)(-[a-z0-9]{5})?\b|\d+/g, '…')
    .slice(0, 80)
}

function mostFrequent(texts: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  const [most] = [...counts].toSorted(([, a], [, b]) => b - a)
  return most?.[0] ?? 'not found'
}

process.exitCode = await main(process.argv.slice(2))
