/** `gamekeeper dev`: a fleet of one game on this machine, for development. Everything ends with it. */
import { type Command, InvalidArgumentError } from 'commander'
import { UsageError } from '../../config/usage-error.js'
import { asUsageError } from '../../server/open-fleet.js'
import { sampleProgram } from '../../server/sample.js'
import { withSecretFiles } from '../../server/secrets.js'
import { readConfig } from '../../server/settings.js'
import { exitCodes } from '../failures.js'
import { configOption, settingsOf } from '../settings.js'
import { wholeNumber } from '../numbers.js'
import type { Terminal } from '../terminal.js'
import { developmentOutput } from './dev-output.js'
import { runDevelopmentFleet } from './dev-fleet.js'

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
          config: readConfig(withSecretFiles(env), terminal.cwd),
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
