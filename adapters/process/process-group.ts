/**
 * Finds and signals the processes in one group. Reads `/proc` on Linux and runs `ps` on other systems.
 *
 * The system can reuse a group id once the last process in the group has exited. While the leader is alive, its identity
 * proves that the group is the right one. After that, a process belongs to the run only if it carries the run's mark: all
 * processes of the run inherit the mark in their environment, and the leader also has it in its arguments.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { FleetError } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/error-code.js'
import { identityOf, isAlive, type ProcessIdentity, procStat, readProc } from '../../src/platform/process-identity.js'

/** Name of the environment variable that contains the mark. */
export const markVariable = 'GAMEKEEPER_RUN'

/** Returns the living processes in this group that carry the mark. */
export function markedMembers(group: number, mark: string): readonly ProcessIdentity[] {
  // A cheap check for the usual case, in which no process of the group exists any more.
  if (!send(-group, 0)) return []
  const members: ProcessIdentity[] = []
  for (const pid of membersOf(group)) {
    const identity = identityOf(pid)
    if (identity && carriesMark(pid, mark)) members.push(identity)
  }
  return members
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

function membersOf(group: number): readonly number[] {
  if (process.platform !== 'linux') {
    return ps(['-A', '-o', 'pid=,pgid='])
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .flatMap(([pid, ofGroup]) => (pid !== undefined && ofGroup === group ? [pid] : []))
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => procStat(pid)?.group === group)
}

/** Reads a file that only the process's owner may read. Returns an empty string for other users' processes. */
function readOwnProc(path: string, pid: number): string {
  try {
    return readProc(path, pid) ?? ''
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    if (codeOf(cause) === 'EACCES' || codeOf(cause) === 'EPERM') return ''
    throw error
  }
}

function ps(args: readonly string[]): string {
  const result = spawnSync('ps', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (result.error) throw new FleetError('unavailable', 'cannot list processes', { cause: result.error })
  return result.stdout
}
