/** `npm run simulate`: as many seeds as you like, or in how many of them each deliberate bug is found. */
import type { SimulationResult } from '../../src/testing/simulation/simulate.js'
import { bundle } from './bundle.js'
import { type Flags, readFlags, usage } from './flags.js'
import { mutants } from './mutants.js'
import { run } from './pool.js'
import { progress, summary } from './report.js'

const mostFailures = 5

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
  return flags.mutants ? countMutants(flags) : simulateAll(flags)
}

async function simulateAll({ from, seeds, hours, history }: Flags): Promise<number> {
  const told = progress(seeds)
  const results = await run({
    script: await bundle(),
    from,
    seeds,
    minutes: hours === undefined ? undefined : hours * 60,
    historyLines: history,
    mostFailures,
    onResult(result) {
      told.result(result)
      // At once: a long run is not to be waited for.
      if (result.violation !== undefined) console.log(failure(result, hours))
    },
  })
  told.end()
  console.log(summary(results))
  return results.some((result) => result.violation !== undefined) ? 1 : 0
}

function failure({ seed, violation, history }: SimulationResult, hours: number | undefined): string {
  const howLong = hours === undefined ? '' : ` --hours ${hours}`
  return [
    `seed ${seed}: ${violation}`,
    ...history.map((line) => `  ${line}`),
    `replay: npm run simulate -- --from ${seed} --seeds 1${howLong} --history 400\n`,
  ].join('\n')
}

/** Prints the table of docs/simulation.md. */
async function countMutants({ from, seeds, hours }: Flags): Promise<number> {
  let missed = 0
  console.log(`| deliberate bug | stands for | found in, of ${seeds} seeds | mostly told as |\n|---|---|---|---|`)
  for (const mutant of mutants) {
    const minutes = hours === undefined ? undefined : hours * 60
    const results = await run({ script: await bundle(mutant), from, seeds, minutes, historyLines: 0 })
    const told = results.flatMap(({ violation }) => (violation === undefined ? [] : [inGeneral(violation)]))
    if (told.length === 0) missed++
    console.log(`| ${mutant.name} | ${mutant.kind} | ${told.length} | ${mostFrequent(told)} |`)
  }
  return missed > 0 ? 1 : 0
}

/** Without the names and numbers of one story. */
function inGeneral(violation: string): string {
  const [line = ''] = violation.split('\n')
  return line
    .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(arena|duel|lobby|doomed)(-[a-z0-9]{5})?\b|\d+/g, '…')
    .slice(0, 80)
}

function mostFrequent(texts: readonly string[]): string {
  const times = new Map<string, number>()
  for (const text of texts) times.set(text, (times.get(text) ?? 0) + 1)
  const [most] = [...times].toSorted(([, a], [, b]) => b - a)
  return most?.[0] ?? 'not found'
}

process.exitCode = await main(process.argv.slice(2))
