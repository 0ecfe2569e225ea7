/** The commands of `gamekeeper`, with their help. docs/reference/cli.md is generated from this. */
import { Argument, Command } from 'commander'
import { packageVersion } from '../platform/packages.js'
import { addAllocate } from './commands/allocate.js'
import { addApply } from './commands/apply.js'
import { addAttach } from './commands/attach.js'
import { addChanges, addReservations } from './commands/change.js'
import { addDev } from './commands/dev.js'
import { addDoctor } from './commands/doctor.js'
import { addGet } from './commands/get.js'
import { addInit } from './commands/init.js'
import { addInspection } from './commands/inspect.js'
import { addServe } from './commands/serve.js'
import { addDemand } from './commands/simulate-day.js'
import { addSimulate } from './commands/simulate.js'
import { addStatus } from './commands/status.js'
import { exitCodes, exitMeanings } from './failures.js'
import type { Terminal } from './terminal.js'

export function gamekeeperProgram(terminal: Terminal): Command {
  const program = new Command('gamekeeper')
    .description('Keeps a fleet of dedicated game servers standing by and allocates one in a single call.')
    .version(packageVersion(), '-v, --version', 'Print the version.')
    .helpOption('-h, --help', 'Print the help of a command.')
    .helpCommand(false)
    .addHelpText('after', exitCodeList)
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.write(text),
      writeErr: (text) => terminal.writeError(text),
      // run.ts reports errors.
      outputError: () => {},
    })
  addDev(program, terminal)
  addInit(program, terminal)
  addServe(program, terminal)
  addDoctor(program, terminal)
  addStatus(program, terminal)
  addGet(program, terminal)
  addApply(program, terminal)
  addAllocate(program, terminal)
  addInspection(program, terminal)
  addAttach(program, terminal)
  addChanges(program, terminal)
  addReservations(program, terminal)
  addDemand(program, terminal)
  addSimulate(program, terminal)
  addCompletion(program, terminal)
  return program
}

const exitCodeList = `
Exit codes:
${Object.entries(exitMeanings)
  .map(([name, meaning]) => `  ${String(codeOf(name)).padStart(3)}  ${meaning}`)
  .join('\n')}
`

function codeOf(name: string): number | undefined {
  return Object.entries(exitCodes).find(([one]) => one === name)?.[1]
}

// `gamekeeper completion`: scripts for shells, which ask this program for candidates.

const shells = ['bash', 'zsh', 'fish'] as const

function addCompletion(program: Command, terminal: Terminal): void {
  program
    .command('completion')
    .description('Print a script that completes commands and options in a shell.')
    .addArgument(new Argument('<shell>', 'Shell to complete in.').choices(shells))
    .addHelpText('after', notes)
    .action((shell: (typeof shells)[number]) => terminal.write(scripts[shell]))
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action((words: readonly string[]) => candidates(program, words).forEach((one) => terminal.print(one)))
}

/** What may follow: the last word is the one that is being typed. Pure. */
function candidates(program: Command, words: readonly string[]): readonly string[] {
  const typed = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  const command = commandAt(program, before)
  const expecting = command.options.find(
    ({ long, short, required }) => required && [long, short].includes(before.at(-1) ?? ''),
  )
  const position = before.filter((word) => !word.startsWith('-')).length - depthOf(command)
  const argument = command.registeredArguments[position]
  const options = command.options.flatMap(({ long, hidden }) => (long === undefined || hidden ? [] : [long]))
  const known = expecting
    ? (expecting.argChoices ?? [])
    : [...visible(command), ...(argument?.argChoices ?? []), ...options, '--help']
  return known.filter((one) => one.startsWith(typed) && (typed.startsWith('-') || !one.startsWith('-')))
}

function visible(command: Command): readonly string[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((one) => one.name())
}

function commandAt(program: Command, words: readonly string[]): Command {
  const next = program.commands.find((one) => one.name() === words[0])
  return next === undefined ? program : commandAt(next, words.slice(1))
}

function depthOf(command: Command): number {
  return command.parent === null ? 0 : 1 + depthOf(command.parent)
}

const scripts = {
  bash: `_gamekeeper() {
  local IFS=$'\\n'
  COMPREPLY=($(gamekeeper complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gamekeeper gamekeeper
`,
  zsh: `#compdef gamekeeper
_gamekeeper() {
  local -a found
  found=(\${(f)"$(gamekeeper complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _gamekeeper gamekeeper
`,
  fish: `complete -c gamekeeper -a '(gamekeeper complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

const notes = `
Examples:

  source <(gamekeeper completion bash)          in ~/.bashrc
  source <(gamekeeper completion zsh)           in ~/.zshrc
  gamekeeper completion fish | source           in ~/.config/fish/config.fish
`
