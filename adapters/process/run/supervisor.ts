/**
 * Starts a game under a supervisor: a short `/bin/sh` script that leads the game's process group and records its exit code.
 * This file starts processes, and reads and writes the run directory.
 *
 * A supervisor is needed because only a parent process learns an exit code, and the host may have stopped by then. A shell
 * costs one small process per server and is available on every machine. It outlives the host because it runs in its own
 * session, where the terminal's Ctrl-C does not reach it, and because it is no child of the host: process managers such as pm2 and
 * nodemon restart a host by signalling all of its descendants. `setsid` forks, since the process that Node starts leads a group, and
 * its parent exits, so that process 1 or a subreaper adopts the supervisor. On descriptor 3, the supervisor tells the host its process
 * id; when the system closes that descriptor, the supervisor has ended.
 *
 * Notes on the scripts (`$0` is the run directory; `$@` the second shell's arguments, then the game's command):
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
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { developmentGraceMs } from '../../../src/contracts/backend.js'
import { codeOf, NotAFile, readRegularFile } from '../../../src/platform/files.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { processIdentity, type ProcessIdentity } from '../../../src/platform/process-identity.js'
import { limitEvidence, processesIn } from '../isolation/cgroups.js'
import { helperProgram, locateCommand, systemPath } from '../isolation/programs.js'
import { mainProcess, startService } from '../isolation/systemd.js'
import { carriesMark, markVariable, recordVariable, supervisorScript } from '../processes.js'

/**
 * The supervisor's exit code if it did not start the game, because it could not write its files or the start was cancelled.
 */
export const notStartedCode = 125

/** Claims the start, then joins the cgroups before any helper runs. */
function becomeGame({ cgroups }: SupervisorInput): string {
  const join = cgroups.map((path) => `echo $$ >|'${path}' || exit ${notStartedCode}; `).join('')
  return `set -C; echo $$ >"$0/claim" || exit ${notStartedCode}; ${join}exec "$@"`
}

/**
 * Copies the files that tell what the game's memory limit has ended, for `endedByLimit`: the cgroup of a service is removed with it.
 */
function keepEvidence(cgroups: readonly string[]): string {
  const copies = cgroups.flatMap((folder) => limitEvidence.map((name) => [quote(`${folder}/${name}`), name] as const))
  const lines = copies.map(
    ([from, name]) =>
      `[ ! -r ${from} ] || while read -r _gamekeeper_line; do echo "$_gamekeeper_line"; done <${from} >"$0/${name}"`,
  )
  return ['_gamekeeper_exit=$?', ...lines, 'echo $_gamekeeper_exit >"$0/exit"'].join('\n')
}

/** With `endsWithHost`, a watcher in the game's group ends it once the host's end of descriptor 4 is closed. */
function supervise({ endsWithHost, serviceCgroups, stdin }: SupervisorInput): string {
  const isService = serviceCgroups !== undefined
  const graceSeconds = developmentGraceMs / 1_000
  const watch = `(exec 3>&-; trap '' TERM; read -r _ <&4; kill -TERM 0; PATH=${systemPath} sleep ${graceSeconds}; kill -KILL 0) &
_gamekeeper_watcher=$!
`
  return `${supervisorScript}trap : HUP INT QUIT PIPE ALRM USR1 USR2
echo $$ >"$0/pid" || exit ${notStartedCode}
${stdin ? 'exec <>"$0/stdin"\n' : ''}${isService ? '' : 'echo $$ 2>/dev/null >&3\n'}${endsWithHost ? watch : ''}/bin/sh -c "$@" 3>&-${endsWithHost ? ' 4<&-' : ''}
${keepEvidence(serviceCgroups ?? [])}
${endsWithHost ? 'kill -KILL $_gamekeeper_watcher\n' : ''}[ -n "$_gamekeeper_sigterm" ] || kill -KILL 0`
}

export interface SupervisorInput {
  /** The directory's name contains the mark. */
  readonly runDirectory: string
  readonly mark: string
  /** See `encodeMark`. */
  readonly recordMark?: string
  /** Absolute path of the program. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDir: string
  /** Programs with arguments that restrict the game before they become it; found in `systemPath` if `guardsHelpers`. */
  readonly helpers: readonly string[]
  /** Whether the helpers start with more rights than the game has. */
  readonly guardsHelpers: boolean
  /** Files to which the game's process writes its id before any helper runs. */
  readonly cgroups: readonly string[]
  /** The cgroups of the service in which the supervisor runs. Default: it runs in none. */
  readonly serviceCgroups?: readonly string[]
  /** Whether the game ends when this process does, however that ends. */
  readonly endsWithHost: boolean
  /** Whether the run directory has a pipe for the game's standard input. Otherwise it is /dev/null. */
  readonly stdin: boolean
}

interface StartInput extends SupervisorInput {
  /** File descriptor for stdout and stderr; the caller closes it. */
  readonly log: number
}

