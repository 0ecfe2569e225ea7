/** `gamekeeper simulate`: what a build does under an even load, or on a day that was recorded or invented. */
import type { Command } from 'commander'
import { memoryBackend } from '../../../adapters/memory/index.js'
import { CommandLineError, UsageError } from '../../config/usage-error.js'
import { type BuildSpec, createFleet } from '../../index.js'
import type { GameServerBuildInput } from '../../contracts/fleet.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { numberBetween, wholeNumber } from '../flags.js'
import { callersOf, type Load, peakMatches, runLoad, smallestStandingBy } from '../load-simulation.js'
import { type PlayedOutcome } from '../../testing/played-day.js'
import { waitsOf } from '../../testing/replay.js'
import { progressMeter, type Terminal } from '../terminal.js'
import { readBuilds } from './apply.js'
import { addReplayOptions, isReplay, replayed, type ReplayFlags } from './simulate-day.js'

interface SimulateFlags extends ClientFlags, ReplayFlags {
  readonly file?: string
  readonly standingBy?: number
  readonly max?: number
  readonly allocationsPerMinute: number
  readonly matchSeconds: number
  readonly startSeconds: number
  readonly wait: number
  readonly hours: number
  readonly seed: number
}

interface Report extends Omit<PlayedOutcome, 'minutes' | 'waitsMs'> {
  readonly build: string
  readonly standingBy: number
  readonly max: number
  readonly load: Load
  readonly waitSeconds: { readonly p50: number; readonly p95: number; readonly p99: number; readonly longest: number }
  /** null: not even `max` suffices. */
  readonly smallestStandingBy: number | null
  /** How many matches run at the same time, if every caller gets a server at once. */
  readonly peakMatches: number
}

const maxCallers = 1_000_000

export function addSimulate(program: Command, terminal: Terminal): void {
  const command = program
    .command('simulate')
    .description(
      'Say what limits of a build do under a load: the real engine with simulated game servers, in fast motion.',
    )
    .argument('[build]', 'Build of a running server, or with --file, one of the builds in it.')
    .option('-f, --file <file>', 'YAML or JSON file with the build. - reads stdin.')
    .option('--standing-by <number>', 'Instead of standingBy in the build.', wholeNumber(0, 100_000))
    .option('--max <number>', 'Instead of max in the build.', wholeNumber(0, 100_000))
    .option('--allocations-per-minute <number>', 'Mean number of callers.', numberBetween(0.001, 100_000), 1)
    .option('--match-seconds <number>', 'Mean length of a match.', numberBetween(1, 604_800), 600)
    .option('--start-seconds <number>', 'Mean time until a server is standing by.', numberBetween(0, 86_400), 10)
    .option('--wait <seconds>', 'How long callers wait for a server.', numberBetween(0, 86_400), 0)
    .option('--hours <number>', 'How long an even load lasts.', numberBetween(0.01, 8_760), 24)
    .option('--seed <number>', 'Another seed is another day.', wholeNumber(0, 999_999_999), 1)
    .addHelpText('after', notes)
  addReplayOptions(command)
  addClientOptions(command).action(async (name: string | undefined, flags: SimulateFlags) => {
    if (isReplay(flags)) {
      const base = needsBuild(name, flags) ? await buildOf(terminal, name, flags) : undefined
      return replayed(terminal, base, flagsOfDay(command, flags))
    }
    const build = await buildOf(terminal, name, flags)
    const load: Load = {
      allocationsPerMinute: flags.allocationsPerMinute,
      matchSeconds: flags.matchSeconds,
      startSeconds: flags.startSeconds,
      waitSeconds: flags.wait,
      hours: flags.hours,
      seed: flags.seed,
    }
    const report = await simulated(terminal, build, load)
    if (flags.json) terminal.print(JSON.stringify(report))
    else for (const line of linesOf(report)) terminal.print(line)
  })
}

/** Policies may say all that a build says of numbers. */
function needsBuild(name: string | undefined, { file, policy = [], standingBy, max }: SimulateFlags): boolean {
  return policy.length === 0 || [name, file, standingBy, max].some((given) => given !== undefined)
}

