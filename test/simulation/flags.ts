/** Command-line options of `npm run simulate`. */
import { parseArgs } from 'node:util'

export const usage = `Usage: npm run simulate -- [options]

Runs simulations with random faults and checks the invariants after every step.
Exits with 1 if an invariant was violated or a planted bug was not found.

Options:
  --seeds <n>     Number of seeds. Default: 100; 200 with --planted-bugs; with --find-seeds, 60 or the bug's own limit.
  --from <n>      First seed. Default: 1.
  --hours <n>     Simulated hours with faults for each seed. Default: 1/6 (10 minutes).
  --history <n>   Lines of history to print for a failed seed. Default: 60.
  --journal       The store has the journal of the Kubernetes store.
  --planted-bugs  Plant each bug of test/simulation/planted-bugs.ts in turn and print how many seeds find it.
  --find-seeds    Run each planted bug with its pinned seed, 10 minutes each. Search for another seed for those that are not
                  found, and rewrite test/simulation/pinned-seeds.json. Takes --from and --seeds only.
  -h, --help      Print this help.`

export interface Flags {
  readonly from: number
  /** If undefined, the default of the command applies. */
  readonly seeds: number | undefined
  /** If undefined, the default of `simulate` applies. */
  readonly hours: number | undefined
  readonly history: number
  readonly journal: boolean
  readonly plantedBugs: boolean
  readonly findSeeds: boolean
  readonly help: boolean
}

/** Parses the options. If they are invalid, throws an error with a single-line message. */
export function readFlags(args: readonly string[]): Flags {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string' },
      hours: { type: 'string' },
      from: { type: 'string' },
      history: { type: 'string' },
      journal: { type: 'boolean', default: false },
      'planted-bugs': { type: 'boolean', default: false },
      'find-seeds': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const { 'planted-bugs': plantedBugs, 'find-seeds': findSeeds, journal, help } = values
  if (findSeeds && (plantedBugs || journal || values.hours !== undefined || values.history !== undefined)) {
    throw new Error('--find-seeds can be combined with --from and --seeds only')
  }
  return {
    seeds: values.seeds === undefined ? undefined : wholeNumber('seeds', values.seeds, 1),
    from: wholeNumber('from', values.from ?? '1', 0),
    history: wholeNumber('history', values.history ?? '60', 0),
    hours: values.hours === undefined ? undefined : positive('hours', values.hours),
    journal,
    plantedBugs,
    findSeeds,
    help,
  }
}

function wholeNumber(flag: string, text: string, least: number): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isSafeInteger(number) && number >= least) return number
  throw new Error(`--${flag} must be an integer of at least ${least}, got ${JSON.stringify(text)}`)
}

function positive(flag: string, text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number > 0) return number
  throw new Error(`--${flag} must be a number greater than 0, got ${JSON.stringify(text)}`)
}
