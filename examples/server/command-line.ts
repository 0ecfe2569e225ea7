/** What can be said on the command line: two questions, and nothing else. Pure. */
import { type Setting, settings, UsageError } from './settings.js'

export type Command = 'run' | 'help' | 'version'

/** Throws UsageError for anything that is not known. */
export function readCommand(args: readonly string[]): Command {
  let command: Command = 'run'
  for (const arg of args) {
    if (arg === '--help' || arg === '-h') return 'help'
    if (arg === '--version' || arg === '-v') command = 'version'
    else throw new UsageError(`${JSON.stringify(arg)} is not known; all is set in the environment, see --help`)
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
  return `The gamekeeper server: keeps a fleet of game servers standing by, and hands one out in one call.

  npm start                            starts it with what is below
  ALLOCATION_PORT=6000 npm start       with another port
  npm start -- --help                  prints this; --version prints the version

Environment, with defaults:

${table.join('\n')}

Signals:

  SIGTERM, SIGHUP     leaves, and leaves the game servers running: the next start on DATA_DIR goes on with them
  SIGINT (Ctrl-C)     drains: no new allocations, idle servers end, matches go on, then leaves; once more: leaves at once
`
}
