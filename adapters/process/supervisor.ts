/**
 * Starts a game under a supervisor: a few lines of `/bin/sh` that lead the game's process group and write down how the
 * game ended. Starts processes; writes and reads the directory of a run.
 *
 * Why a supervisor: only a parent learns an exit code, and the host may be gone by then. A shell costs one small process
 * a server, is on every machine, and outlives the host in a session of its own, out of reach of the terminal's Ctrl-C.
 *
 * What is not obvious in the scripts (`$0` is the directory of the run, `$@` the game):
 * - Trapped signals are back to their defaults in the game, ignored ones would not be. The supervisor survives what is
 *   sent to the whole group, since it runs a trap only after the game has ended.
 * - `set -C` makes `>` fail on a file that exists. So `claim` can be made once only: right before the game starts, or by
 *   a later host that finds the record of a start without process and calls it off. That is how a host killed at any
 *   moment around the start neither loses a game nor starts it twice. `pid` is complete by then.
 * - The claim is made by a second shell, which becomes the game. Between its fork and its exec the supervisor's traps
 *   would swallow a signal; who waits for the claim before sending one is past that.
 * - Only builtins are used, whatever PATH the game gets. `exit` is whole once it ends in a newline.
 * - What the game leaves behind in its group ends with it, as it would in a container; but after a SIGTERM the leftovers
 *   have the rest of their grace period, for which the host looks: `sh -c 'node game.js'` dies of it before its game.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from './files.js'
import { markVariable } from './process-group.js'

/** The supervisor's own exit code when it could not write, or was called off, and so did not start the game. */
export const notStartedCode = 125

const become = `set -C; echo >"$0/claim" || exit ${notStartedCode}; exec "$@"`

const supervise = `trap _gamekeeper_asked=1 TERM
trap : HUP INT QUIT PIPE ALRM USR1 USR2
echo $$ >"$0/pid" || exit ${notStartedCode}
/bin/sh -c '${become}' "$0" "$@"
echo $? >"$0/exit"
[ -n "$_gamekeeper_asked" ] || kill -KILL 0`

export interface StartInput {
  /** Holds the mark in its name. */
  readonly runDirectory: string
  readonly mark: string
  /** An absolute path. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDir: string
  /** An open file for stdout and stderr; stays the caller's to close. */
  readonly log: number
}

/** Resolves once the supervisor runs; rejects with the system's error when it cannot be started. */
export async function startSupervisor(input: StartInput): Promise<ChildProcess & { readonly pid: number }> {
  const command = [...odd(input.env), input.program, ...input.args]
  const child = spawn('/bin/sh', ['-c', supervise, input.runDirectory, ...command], {
    cwd: input.workingDir,
    env: { ...input.env, [markVariable]: input.mark },
    // A session and a process group of its own.
    detached: true,
    stdio: ['ignore', input.log, input.log],
  })
  child.unref()
  if (isStarted(child)) return child
  const [error] = await once(child, 'error')
  throw error
}

/** True when the supervisor of this run has not come to start its game, and now never will. */
export function callOffStart(runDirectory: string): boolean {
  try {
    closeSync(openSync(join(runDirectory, 'claim'), 'wx', 0o600))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    // Where its directory is gone, a supervisor cannot write and so starts nothing.
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}

/** True once the game starts: from then on it gets every signal that is sent to its group. */
export function isStartClaimed(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'claim'))
}

/** The process id that the supervisor wrote, if it came so far. */
export function readSupervisorPid(runDirectory: string): number | undefined {
  const pid = readNumber(join(runDirectory, 'pid'))
  return pid !== undefined && pid > 1 ? pid : undefined
}

/** True once the supervisor writes down the exit code, which is its last act. */
export function isExitWritten(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'exit'))
}

/** The exit code of the game: 128 + n for signal n. Undefined while it runs, and when its supervisor was killed. */
export function readExitCode(runDirectory: string): number | undefined {
  return readNumber(join(runDirectory, 'exit'))
}

function readNumber(path: string): number | undefined {
  try {
    const match = /^(\d+)\n$/.exec(readFileSync(path, 'latin1'))
    return match ? Number(match[1]) : undefined
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
    throw error
  }
}

function isStarted(child: ChildProcess): child is ChildProcess & { readonly pid: number } {
  return child.pid !== undefined
}

const shellName = /^[A-Za-z_][A-Za-z0-9_]*$/
const shellOwn: ReadonlySet<string> = new Set(['_', 'EUID', 'IFS', 'OLDPWD', 'OPTIND', 'PPID', 'PWD', 'SHLVL', 'UID'])

/** Variables that a shell would not pass on (`my.setting`) or set itself go around it, through `env`. */
function odd(env: Readonly<Record<string, string>>): readonly string[] {
  const pairs = Object.entries(env).filter(([name]) => !shellName.test(name) || shellOwn.has(name))
  return pairs.length === 0 ? [] : ['/usr/bin/env', ...pairs.map(([name, value]) => `${name}=${value}`)]
}
