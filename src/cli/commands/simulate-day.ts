/** `gamekeeper demand`, and a day of demand for `gamekeeper simulate`: what each policy would have done on it. */
import { basename, extname } from 'node:path'
import { type Command, Option } from 'commander'
import { UsageError } from '../../config/usage-error.js'
import { messageOf } from '../../contracts/errors.js'
import type { BuildSpec } from '../../index.js'
import { type DemandRecording, recordingProblem } from '../../rules/demand/demand-day.js'
import { isObject } from '../../rules/validation/problem.js'
import { suggestion } from '../../contracts/option-checks.js'
import {
  demandShapes,
  type DemandShape,
  fixedNumberFor,
  inventDemand,
  type PlayedMinute,
  replayDemand,
  type ReplayOptions,
  type ReplayOutcome,
} from '../../testing/index.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { decodeText, numberBetween, wholeNumber } from '../flags.js'
import { tableLines } from '../table.js'
import { progressMeter, type Terminal } from '../terminal.js'
import { contentOf, readDocuments } from './apply.js'

export function addDemand(program: Command, terminal: Terminal): void {
  const command = program
    .command('demand')
    .description(
      'Print the demand for a build on the last days, minute by minute, as JSON: for simulate --from, and for tools.',
    )
    .argument('<build>', 'Name of the build.')
  addClientOptions(command).action(async (build: string, flags: ClientFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    terminal.print(JSON.stringify(await client.builds.demand(ref(build))))
  })
}

export interface ReplayFlags {
  readonly from?: string
  readonly day?: string
  readonly shape?: DemandShape
  readonly sessions?: number
  readonly policy?: readonly string[]
  readonly price?: number
  readonly fixed?: boolean
  readonly wait: number
  readonly seed: number
  readonly startSeconds?: number
  readonly matchSeconds?: number
  readonly json?: boolean
}

export function addReplayOptions(command: Command): Command {
  return command
    .option('--from <file>', 'Replay a day of this recording, as demand prints it. - reads stdin.')
    .option('--day <date>', 'Which day of the recording, in UTC. Default: the one with the most callers.')
    .addOption(new Option('--shape <name>', 'Replay an invented day.').choices(demandShapes))
    .option('--sessions <number>', 'How many sessions an invented day has.', wholeNumber(1, 1_000_000))
    .option(
      '--policy <file>',
      'Replay the day with standingBy, max and scaling of this file. May be given several times.',
      (file: string, before: readonly string[] | undefined) => [...(before ?? []), file],
    )
    .option('--price <number>', 'What a server costs in an hour.', numberBetween(0, 1_000_000))
    .option('--fixed', 'Also look for the smallest fixed number that refuses as few as the best of them.')
}

export function isReplay({ from, shape, policy, price, fixed, day, sessions }: ReplayFlags): boolean {
  if (from !== undefined && shape !== undefined) throw new UsageError('--from and --shape exclude each other')
  if (from !== undefined || shape !== undefined) return true
  const given = Object.entries({ policy, price, fixed, day, sessions }).find(([, value]) => value !== undefined)
  if (given) throw new UsageError(`--${given[0]} needs a day to replay: --from or --shape`)
  return false
}

interface Row {
  readonly policy: string
  readonly outcome: ReplayOutcome
}

/** Runs the day for each policy, or for the build as it is, and prints what came of it. */
export async function replayed(
  terminal: Terminal,
  build: { readonly name: string; readonly spec: BuildSpec } | undefined,
  flags: ReplayFlags,
): Promise<void> {
  const demand = await demandOf(terminal, flags)
  const { policy: files = [], wait, seed, startSeconds } = flags
  // The last of the invented days is the one that was asked for.
  const day = flags.shape === undefined ? flags.day : demand.days.at(-1)?.day
  const policies =
    files.length > 0
      ? await Promise.all(files.map((file) => readPolicy(terminal, file, build?.spec)))
      : build
        ? [build]
        : []
  const progress = progressMeter(terminal)
  const signal = terminal.interruption()
  const rows: Row[] = []
  const optionsOf = (name: string, policy: ReplayOptions['policy']): ReplayOptions => ({
    ...{ demand, policy, waitSeconds: wait, seed, signal },
    ...(day !== undefined && { day }),
    ...(startSeconds !== undefined && { startSeconds }),
    onMinute: (minutes) => progress(`${name}: ${(minutes / 60).toFixed(1)} of 24 h simulated`),
  })
  for (const { name, spec } of policies) {
    rows.push({ policy: name, outcome: await replayDemand(optionsOf(name, spec)) })
  }
  if (flags.fixed) {
    const fixed = await fixedRow(rows, optionsOf('fixed number', largest(policies.map(({ spec }) => spec))))
    if (fixed) rows.push(fixed)
    else terminal.note('no fixed number up to max refuses as few callers as the best of the policies')
  }
  if (flags.json) terminal.print(JSON.stringify(rows.map((row) => jsonOf(row, flags.price))))
  else for (const line of linesOf(terminal, rows, flags)) terminal.print(line)
}

async function demandOf(terminal: Terminal, flags: ReplayFlags): Promise<DemandRecording> {
  const { from, shape, sessions, day, startSeconds, matchSeconds, seed } = flags
  if (shape === undefined) return readRecording(from ?? '-', terminal.cwd)
  if (sessions === undefined) throw new UsageError('--shape needs --sessions')
  return inventDemand({
    ...{ shape, sessions, seed },
    ...(matchSeconds !== undefined && { sessionSeconds: matchSeconds }),
    ...(startSeconds !== undefined && { startSeconds }),
    ...(day !== undefined && { day }),
  })
}

