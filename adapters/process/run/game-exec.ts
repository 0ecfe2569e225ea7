/**
 * Runs a command beside a game, with what the game's supervisor was started with: its environment and working directory are read from the
 * supervisor, which the game cannot change, so that hosts that have not started the game know them, too. The command joins the game's cgroup and
 * has its user. It has its own process group and carries the mark of the run, so that it is ended with the server if its host has not ended it.
 * Linux only.
 */
import { spawn } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { constants } from 'node:os'
import type { ExecOptions, ExecResult } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { isAlive, type ProcessIdentity, readProc } from '../../../src/platform/process-identity.js'
import { CommandOutput } from '../../shared/command-output.js'
import { joinsOf } from '../isolation/cgroups.js'
import type { GameIsolation } from '../isolation/game-isolation.js'
import { helperProgram } from '../isolation/programs.js'
import type { GameUser } from '../isolation/users.js'
import { markVariable, recordVariable } from '../processes.js'
import { notStartedCode, quote, readGamePid, throughShells } from './supervisor.js'

interface GamePlace {
  /** The supervisor. */
  readonly leader: ProcessIdentity
  readonly runDirectory: string
  readonly mark: string
  /** Whether the game has another user than this host. */
  readonly hasOwnUser: boolean
  readonly isolation: GameIsolation
  readonly clock: Clock
}

/** How long to read after a command has ended: programs that it has left behind may hold its output open. */
const lastOutputMs = 200

/** Rejects with `unavailable` if the game is starting or ending, and as `Backend.exec` does. */
export async function execBeside(
  place: GamePlace,
  command: readonly string[],
  { input, onStarted, signal }: ExecOptions,
): Promise<ExecResult> {
  const { args, ...where } = commandBeside(place, command)
  const child = spawn(...ownDescriptors('/bin/sh', args), {
    ...where,
    // In a session and process group of its own.
    detached: true,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  const output = new CommandOutput()
  return new Promise<ExecResult>((resolve, reject) => {
    let cancelWait = () => {}
    const settle = (outcome: () => void) => {
      cancelWait()
      signal?.removeEventListener('abort', onAbort)
      child.stdout?.destroy()
      child.stderr?.destroy()
      outcome()
    }
    /** Its group may have been given to others once it has been waited for. */
    const fail = (error: FleetError) => {
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) killGroup(child.pid)
      settle(() => reject(error))
    }
    const onAbort = () =>
      fail(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason }))
    const ended = () => {
      const exitCode = exitCodeOf(child.exitCode, child.signalCode)
      const neverRan = new FleetError(
        'unavailable',
        `cannot start ${command[0]}: ${output.text || 'it could not join the game'}`,
      )
      settle(() => (exitCode === notStartedCode ? reject(neverRan) : resolve({ exitCode, output: output.text })))
    }
    const read = (chunk: Buffer) => {
      const excess = output.push(chunk)
      if (excess) fail(excess)
    }
    child.stdout?.on('data', read)
    child.stderr?.on('data', read)
    // It may end without reading.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
    child.once('error', (error) =>
      settle(() =>
        reject(new FleetError('unavailable', `cannot start ${command[0]}: ${messageOf(error)}`, { cause: error })),
      ),
    )
    child.once('spawn', () => onStarted?.())
    child.once('exit', () => (cancelWait = place.clock.after(lastOutputMs, ended)))
    child.once('close', ended)
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** A program with rights of its own, such as sudo, cannot be ended by this user. */
function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // It ends by itself, or with the server.
  }
}

interface CommandBeside {
  /** Of a shell that becomes the command. */
  readonly args: string[]
  readonly cwd: string
  readonly env: Environment
}

/** Throws `not-found` if the game has ended, and `unavailable`. */
function commandBeside(place: GamePlace, command: readonly string[]): CommandBeside {
  const { leader, mark, isolation } = place
  if (!isAlive(leader)) throw new FleetError('not-found', 'the game has ended')
  const user = userOf(place)
  const env = environmentOf(leader.pid, mark)
  const through = throughShells({ env, mark, guardsHelpers: user !== undefined, program: command[0] ?? '' })
  // The service of a game has other mounts than this host.
  const isInside = mountsOf('self') === mountsOf(leader.pid)
  const enter = ['--target', String(leader.pid), '--mount', '--ipc', '--root', '--wd', '--']
  const entered = isInside ? [] : [helperProgram('nsenter', isolation.option), ...enter]
  // What was read before is that of the supervisor only if that still runs.
  if (!isAlive(leader)) throw new FleetError('not-found', 'the game has ended')
  const join = joinsOf(mark).map((path) => `echo $$ >|${quote(path)} || exit ${notStartedCode}; `)
  const words = [...entered, ...isolation.helpers(user, true), ...through.shell, ...command]
  return {
    args: ['-c', `${join.join('')}exec "$@"`, 'sh', ...words],
    cwd: isInside ? `/proc/${leader.pid}/cwd` : '/',
    env: { ...through.env, [markVariable]: mark },
  }
}

/** Undefined if the process has ended, or is another user's. */
function mountsOf(pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`)
  } catch {
    return undefined
  }
}

type Environment = Readonly<Record<string, string>>

/** The game's user; undefined if that is this host's. Throws while the game is starting: its helper programs run as this host. */
function userOf({ leader, runDirectory, hasOwnUser }: GamePlace): GameUser | undefined {
  const pid = readGamePid(runDirectory) ?? 0
  const status = readProc(`/proc/${pid}/status`, pid) ?? ''
  const [parent, uid, gid] = [/^PPid:\t(\d+)/m, /^Uid:\t\d+\t(\d+)/m, /^Gid:\t\d+\t(\d+)/m].map((field) =>
    Number(field.exec(status)?.[1]),
  )
  if (parent !== leader.pid || uid === undefined || gid === undefined) {
    throw new FleetError('not-found', 'the game is starting or has ended')
  }
  if (uid !== process.geteuid?.()) return { uid, gid, own: false }
  if (hasOwnUser) throw new FleetError('unavailable', 'the game is starting')
  return undefined
}

/** Variables that shells have set on the way to the supervisor. */
const ofShells: readonly string[] = ['_', 'OLDPWD', 'PWD', 'SHLVL']

/** The game's variables, as its supervisor has them: some within others, see `throughShells`. */
function environmentOf(pid: number, mark: string): Environment {
  const text = Buffer.from(readProc(`/proc/${pid}/environ`, pid) ?? '', 'latin1').toString()
  const own = new Map<string, string>()
  const carried: (readonly [string, string])[] = []
  for (const entry of text.split('\0')) {
    const [name, value] = assignmentIn(entry)
    if (name.startsWith(`_${mark}_`)) carried.push(assignmentIn(value))
    else if (name !== '') own.set(name, value)
  }
  // The record would have a child of the command taken for the game.
  for (const name of [...ofShells, markVariable, recordVariable]) own.delete(name)
  return Object.fromEntries([...own, ...carried])
}

function assignmentIn(text: string): readonly [string, string] {
  const at = text.indexOf('=')
  return at < 0 ? ['', ''] : [text.slice(0, at), text.slice(at + 1)]
}

function exitCodeOf(code: number | null, signal: NodeJS.Signals | null): number {
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}