interface SupervisorCommand {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The arguments of the shell that becomes the supervisor, and its environment. The names of its variables are those of shells. */
function supervisorCommand(input: SupervisorInput): SupervisorCommand {
  const { runDirectory, mark, helpers, recordMark } = input
  const { env, shell } = throughShells(input)
  const command = [...helpers, ...shell, input.program, ...input.args]
  return {
    args: ['-c', supervise(input), runDirectory, becomeGame(input), runDirectory, ...command],
    env: { ...env, [markVariable]: mark, ...(recordMark && { [recordVariable]: recordMark }) },
  }
}

/** Quotes a word for a shell. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}

/** A supervisor that this host has started. */
export class Supervisor {
  readonly pid: number
  readonly #status: Socket

  constructor(pid: number, status: Socket) {
    this.pid = pid
    this.#status = status
  }

  get hasEnded(): boolean {
    return this.#status.readableEnded
  }

  onEnd(listener: () => void): void {
    if (this.hasEnded) listener()
    else this.#status.once('end', listener)
  }

  /** Stops following it. It keeps running. */
  release(): void {
    this.#status.removeAllListeners('end').destroy()
  }
}

/**
 * Resolves once the supervisor is running; with undefined if it has ended without starting the game. Rejects with the operating system's
 * error.
 *
 * A child is in the host's session until just before it becomes the shell, so a terminal's Ctrl-C at that moment ends it too. Nothing
 * has run then, and it is started again.
 */
export async function startSupervisor(input: StartInput): Promise<Supervisor | undefined> {
  const { endsWithHost, workingDir, log, runDirectory } = input
  const { args, env } = supervisorCommand(input)
  const [program = '', ...rest] = [...leaveTree(), '/bin/sh', ...args]
  const child = spawn(...ownDescriptors(program, rest, endsWithHost ? 5 : 4), {
    cwd: workingDir,
    env,
    // Starts a separate session and process group.
    detached: true,
    // A shell may warn of a locale that the machine does not have, before it runs the script.
    stdio: ['ignore', log, 'ignore', 'pipe', ...(endsWithHost ? (['pipe'] as const) : [])],
  })
  const exit = once(child, 'exit')
  child.unref()
  // Without descriptors for it, Node gives the child no `stdio` either.
  if (child.pid === undefined) return exit.then(() => undefined)
  const [, , , status, lifeline] = child.stdio
  if (!(status instanceof Socket)) return undefined
  // Nothing is written to it: the system closes it when this process ends.
  if (lifeline instanceof Socket) holdOpen(lifeline)
  let pid = await pidFrom(status)
  if (pid === undefined) {
    const [, signal] = await exit
    if (terminalSignals.has(signal)) return startSupervisor(input)
    if (!cancelStart(runDirectory)) pid = readSupervisorPid(runDirectory)
  }
  holdOpen(status)
  return pid === undefined ? undefined : new Supervisor(pid, status)
}

/** Those that a terminal sends to all of its foreground processes. */
const terminalSignals: ReadonlySet<unknown> = new Set(['SIGINT', 'SIGQUIT', 'SIGHUP'])

async function pidFrom(status: Socket): Promise<number | undefined> {
  const written = once(status.setEncoding('latin1'), 'data').then(([text]) => Number(text))
  return Promise.race([written, once(status, 'end').then(() => undefined)])
}

/** It may be reset when the supervisor exits. */
function holdOpen(socket: Socket): void {
  socket.unref()
  socket.on('error', () => {})
  socket.resume()
}

let tree: readonly string[] | undefined

/** The program with which a supervisor leaves the host's descendants. */
function leaveTree(): readonly string[] {
  if (tree !== undefined) return tree
  const setsid = locateCommand('setsid', '/', systemPath)
  tree = process.platform === 'linux' && setsid.ok && !isAdoptedByNode() ? [setsid.path] : []
  return tree
}

/**
 * Whether Node is process 1, as in a container without an init. It would adopt the supervisors but not reap them, and each would leave a
 * zombie. When process 1 ends, all others do.
 */
export function isAdoptedByNode(): boolean {
  try {
    return process.pid === 1 || readlinkSync('/proc/1/exe') === process.execPath
  } catch {
    // Process 1 belongs to another user, or to another system, such as macOS.
    return false
  }
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

/** Reads the process id of the game, which the second shell wrote. Undefined if the game has not started. */
export function readGamePid(runDirectory: string): number | undefined {
  const pid = readNumber(join(runDirectory, 'claim'))
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
    const match = /^(\d+)\n$/.exec(readRegularFile(path, 'latin1'))
    return match ? Number(match[1]) : undefined
  } catch (error) {
    // What is not a file was put there by the game, which could as well have deleted the file.
    if (error instanceof NotAFile || codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
    throw error
  }
}

const shellName = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Variables that bash or dash set themselves, interpret, or do not pass on as they are. */
const shellVariables: ReadonlySet<string> = new Set(
  `_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_ENV BASH_EXECUTION_STRING BASH_LINENO
  BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION BASH_XTRACEFD CDPATH COMP_WORDBREAKS COLUMNS
  DIRSTACK ENV EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE FUNCNAME FUNCNEST GLOBIGNORE GROUPS HISTCMD HOSTNAME HOSTTYPE IFS LINENO LINES
  MACHTYPE MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PIPESTATUS POSIXLY_CORRECT PPID PS1 PS2 PS4 PWD RANDOM READLINE_LINE READLINE_POINT REPLY
  SECONDS SHELLOPTS SHLVL SRANDOM TIMEFORMAT TMOUT UID`.split(/\s+/),
)

type ThroughShellsInput = Pick<SupervisorInput, 'env' | 'mark' | 'guardsHelpers' | 'program'>

interface ThroughShells {
  readonly env: Readonly<Record<string, string>>
  /** A shell that sets the remaining variables and then becomes the program. */
  readonly shell: readonly string[]
}

/**
 * Passes some variables as values of other variables, from which a last shell sets them just before it becomes the game:
 *
 * - Those that a shell would drop (`my.setting`) or set itself (`PPID`): that shell uses `env`. Other users can read the arguments of
 *   every process, but no process that stays has these values among its arguments. A name that begins with `-` would be an
 *   option of `env` without `--`.
 * - All of them, if the game has fewer rights than its helpers: variables such as LD_PRELOAD must not reach those.
 */
export function throughShells({ env, mark, guardsHelpers, program }: ThroughShellsInput): ThroughShells {
  const isDropped = (name: string) => !shellName.test(name) || shellVariables.has(name)
  const entries = Object.entries(env)
  const carried = entries.filter(([name]) => guardsHelpers || isDropped(name))
  if (carried.length === 0) return { env, shell: [] }
  const kept = guardsHelpers ? [['PATH', systemPath] as const] : entries.filter(([name]) => !isDropped(name))
  // The mark is random, so no variable of the game has such a name.
  const carriers = carried.map(([name, value], i) => ({ name, carrier: `_${mark}_${i}`, text: `${name}=${value}` }))
  const quoted = (droppedOnes: boolean) =>
    carriers.filter(({ name }) => isDropped(name) === droppedOnes).map(({ carrier }) => `"$${carrier}"`)
  const [byShell, byEnv] = [quoted(false), quoted(true)]
  const script = [
    ...(byEnv.length > 0 ? [`set -- /usr/bin/env -- ${byEnv.join(' ')} ${afterEnv(program)} "$@"`] : []),
    ...(byShell.length > 0 ? [`export ${byShell.join(' ')}`] : []),
    `unset ${carriers.map(({ carrier }) => carrier).join(' ')}`,
    'exec "$@"',
  ].join('; ')
  return {
    env: Object.fromEntries([...kept, ...carriers.map(({ carrier, text }) => [carrier, text] as const)]),
    shell: ['/bin/sh', '-c', script, 'sh'],
  }
}

/** `env` would take a path with `=` for a variable. Another program then stands before it, with the priority that it has anyway. */
function afterEnv(program: string): string {
  return program.includes('=') ? `${helperProgram('nice', 'a command with = in its path')} -n 0` : ''
}

// Starts the supervisor of a game as a service of systemd. The service's command is a script in the run directory, which only root may
// read: the properties of a service, and with them its command, are public, but the game's variables are not.

export interface StartedService {
  /** Process id of the supervisor, which is also the process group id. */
  readonly group: number
  /** Missing if the supervisor has already exited or cannot be identified. */
  readonly leader?: ProcessIdentity
}

/**
 * Resolves once the supervisor is running or has exited; with undefined if it could not run. `properties` are arguments of `systemd-run`.
 * Rejects with `unavailable` if systemd does not start the service.
 */
export async function startInService(
  input: SupervisorInput,
  properties: readonly string[],
  option: string,
): Promise<StartedService | undefined> {
  const { runDirectory, mark } = input
  const script = join(runDirectory, 'start')
  await writeFile(script, scriptOf(input), { mode: 0o600, flag: 'wx' })
  const command = ['/usr/bin/env', '-i', `PATH=${systemPath}`, '/bin/sh', script]
  try {
    await startService(properties, command, option)
  } catch (error) {
    // systemd may still start it, for example if it was slow to answer.
    if (cancelStart(runDirectory)) throw error
  }
  const written = () => readSupervisorPid(runDirectory)
  const group = (await mainProcess(mark, option)) ?? written() ?? (cancelStart(runDirectory) ? undefined : written())
  return group === undefined ? undefined : { group, ...leaderOf(group, mark) }
}

/** Returns nothing if the supervisor has already exited or cannot be identified now. */
function leaderOf(pid: number, mark: string): { readonly leader?: ProcessIdentity } {
  try {
    const leader = processIdentity(pid)
    // Linux shows nothing of a process that is becoming the supervisor. systemd has put it into the cgroup of its service before.
    return leader && (carriesMark(pid, mark) || processesIn(mark).includes(pid)) ? { leader } : {}
  } catch {
    // The service has been started and must not be lost because of this error.
    return {}
  }
}

function scriptOf(input: SupervisorInput): string {
  const { args, env } = supervisorCommand(input)
  const variables = Object.entries(env).map(([name, value]) => `export ${name}=${quote(value)}`)
  const start = ['exec', '/bin/sh', ...args.map(quote)].join(' ')
  return [...variables, `cd ${quote(input.workingDir)} || exit ${notStartedCode}`, start, ''].join('\n')
}
