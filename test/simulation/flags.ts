/** What may stand after `npm run simulate --`. */
import { parseArgs } from 'node:util'

export const usage = `npm run simulate -- [--seeds 100] [--hours 0.17] [--from 1] [--history 60] | --mutants [--seeds 200]
  --seeds    how many seeds to simulate
  --hours    simulated hours with faults of each seed
  --from     the first seed
  --history  lines of history to print of a seed that fails
  --mutants  put each deliberate bug of test/simulation/mutants.ts in, and tell in how many of the seeds it is found`

export interface Flags {
  readonly from: number
  readonly seeds: number
  /** Absent: what the simulation takes by itself. */
  readonly hours: number | undefined
  readonly history: number
  readonly mutants: boolean
  readonly help: boolean
}

/** Throws an error whose message is one clear line. */
export function readFlags(args: readonly string[]): Flags {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string' },
      hours: { type: 'string' },
      from: { type: 'string' },
      history: { type: 'string' },
      mutants: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const { mutants, help } = values
  return {
    seeds: wholeNumber('seeds', values.seeds ?? (mutants ? '200' : '100'), 1),
    from: wholeNumber('from', values.from ?? '1', 0),
    history: wholeNumber('history', values.history ?? '60', 0),
    hours: values.hours === undefined ? undefined : positive('hours', values.hours),
    mutants,
    help,
  }
}

function wholeNumber(flag: string, text: string, least: number): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isSafeInteger(number) && number >= least) return number
  throw new Error(`--${flag} must be a whole number of at least ${least}, but is ${JSON.stringify(text)}`)
}

function positive(flag: string, text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number > 0) return number
  throw new Error(`--${flag} must be a number above 0, but is ${JSON.stringify(text)}`)
}
