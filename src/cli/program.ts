/** The commands of `gamekeeper`, with their help. docs/reference/cli.md is generated from this. */
import { Command } from 'commander'
import { packageVersion } from '../platform/package-root.js'
import { addAllocate } from './commands/allocate.js'
import { addApply } from './commands/apply.js'
import { addAttach } from './commands/attach.js'
import { addChanges } from './commands/change.js'
import { addDoctor } from './commands/doctor.js'
import { addGet } from './commands/get.js'
import { addInspection } from './commands/inspect.js'
import { addReservations } from './commands/reserve.js'
import { addServe } from './commands/serve.js'
import { addSimulate } from './commands/simulate.js'
import { addStatus } from './commands/status.js'
import { addCompletion } from './completion.js'
import { addDev } from './dev/dev.js'
import { addInit } from './commands/init.js'
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
