/** Command-line options of `npm run simulate`. */
import { parseArgs } from 'node:util'

export const usage = `Usage: npm run simulate -- [options]

Runs simulations with random faults and checks the invariants after every step.
Exits with 1 if an invariant was violated or a planted bug was not found.

Options:
  --seeds <n>     Number of seeds. Default: 100, or 200 with --planted-bugs.
  --from <n>      First seed. Default: 1.
  --hours <n>     Simulated hours with faults for each seed. Default: 1/6 (10 minutes).
  --history <n>   Lines of history to print for a failed seed. Default: 60.
  --journal       The store has the journal of the Kubernetes store.
  --planted-bugs  Plant each bug of test/simulation/planted-bugs.ts in turn and print how many seeds find it.
  -h, --help      Print this help.`

export interface Flags {
  readonly from: number
  readonly seeds: number
  /** If undefined, the default of `simulate` applies. */
  readonly hours: number | undefined
  readonly history: number
  readonly journal: boolean
  readonly plantedBugs: boolean
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
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const { 'planted-bugs': plantedBugs, journal, help } = values
  return {
    seeds: wholeNumber('seeds', values.seeds ?? (plantedBugs ? '200' : '100'), 1),
    from: wholeNumber('from', values.from ?? '1', 0),
    history: wholeNumber('history', values.history ?? '60', 0),
    hours: values.hours === undefined ? undefined : positive('hours', values.hours),
    journal,
    plantedBugs,
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
