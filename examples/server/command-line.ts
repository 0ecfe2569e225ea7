/** The command line: `--help` and `--version`. Everything else is configured by environment variables. Pure. */
import { UsageError } from './settings.js'
import { type Setting, settings } from './variables.js'

export type Command = 'run' | 'help' | 'version'

/** Throws UsageError for an unknown argument. */
export function readCommand(args: readonly string[]): Command {
  let command: Command = 'run'
  for (const arg of args) {
    if (arg === '--help' || arg === '-h') return 'help'
    if (arg === '--version' || arg === '-v') command = 'version'
    else
      throw new UsageError(
        `unknown argument ${JSON.stringify(arg)}; the server is configured by environment variables, see --help`,
      )
  }
  return command
}

export function helpText(): string {
  const rows: [string, Setting][] = Object.entries(settings)
  const names = Math.max(...rows.map(([name]) => name.length))
  const fallbacks = Math.max(...rows.map(([, { fallback = '' }]) => fallback.length))
  const table = rows.map(
    ([name, { fallback = '', meaning }]) =>
      `  ${name.padEnd(names)}  ${fallback.padEnd(fallbacks)}  ${meaning.replaceAll('`', '')}`,
  )
  return `The gamekeeper server: keeps a fleet of game servers standing by and allocates one per call.

  npm start                            starts the server
  ALLOCATION_PORT=6000 npm start       starts it on another port
  npm start -- --help                  prints this text; --version prints the version

Environment variables and defaults:

${table.join('\n')}

Signals:

  SIGTERM, SIGHUP     exits and leaves the game servers running; the next start with the same DATA_DIR resumes them
  SIGINT (Ctrl-C)     drains: stops allocating, terminates idle servers, waits for matches, then exits;
                      a second SIGINT exits at once and leaves matches running
`
}
