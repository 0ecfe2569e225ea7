/** `gamekeeper serve`: the bundled server. */
import { type Command, Option } from 'commander'
import { flagOf } from '../../config/resolve.js'
import { UsageError } from '../../config/usage-error.js'
import { keyOf } from '../../config/define-config.js'
import { secretVariables, type Setting, settings } from '../../config/variables.js'
import { asUsageError } from '../../server/open-fleet.js'
import { runServer } from '../../server/run-server.js'
import { configOption, settingsOf } from '../flags.js'
import type { Terminal } from '../terminal.js'

interface ServeFlags extends Readonly<Record<string, string | boolean | undefined>> {
  readonly config?: string
  readonly json?: boolean
}

const rows: readonly (readonly [string, Setting])[] = Object.entries(settings)
const secrets: readonly string[] = secretVariables
/** The command line is visible to all users of a machine, so it takes no secrets. */
const flagged = rows.filter(([name]) => !secrets.includes(name))

export function addServe(program: Command, terminal: Terminal): void {
  const command = program
    .command('serve')
    .description('Run the bundled server: a fleet, its HTTP APIs and its agent in one process.')
    .option(...configOption)
    .option('--json', 'Log JSON lines, as without a terminal.')
  for (const [name, setting] of flagged) command.addOption(optionOf(name, setting))
  command.addHelpText('after', notes)
  command.action(async (flags: ServeFlags) => {
    const values = flagged.map(([name]) => [name, flags[keyOf(name)]] as const)
    const given = Object.fromEntries(
      values.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
    )
    const { env, inSources } = await settingsOf(terminal, flags, given)
    try {
      terminal.exitWith(await runServer({ env, cwd: terminal.cwd, json: flags.json ?? !terminal.isInteractive }))
    } catch (thrown) {
      const error = asUsageError(thrown)
      if (error instanceof UsageError) throw new UsageError(inSources(error.message), { cause: thrown })
      throw error
    }
  })
}

function optionOf(name: string, { fallback, meaning, type = 'text' }: Setting): Option {
  const shown = fallback === undefined ? '' : ` (default: ${fallback})`
  const option = new Option(`${flagOf(name)} <${placeholderOf(type)}>`, `${meaning.replaceAll('`', '')}${shown}`)
  return option
}

function placeholderOf(type: NonNullable<Setting['type']>): string {
  switch (type) {
    case 'text':
      return 'text'
    case 'number':
      return 'number'
    case 'rate':
      return 'number|off'
    case 'switch':
      return 'on|off'
    case 'flag':
      return '0|1'
    case 'list':
      return 'a,b'
    default:
      return type.join('|')
  }
}

const notes = `
Each option is also an environment variable, such as ALLOCATION_PORT for --allocation-port, and a key of the configuration file,
such as allocationPort. Flags win over the environment, and the environment over the file. Secrets have no flags:

${secretVariables.map((name) => `  ${name.padEnd(16)} ${settings[name].meaning.replaceAll('`', '')}`).join('\n')}

Signals:

  SIGTERM, SIGHUP  exits and leaves the game servers running; the next start with the same DATA_DIR resumes them
  Ctrl-C           drains: stops allocating, terminates idle servers, waits for matches, then exits;
                   a second Ctrl-C exits at once and leaves matches running
  SIGINT           without a terminal: as SIGTERM
`