/** On a recorded day, what was recorded takes the place of the defaults. Throws UsageError for flags that a day does not have. */
function flagsOfDay(command: Command, flags: SimulateFlags): ReplayFlags {
  const isGiven = (name: string) => command.getOptionValueSource(name) !== 'default'
  const isRecorded = flags.shape === undefined
  const none = ['hours', 'allocationsPerMinute', ...(isRecorded ? ['matchSeconds'] : [])].find(isGiven)
  if (none !== undefined) {
    const flag = `--${none.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    throw new UsageError(
      `${flag} is of an even load; ${isRecorded ? 'a recording' : 'an invented day'} says that itself`,
    )
  }
  const { startSeconds, ...rest } = flags
  return { ...rest, ...((!isRecorded || isGiven('startSeconds')) && { startSeconds }) }
}

interface SimulatedBuild {
  readonly name: string
  readonly spec: BuildSpec
}

async function buildOf(terminal: Terminal, name: string | undefined, flags: SimulateFlags): Promise<SimulatedBuild> {
  const { file, standingBy, max } = flags
  const change = { ...(standingBy !== undefined && { standingBy }), ...(max !== undefined && { max }) }
  const checked = async ({ metadata, spec }: GameServerBuildInput) => ({
    name: metadata.name,
    spec: await checkedSpec({ metadata: { name: metadata.name }, spec: { ...spec, ...change } }),
  })
  if (file !== undefined) {
    const builds = await readBuilds(file, terminal.cwd, 'default')
    const named = name === undefined ? builds : builds.filter(({ metadata }) => metadata.name === name)
    if (named.length === 1 && named[0]) return checked(named[0])
    const names = builds.map(({ metadata }) => metadata.name).join(', ')
    throw new UsageError(`${file} has the builds ${names}: name one of them`)
  }
  if (name === undefined) {
    if (standingBy === undefined || max === undefined)
      throw new CommandLineError('simulate needs a build: its name, --file, or --standing-by and --max')
    const template = { spec: { containers: [{ name: 'game', image: 'simulated' }] } }
    const spec = { buildID: 'simulated', standingBy, max, portsToExpose: [], template }
    return checked({ metadata: { name: 'simulated' }, spec })
  }
  const { client, ref } = await commandTarget(terminal, flags)
  return checked(await client.builds.get(ref(name)))
}

/** Throws `invalid`, naming the field. */
async function checkedSpec(build: GameServerBuildInput): Promise<BuildSpec> {
  const fleet = await createFleet({ backend: memoryBackend({ script: 'manual' }), logger: false })
  try {
    return (await fleet.builds.create(build)).spec
  } finally {
    await fleet.close()
  }
}

async function simulated(terminal: Terminal, { name, spec }: SimulatedBuild, load: Load): Promise<Report> {
  const expected = load.allocationsPerMinute * 60 * load.hours
  if (expected > maxCallers)
    throw new UsageError(
      `${Math.round(expected)} callers are too many, at most ${maxCallers}: lower --hours or --allocations-per-minute`,
    )
  const callers = callersOf(load)
  const signal = terminal.interruption()
  const progress = progressMeter(terminal)
  const onMinute = (standingBy: number, ms: number) =>
    progress(`${standingBy} standing by: ${(ms / 3_600_000).toFixed(1)} of ${load.hours} h simulated`)
  const { standingBy, max } = spec
  const outcome = await runLoad(spec, load, callers, { onMinute: (ms) => onMinute(standingBy, ms), signal })
  const known = { standingBy, outcome }
  const smallest = await smallestStandingBy(spec, load, callers, { known, onMinute, signal })
  const { minutes: _, waitsMs, ...counts } = outcome
  return {
    build: name,
    standingBy,
    max,
    load,
    ...counts,
    waitSeconds: waitsOf(waitsMs),
    smallestStandingBy: smallest ?? null,
    peakMatches: peakMatches(callers),
  }
}

function linesOf(report: Report): readonly string[] {
  const { build, standingBy, max, load, callers, served, refused, waitSeconds, peakServers } = report
  const { smallestStandingBy: smallest, idleServerHours: idle, activeServerHours: active } = report
  const percent = callers === 0 ? 0 : (refused / callers) * 100
  const share = idle + active === 0 ? 0 : (idle / (idle + active)) * 100
  return [
    `${load.hours} h of build ${build} with standingBy ${standingBy} and max ${max}, seed ${load.seed}: ${load.allocationsPerMinute} callers a minute, matches of ${load.matchSeconds} s, starts of ${load.startSeconds} s`,
    `callers       ${callers}: ${served} served, ${refused} refused (${percent.toFixed(2)} %)`,
    `waiting time  p50 ${waitSeconds.p50} s, p95 ${waitSeconds.p95} s, p99 ${waitSeconds.p99} s, longest ${waitSeconds.longest} s`,
    `servers       ${peakServers} at peak`,
    `idle          ${idle.toFixed(1)} server-hours without a match, ${share.toFixed(0)} % of all`,
    smallest === null
      ? `not even standingBy ${max} serves all callers: max is too small, since ${report.peakMatches} matches would run at the same time`
      : `standingBy ${smallest} is the smallest that refuses no caller`,
  ]
}

const notes = `
Without --from and --shape, the load is even: callers come independently of each other, and matches and starts take from half to one and a half
times their mean. With them, a day is replayed for each policy: of a recording, the callers who came in each minute, and sessions and starts as
long as they were then. A policy is a file in JSON or YAML with standingBy, max and scaling, which replace those of the build.

The fleet has the default limits of createFleet; the same seed gives the same report. The report counts from the moment in which the servers
stand by.

Examples:

  gamekeeper simulate -f build.yaml --allocations-per-minute 4 --match-seconds 900 --start-seconds 30
  gamekeeper simulate arena --standing-by 8 --wait 20
  gamekeeper simulate --standing-by 2 --max 50 --json
  gamekeeper demand arena > recording.json
  gamekeeper simulate arena --from recording.json --policy a.json --policy b.json --fixed
  gamekeeper simulate --shape evening-peak --sessions 20000 --policy a.json
`
