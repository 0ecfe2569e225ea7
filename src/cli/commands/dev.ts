/** `gamekeeper dev`: a fleet of one game on this machine, for development. Everything ends with it. */
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { type Command, InvalidArgumentError } from 'commander'
import { processBackend } from '../../../adapters/process/index.js'
import { UsageError } from '../../config/usage-error.js'
import { dashboardPage } from '../../dashboard/index.js'
import { serve, type Served } from '../../http/index.js'
import { createFleet, FleetError, type FleetEvent } from '../../index.js'
import type { Fleet, GameServerBuildInput } from '../../contracts/fleet.js'
import { oneLine } from '../../server/log.js'
import { asUsageError } from '../../server/open-fleet.js'
import { sampleProgram } from '../../server/sample.js'
import { withSecretFiles } from '../../server/secrets.js'
import { type Config, readServerConfig } from '../../server/settings.js'
import { exitCodes } from '../failures.js'
import { configOption, settingsOf, wholeNumber } from '../flags.js'
import type { Colour, Terminal } from '../terminal.js'

interface DevFlags {
  readonly config?: string
  readonly json?: boolean
  readonly port: number
  readonly standingBy: number
  readonly max: number | undefined
  readonly env: readonly string[]
}

export function addDev(program: Command, terminal: Terminal): void {
  program
    .command('dev')
    .description(
      'Run a fleet of one game on this machine, show what the games print, and allocate a match to play with.',
    )
    .argument('[command...]', 'Command that starts the game server. Default: the sample game.')
    .passThroughOptions()
    .option('-p, --port <number>', 'Port that the game listens on, as it calls it.', wholeNumber(1, 65_535), 7777)
    .option('--standing-by <number>', 'Servers to keep ready.', wholeNumber(1, 100), 1)
    .option(
      '--max <number>',
      'Servers to run at most. Default: 4, or --standing-by if that is more.',
      wholeNumber(1, 100),
    )
    .option('-e, --env <NAME=value>', 'Environment variable of the game. May be repeated.', collect, [])
    .option(...configOption)
    .option('--json', 'Print JSON lines.')
    .addHelpText('after', notes)
    .action(async (command: readonly string[], flags: DevFlags) => {
      if (flags.max !== undefined && flags.max < flags.standingBy) {
        throw new UsageError(`--max must be at least --standing-by (${flags.standingBy}), but is ${flags.max}`)
      }
      const { env, inSources } = await settingsOf(terminal, flags, {})
      endAtOnceOnSecondSignal(terminal)
      try {
        await runDevelopmentFleet({
          command: command.length > 0 ? command : [process.execPath, sampleProgram()],
          isSample: command.length === 0,
          cwd: terminal.cwd,
          port: flags.port,
          standingBy: flags.standingBy,
          max: flags.max ?? Math.max(4, flags.standingBy),
          env: flags.env.map(variable),
          config: readServerConfig(withSecretFiles(env), terminal.cwd),
          // Without a setting, any free port, so that several may run at once.
          agentPort: env['AGENT_PORT'] === undefined ? 0 : undefined,
          output: developmentOutput(terminal, flags.json === true),
          signal: terminal.interruption(),
          input: process.stdin,
        })
      } catch (thrown) {
        const error = asUsageError(thrown)
        if (error instanceof UsageError) throw new UsageError(inSources(error.message), { cause: thrown })
        throw error
      }
    })
}

