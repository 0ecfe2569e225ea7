/**
 * Looks at and signals the processes of one group. Reads `/proc` on Linux and runs `ps` elsewhere.
 *
 * A group's number can be given to strangers once its last process is gone. While the leader lives its identity
 * vouches for the group; after that a process is ours only if it carries the mark of its run, which every process of
 * a run inherits in its environment, and which the leader has in its arguments too.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { FleetError } from '../../src/contracts/errors.js'
import { identityOf, isAlive, type ProcessIdentity, procStat, readProc } from '../../src/platform/process-identity.js'
import { codeOf } from './files.js'

/** The environment variable that holds the mark. */
export const markVariable = 'GAMEKEEPER_RUN'

/** The living processes of this group that carry the mark. */
export function markedMembers(group: number, mark: string): readonly ProcessIdentity[] {
  // Mostly there is nobody, and this is the cheap way to learn it.
  if (!send(-group, 0)) return []
  const members: ProcessIdentity[] = []
  for (const pid of membersOf(group)) {
    const identity = identityOf(pid)
    if (identity && carriesMark(pid, mark)) members.push(identity)
  }
  return members
}

/** True when this process was started for the run that the mark names. */
export function carriesMark(pid: number, mark: string): boolean {
  if (process.platform === 'linux') {
    return [`/proc/${pid}/cmdline`, `/proc/${pid}/environ`].some((path) => readOwnProc(path, pid).includes(mark))
  }
  return ps(['-Eww', '-o', 'command=', '-p', String(pid)]).includes(mark)
}

/** Signals the whole group of a leader, if it is still this very process. */
export function signalGroup(leader: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isAlive(leader) && send(-leader.pid, signal)
}

/** Signals one process, if it is still this very one. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isAlive(identity) && send(identity.pid, signal)
}

/** True when somebody has this number: the process itself, its zombie, or a stranger. Costs next to nothing. */
export function isTaken(pid: number): boolean {
  return send(pid, 0)
}

/** False when nobody is there. A stranger's process, which may not be signalled, counts as there. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  // 0 and -1 would mean "my own group" and "everybody".
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

/** A file that only the owner of a process may read; a stranger's says nothing. */
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
  if (result.error) throw new FleetError('unavailable', 'the list of processes cannot be read', { cause: result.error })
  return result.stdout
}