async function readRecording(file: string, cwd: string): Promise<DemandRecording> {
  const name = file === '-' ? 'stdin' : file
  const text = decodeText(await contentOf(file, cwd), name)
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`--from: ${name} is no JSON: ${messageOf(error)}`, { cause: error })
  }
  if (isRecording(content)) return content
  throw new UsageError(`--from: ${name} is no recording, as gamekeeper demand prints it: ${recordingProblem(content)}`)
}

function isRecording(content: unknown): content is DemandRecording {
  return recordingProblem(content) === undefined
}

const policyFields = ['standingBy', 'standingBySessions', 'max', 'scaling']

/** Its values are checked as those of a build, before it is played. */
async function readPolicy(
  terminal: Terminal,
  file: string,
  base: BuildSpec | undefined,
): Promise<{ readonly name: string; readonly spec: ReplayOptions['policy'] }> {
  const [content] = await readDocuments(file, terminal.cwd)
  if (!isObject(content)) throw new UsageError(`--policy: ${file} must have standingBy, max or scaling`)
  const unknown = Object.keys(content).find((field) => !policyFields.includes(field))
  if (unknown !== undefined) {
    const hint = suggestion(unknown, policyFields, 'fields')
    throw new UsageError(`--policy: ${file} has a field ${unknown}, which is none of a policy; ${hint}`)
  }
  const { standingBy = base?.standingBy ?? 0, max = base?.max, ...rest } = content
  if (max === undefined) throw new UsageError(`--policy: ${file} has no max, and there is no build that has one`)
  // Checked by the fleet that plays it.
  const { scaling: _, standingBySessions: __, ...build } = { ...base }
  const spec = { ...build, ...rest, standingBy, max } as ReplayOptions['policy']
  return { name: basename(file, extname(file)), spec }
}

function largest(specs: readonly ReplayOptions['policy'][]): ReplayOptions['policy'] {
  const [most] = specs.toSorted((a, b) => b.max - a.max)
  return { standingBy: 0, max: 0, ...most }
}

async function fixedRow(rows: readonly Row[], options: ReplayOptions): Promise<Row | undefined> {
  const fewest = Math.min(...rows.map(({ outcome }) => outcome.refused))
  const found = await fixedNumberFor(options, fewest)
  return found && { policy: `standingBy ${found.standingBy}`, outcome: found.outcome }
}

function jsonOf({ policy, outcome }: Row, price: number | undefined): object {
  return { policy, ...outcome, ...(price !== undefined && { cost: outcome.serverHours * price }) }
}

function linesOf(terminal: Terminal, rows: readonly Row[], { wait, seed, price }: ReplayFlags): readonly string[] {
  const [first] = rows
  if (!first) return []
  const { day, callers } = first.outcome
  const columns = ['POLICY', 'REFUSED', 'P50', 'P95', 'P99', 'SERVER-HOURS', 'IDLE', 'PEAK']
  const cells = rows.map(({ policy, outcome }) => {
    const { refused, waitSeconds, serverHours, idleServerHours, peakServers } = outcome
    const { p50, p95, p99 } = waitSeconds
    return [
      policy,
      `${refused} (${share(refused, callers)} %)`,
      ...[p50, p95, p99].map((seconds) => `${seconds} s`),
      serverHours.toFixed(0),
      `${share(idleServerHours, serverHours, 0)} %`,
      String(peakServers),
      ...(price === undefined ? [] : [(serverHours * price).toFixed(2)]),
    ]
  })
  const heads = [...columns, ...(price === undefined ? [] : ['COST'])].map((head) => ({ head, cut: 'fixed' as const }))
  const { head, lines } = tableLines(heads, cells, { paint: terminal.paint })
  return [
    `${day}, ${callers} callers, who ${wait === 0 ? 'do not wait' : `wait up to ${wait} s`}; seed ${seed}`,
    '',
    head,
    ...lines,
    ...rows.flatMap(({ policy, outcome }) => ['', ...chart(policy, outcome.minutes)]),
  ]
}

function share(part: number, all: number, digits = 2): string {
  return (all === 0 ? 0 : (part / all) * 100).toFixed(digits)
}

const bars = ' ▁▂▃▄▅▆▇█'
const slots = 72

/** The day from left to right: the most in each slot, in eighths of the most of all. */
function chart(policy: string, minutes: readonly PlayedMinute[]): readonly string[] {
  const size = Math.ceil(minutes.length / slots)
  const line = (of: (minute: PlayedMinute) => number, most: number) =>
    Array.from({ length: Math.ceil(minutes.length / size) }, (_, slot) => {
      const top = Math.max(...minutes.slice(slot * size, (slot + 1) * size).map(of))
      return bars[most === 0 ? 0 : Math.ceil((top / most) * (bars.length - 1))]
    }).join('')
  const servers = Math.max(0, ...minutes.map((minute) => minute.servers))
  const refused = Math.max(0, ...minutes.map((minute) => minute.refused))
  return [
    `${policy}, 00:00 to 24:00 UTC`,
    `servers  ${line((minute) => minute.servers, servers)} up to ${servers}`,
    `in use   ${line((minute) => minute.inUse, servers)}`,
    ...(refused === 0 ? [] : [`refused  ${line((minute) => minute.refused, refused)} up to ${refused} a minute`]),
  ]
}
