#!/usr/bin/env node
/** The command `gamekeeper`. Only this file ends the process. */
import { CommanderError } from 'commander'
import { oneLine } from '../server/log.js'
import { exitCodes, failureOf } from './failures.js'
import { gamekeeperProgram } from './program.js'
import { processTerminal, type Terminal } from './terminal.js'

/** Resolves with the exit code. A defect ends the process, and leaves game servers running. */
async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const json = args.includes('--json')
  const die = (thrown: unknown) => terminal.die(report(thrown, terminal, json))
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  const program = gamekeeperProgram(terminal)
  try {
    await program.parseAsync([...args], { from: 'user' })
    return terminal.exitCode()
  } catch (error) {
    return report(error, terminal, json)
  }
}

function report(thrown: unknown, terminal: Terminal, json: boolean): number {
  if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0
  // Commander has printed the help of a command that was called without its subcommand.
  if (thrown instanceof CommanderError && thrown.code === 'commander.help') return exitCodes.usage
  const { message, code, exitCode } = failureOf(thrown)
  if (terminal.isInterrupted() && code === 'aborted') return exitCodes.interrupted
  const line = oneLine(message)
  terminal.note(json ? JSON.stringify({ error: line, code }) : `${terminal.paint('red', 'gamekeeper:')} ${line}`)
  return exitCode
}

const exit = (code: number) => process.exit(code)
exit(await run(process.argv.slice(2), processTerminal(exit)))