/** The first signal ends the games, which takes a moment; whoever cannot wait sends another. */
function endAtOnceOnSecondSignal(terminal: Terminal): void {
  // A terminal and npm both send Ctrl-C: a signal this soon after another is the same one.
  const duplicateMs = 500
  let first: number | undefined
  const onSignal = () => {
    first ??= performance.now()
    if (performance.now() - first > duplicateMs) terminal.die(exitCodes.interrupted)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
}

function collect(one: string, others: readonly string[]): readonly string[] {
  if (!/^[A-Za-z_]\w*=/.test(one)) throw new InvalidArgumentError('It must be NAME=value.')
  return [...others, one]
}

function variable(text: string): { readonly name: string; readonly value: string } {
  const at = text.indexOf('=')
  return { name: text.slice(0, at), value: text.slice(at + 1) }
}

const notes = `
Options of dev come before the command. Examples:

  gamekeeper dev                        runs the sample game
  gamekeeper dev node server.mjs        runs your game server
  gamekeeper dev --port 7000 ./game -x  runs it with a container port of 7000; -x is an option of the game

Press Enter for another match. Ctrl-C ends the games and the fleet at once. Records and logs are in DATA_DIR/dev.
`

// The fleet of `gamekeeper dev`: one build on processes, its games' output, and matches to play with.

interface DevelopmentOptions {
  readonly command: readonly string[]
  readonly isSample: boolean
  readonly cwd: string
  readonly port: number
  readonly standingBy: number
  readonly max: number
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly config: Config
  /** Default: that of the settings. */
  readonly agentPort: number | undefined
  readonly output: DevelopmentOutput
  /** Ends everything. */
  readonly signal: AbortSignal
  /** Each line asks for another match. */
  readonly input: Readable
}

const buildID = 'dev'
const name = 'dev'
/** A game that is not ready by then has probably forgotten to say so. */
const hintAfterMs = 10_000

/** Resolves when the signal has fired and everything has ended. */
async function runDevelopmentFleet(options: DevelopmentOptions): Promise<void> {
  const { config, output } = options
  const fleet = await createFleet({
    backend: processBackend({
      directory: config.dataDir,
      development: { output: (server, line) => output.game(server, line) },
      logger: false,
      portRange: config.portRange,
      ...(config.publicAddress !== undefined && { publicAddress: config.publicAddress }),
    }),
    agent: { port: options.agentPort ?? config.agentPort },
    audit: false,
    // It reports what happens itself.
    logger: false,
  })
  let served: Served | undefined
  try {
    served = await serveLocally(fleet, config)
    const { allocationUrl, managementUrl } = served
    const command = options.isSample ? 'the sample game' : options.command.join(' ')
    output.say(
      'ready',
      `gamekeeper dev: ${command}; dashboard and management API ${managementUrl}, allocation ${allocationUrl}`,
      {
        management: managementUrl,
        allocation: allocationUrl,
      },
    )
    fleet.on('*', (event) => tell(event, output))
    await fleet.builds.create(buildOf(options))
    await playMatches(fleet, options)
    output.say('ending', 'ending the games')
  } finally {
    await served?.close()
    await fleet.close()
  }
}

function buildOf({ command, cwd, port, standingBy, max, env }: DevelopmentOptions): GameServerBuildInput {
  const [program = '', ...args] = command
  const ports = [{ name: 'game', containerPort: port }]
  const container = { name: 'game', command: [program], args, env, workingDir: cwd, ports }
  const template = { spec: { containers: [container] } }
  return { metadata: { name }, spec: { buildID, standingBy, max, portsToExpose: [port], template } }
}

/** On the ports of the settings, or on free ones if those are in use. */
async function serveLocally(fleet: Fleet, { allocationPort, managementPort }: Config): Promise<Served> {
  const at = (allocation: number, management: number) =>
    serve({ fleet, allocation: { port: allocation }, management: { port: management }, dashboard: dashboardPage() })
  try {
    return await at(allocationPort, managementPort)
  } catch (error) {
    if (!FleetError.is(error, 'port-in-use')) throw error
    return at(0, 0)
  }
}

/** Allocates a match at once, and another for each line of input. Resolves when the signal fires. */
async function playMatches(fleet: Fleet, { output, signal, input, isSample }: DevelopmentOptions): Promise<void> {
  const lines = createInterface({ input })
  const allocations = new Set<Promise<void>>()
  const allocate = () => {
    const allocation = allocateMatch(fleet, output, signal, isSample).finally(() => allocations.delete(allocation))
    allocations.add(allocation)
  }
  const hint = setTimeout(() => {
    const text = `no server is ready after ${hintAfterMs / 1000} s: a game must call readyForPlayers() of its GSDK`
    output.warn('hint', text)
  }, hintAfterMs)
  const unlisten = fleet.on('ServerStateChanged', ({ to }) => {
    if (to === 'StandingBy') clearTimeout(hint)
  })
  lines.on('line', allocate)
  allocate()
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })
  clearTimeout(hint)
  unlisten()
  lines.close()
  await Promise.all(allocations)
}

