/**
 * Starts a game under a supervisor: a few lines of `/bin/sh` that lead the game's process group and record its exit code.
 * Starts processes; reads and writes the directory of a run.
 *
 * Why a supervisor: only a parent learns an exit code, and the host may be gone by then. A shell costs one small process per
 * server, exists on every machine, and outlives the host in its own session, out of reach of the terminal's Ctrl-C.
 *
 * Notes on the scripts (`$0` is the directory of the run, `$@` the game's command):
 * - The game starts with default handlers for trapped signals; ignored signals would stay ignored. The supervisor survives
 *   signals to the whole group, since the shell runs a trap only after the game has ended.
 * - `set -C` makes `>` fail on an existing file, so `claim` can be created only once: right before the game starts, or by a
 *   later host that cancels a start whose process it does not know. So a host that is killed at any moment around the start
 *   neither loses a game nor starts it twice. `pid` is complete before `claim` exists.
 * - A second shell creates the claim and then becomes the game. Between its fork and its exec the supervisor's traps would
 *   swallow a signal, so signals are sent only once the claim exists.
 * - Only builtins are used, since the game's PATH may lack anything else. `exit` is complete once it ends in a newline.
 * - Processes that the game leaves in its group are killed with it, as in a container. After SIGTERM they keep the rest of
 *   the grace period, which the host enforces: `sh -c 'node game.js'` ends on SIGTERM before its game does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/platform/error-code.js'
import { markVariable } from './process-group.js'

/** The supervisor's exit code when it did not start the game: it could not write, or the start was cancelled. */
export const notStartedCode = 125

const become = `set -C; echo >"$0/claim" || exit ${notStartedCode}; exec "$@"`

const supervise = `trap _gamekeeper_sigterm=1 TERM
trap : HUP INT QUIT PIPE ALRM USR1 USR2
echo $$ >"$0/pid" || exit ${notStartedCode}
/bin/sh -c '${become}' "$0" "$@"
echo $? >"$0/exit"
[ -n "$_gamekeeper_sigterm" ] || kill -KILL 0`

export interface StartInput {
  /** Contains the mark in its name. */
  readonly runDirectory: string
  readonly mark: string
  /** An absolute path. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDir: string
  /** File descriptor for stdout and stderr; the caller closes it. */
  readonly log: number
}

/** Resolves once the supervisor runs. Rejects with the system's error. */
export async function startSupervisor(input: StartInput): Promise<ChildProcess & { readonly pid: number }> {
  const command = [...envCommand(input.env), input.program, ...input.args]
  const child = spawn('/bin/sh', ['-c', supervise, input.runDirectory, ...command], {
    cwd: input.workingDir,
    env: { ...input.env, [markVariable]: input.mark },
    // A separate session and process group.
    detached: true,
    stdio: ['ignore', input.log, input.log],
  })
  child.unref()
  if (isStarted(child)) return child
  const [error] = await once(child, 'error')
  throw error
}

/** True when the supervisor of this run has not started the game, and now never will. */
export function cancelStart(runDirectory: string): boolean {
  try {
    closeSync(openSync(join(runDirectory, 'claim'), 'wx', 0o600))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    // Without its directory the supervisor cannot write and so starts nothing.
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}

/** True once the game starts: from then on it receives every signal to its group. */
export function isStartClaimed(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'claim'))
}

/** The process id that the supervisor wrote; undefined before it did. */
export function readSupervisorPid(runDirectory: string): number | undefined {
  const pid = readNumber(join(runDirectory, 'pid'))
  return pid !== undefined && pid > 1 ? pid : undefined
}

/** True once the supervisor writes the exit code, which it does last. */
export function isExitWritten(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'exit'))
}

/** The game's exit code, 128 + n for signal n. Undefined while it runs and when the supervisor was killed. */
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
const shellVariables: ReadonlySet<string> = new Set([
  '_',
  'EUID',
  'IFS',
  'OLDPWD',
  'OPTIND',
  'PPID',
  'PWD',
  'SHLVL',
  'UID',
])

/** Passes variables that a shell drops (`my.setting`) or sets itself through `env`. */
function envCommand(env: Readonly<Record<string, string>>): readonly string[] {
  const pairs = Object.entries(env).filter(([name]) => !shellName.test(name) || shellVariables.has(name))
  return pairs.length === 0 ? [] : ['/usr/bin/env', ...pairs.map(([name, value]) => `${name}=${value}`)]
}
