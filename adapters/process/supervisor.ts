/**
 * Starts a game under a supervisor: a short `/bin/sh` script that leads the game's process group and records its exit code.
 * This file starts processes, and reads and writes the run directory.
 *
 * A supervisor is needed because only a parent process learns an exit code, and the host may have stopped by then. A shell
 * costs one small process per server and is available on every machine. It outlives the host because it runs in its own
 * session, where the terminal's Ctrl-C does not reach it.
 *
 * Notes on the scripts (`$0` is the run directory, `$@` the game's command):
 * - The shell traps signals rather than ignoring them, because the game would inherit ignored signals but starts with default
 *   handlers for trapped ones. The supervisor survives signals to the whole group, because the shell runs a trap only after
 *   the game has exited.
 * - `set -C` makes `>` fail if the file exists, so `claim` can be created only once: either just before the game starts, or by
 *   a later host that cancels a start whose process it does not know. So if a host is killed at any moment around the start,
 *   the game is neither lost nor started twice. `pid` is complete before `claim` exists.
 * - A second shell creates the claim and then becomes the game. Between that shell's fork and its exec, the supervisor's traps
 *   would swallow a signal, so signals are sent only once the claim exists.
 * - Only builtins are used, because the game's PATH may contain no other programs. `exit` is complete once it ends with a
 *   newline.
 * - Processes that the game leaves behind in its group are killed when it exits, as in a container. After SIGTERM, however,
 *   they may use the rest of the grace period, which the host enforces: in `sh -c 'node game.js'`, for example, the shell
 *   exits on SIGTERM before the game does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/platform/error-code.js'
import { markVariable } from './process-group.js'

/**
 * The supervisor's exit code if it did not start the game, because it could not write its files or the start was cancelled.
 */
export const notStartedCode = 125

const become = `set -C; echo >"$0/claim" || exit ${notStartedCode}; exec "$@"`

const supervise = `trap _gamekeeper_sigterm=1 TERM
trap : HUP INT QUIT PIPE ALRM USR1 USR2
echo $$ >"$0/pid" || exit ${notStartedCode}
/bin/sh -c '${become}' "$0" "$@"
echo $? >"$0/exit"
[ -n "$_gamekeeper_sigterm" ] || kill -KILL 0`

export interface StartInput {
  /** The directory's name contains the mark. */
  readonly runDirectory: string
  readonly mark: string
  /** Absolute path of the program. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDir: string
  /** File descriptor for stdout and stderr; the caller closes it. */
  readonly log: number
}

/** Resolves once the supervisor is running. Rejects with the operating system's error. */
export async function startSupervisor(input: StartInput): Promise<ChildProcess & { readonly pid: number }> {
  const command = [...envCommand(input.env), input.program, ...input.args]
  const child = spawn('/bin/sh', ['-c', supervise, input.runDirectory, ...command], {
    cwd: input.workingDir,
    env: { ...input.env, [markVariable]: input.mark },
    // Starts a separate session and process group.
    detached: true,
    stdio: ['ignore', input.log, input.log],
  })
  child.unref()
  if (isStarted(child)) return child
  const [error] = await once(child, 'error')
  throw error
}

/** Returns true if the supervisor of this run has not started the game and can no longer start it. */
export function cancelStart(runDirectory: string): boolean {
  try {
    closeSync(openSync(join(runDirectory, 'claim'), 'wx', 0o600))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    // Without its run directory, the supervisor cannot write its files and therefore does not start the game.
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}

/** Whether the game has started or is about to. From then on, it receives every signal sent to its group. */
export function isStartClaimed(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'claim'))
}

/** Reads the process id that the supervisor wrote; undefined if it has not written one yet. */
export function readSupervisorPid(runDirectory: string): number | undefined {
  const pid = readNumber(join(runDirectory, 'pid'))
  return pid !== undefined && pid > 1 ? pid : undefined
}

/** Whether the supervisor has begun to write the exit code, which is the last thing it does. */
export function isExitWritten(runDirectory: string): boolean {
  return existsSync(join(runDirectory, 'exit'))
}

/**
 * Reads the game's exit code, which is 128 + n for signal n. Undefined while the game is running and if the supervisor was
 * killed.
 */
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

/** Uses `env` to pass variables that a shell would drop (`my.setting`) or set itself. */
function envCommand(env: Readonly<Record<string, string>>): readonly string[] {
  const pairs = Object.entries(env).filter(([name]) => !shellName.test(name) || shellVariables.has(name))
  return pairs.length === 0 ? [] : ['/usr/bin/env', ...pairs.map(([name, value]) => `${name}=${value}`)]
}