/** Tries until a server is ready. */
async function allocateMatch(
  fleet: Fleet,
  output: DevelopmentOutput,
  signal: AbortSignal,
  isSample: boolean,
): Promise<void> {
  const sessionID = randomUUID()
  while (!signal.aborted) {
    try {
      const request = { buildID, sessionID, initialPlayers: ['amie', 'bob'] }
      const { IPV4Address, Ports } = await fleet.allocate(request, { waitMs: 30_000, confirm: true, signal })
      const place = Ports.split(',').map((pair) => `${IPV4Address}:${pair.split(':').at(-1)}`)
      const talk = isSample ? `; talk to it: nc ${place.join(' ').replace(':', ' ')}` : ''
      const text = `match ${sessionID} is on ${place.join(', ')}${talk}; Enter: another match, Ctrl-C: end`
      output.say('allocated', text, { sessionID, IPV4Address, Ports })
      return
    } catch (error) {
      if (signal.aborted) return
      if (!FleetError.is(error) || !error.retryable) throw error
      output.warn('waiting', error.message, { code: error.code })
    }
  }
}

/** Shows the events that matter to a developer. */
function tell(event: FleetEvent, output: DevelopmentOutput): void {
  const server = 'server' in event ? { server: event.server.name } : {}
  const fields = { ...server, event: event.type }
  if (event.type === 'ServerStateChanged') {
    if (event.to === 'StandingBy') output.say('event', `${event.server.name} is ready`, fields)
  } else if (event.type === 'ServerEnding') {
    if (event.crash) output.warn('event', event.message, fields)
    else if (event.reason !== 'Drained') output.say('event', event.message, fields)
  } else if (event.type === 'ConditionChanged') {
    // The crash itself is shown, and a drain is how `dev` ends.
    const isShown = event.condition !== 'Crashing' && event.condition !== 'Draining'
    if (event.status && isShown) output.warn('event', event.message, fields)
  } else if (troubles.has(event.type)) output.warn('event', event.message, fields)
}

const troubles: ReadonlySet<FleetEvent['type']> = new Set(['ServerStartFailed', 'ServerLate', 'TemplateFieldsSkipped'])

interface DevelopmentOutput {
  /** Something that the fleet did. `fields` are only in the JSON line. */
  say(type: string, text: string, fields?: object): void
  warn(type: string, text: string, fields?: object): void
  /** One line that a game printed. */
  game(server: string, line: string): void
}

const colours: readonly Colour[] = ['cyan', 'magenta', 'blue', 'green', 'yellow']

function developmentOutput(terminal: Terminal, json: boolean): DevelopmentOutput {
  if (json) {
    const print = (line: object) => terminal.print(JSON.stringify(line))
    return {
      say: (type, message, fields) => print({ type, message, ...fields }),
      warn: (type, message, fields) => print({ type, message, ...fields }),
      game: (server, line) => print({ type: 'output', server, line }),
    }
  }
  const seen = new Map<string, Colour>()
  const colourOf = (server: string): Colour => {
    const known = seen.get(server) ?? colours[seen.size % colours.length] ?? 'cyan'
    seen.set(server, known)
    return known
  }
  return {
    say: (_, text) => terminal.print(text),
    warn: (_, text) => terminal.print(terminal.paint('yellow', `! ${oneLine(text)}`)),
    game: (server, line) => terminal.print(`${terminal.paint(colourOf(server), `[${server}]`)} ${line}`),
  }
}
