/**
 * Signals the processes of a run. Reads `/proc` on Linux and runs `ps` on other systems.
 *
 * The system can reuse a group id once the last process in the group has exited. While the leader is alive, its identity
 * proves that the group is the right one. After that, the run's processes are found by their mark (`process-table.ts`).
 */
import { spawnSync } from 'node:child_process'
import { FleetError } from '../../../src/contracts/errors.js'
import { codeOf } from '../../../src/platform/error-code.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { isAlive, type ProcessIdentity, readProc } from '../../../src/platform/process-identity.js'
import { isError } from '../../../src/rules/model/realms.js'

/** Name of the environment variable that contains the mark. */
export const markVariable = 'GAMEKEEPER_RUN'
/** Name of the environment variable that contains the instance's record, see `encodeMark`. */
export const recordVariable = 'GAMEKEEPER_INSTANCE'

/** How the supervisor's script begins. */
export const supervisorScript = 'exec 2>&1\ntrap _gamekeeper_sigterm=1 TERM\n'

/** What a process with the mark is: its supervisor, a program that is about to become the supervisor or the game, or the game's. */
export function roleOf(pid: number, mark: string): 'supervisor' | 'starting' | 'game' {
  const isLinux = process.platform === 'linux'
  const command = isLinux ? readOwnProc(`/proc/${pid}/cmdline`, pid) : ps(['-ww', '-o', 'command=', '-p', String(pid)])
  if (!command.includes(mark)) return 'game'
  return !isLinux || command.startsWith(`/bin/sh\0-c\0${supervisorScript}`) ? 'supervisor' : 'starting'
}

/** Whether this process was started for the run identified by the mark. */
export function carriesMark(pid: number, mark: string): boolean {
  if (process.platform === 'linux') {
    return [`/proc/${pid}/cmdline`, `/proc/${pid}/environ`].some((path) => readOwnProc(path, pid).includes(mark))
  }
  return ps(['-Eww', '-o', 'command=', '-p', String(pid)]).includes(mark)
}

/** Signals the whole group if its leader is still the same process. */
export function signalGroup(leader: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isAlive(leader) && send(-leader.pid, signal)
}

/** Signals a process if its id still belongs to the same process. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isAlive(identity) && send(identity.pid, signal)
}

/** Whether the id is in use, by the process itself, its zombie, or an unrelated process. Cheap. */
export function isInUse(pid: number): boolean {
  return send(pid, 0)
}

/**
 * Returns false if the process does not exist. A process that belongs to another user and cannot be signalled counts as
 * existing.
 */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  // Target 0 would signal this process's own group, and -1 would signal all processes.
  if (Math.abs(target) <= 1) return false
  try {
    process.kill(target, signal)
    return true
  } catch (error) {
    if (codeOf(error) === 'ESRCH') return false
    if (codeOf(error) === 'EPERM') return true
    throw error
  }
}

/** Reads a file that only the process's owner may read. Returns an empty string for other users' processes. */
export function readOwnProc(path: string, pid: number): string {
  try {
    return readProc(path, pid) ?? ''
  } catch (error) {
    const cause = isError(error) ? error.cause : undefined
    if (codeOf(cause) === 'EACCES' || codeOf(cause) === 'EPERM') return ''
    throw error
  }
}

function ps(args: readonly string[]): string {
  const result = spawnSync(...ownDescriptors('ps', args), { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (result.error) throw new FleetError('unavailable', 'cannot list processes', { cause: result.error })
  return result.stdout
}
