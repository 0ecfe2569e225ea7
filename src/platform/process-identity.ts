/**
 * Distinguishes a process from a later process with the same id. Reads `/proc` on Linux and runs `ps` elsewhere. Both are
 * synchronous, so that no other code runs between the check and a signal that follows it.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { FleetError } from '../contracts/errors.js'
import { codeOf } from './files.js'
import { ownDescriptors } from './own-descriptors.js'

export interface ProcessIdentity {
  readonly pid: number
  /** Start time in the platform's format. Constant for one process, and never the same after a reboot. */
  readonly startedAt: string
}

/**
 * Returns the identity of the process with this id, or undefined if there is none or it is a zombie. Throws `unavailable` if
 * that cannot be determined.
 */
export function processIdentity(pid: number): ProcessIdentity | undefined {
  if (!Number.isInteger(pid) || pid < 1) return undefined
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

/** True while this process, not a later one with the same id, is running. */
export function isAlive(identity: ProcessIdentity): boolean {
  return processIdentity(identity.pid)?.startedAt === identity.startedAt
}

/** The identity of the current process. */
export function currentProcess(): ProcessIdentity {
  const identity = processIdentity(process.pid)
  if (!identity) throw cannotTell(process.pid, 'it is this process but is not listed')
  return identity
}

/** The fields of `/proc/<pid>/stat` that are used. */
interface ProcStat {
  readonly state: string
  readonly group: number
  readonly session: number
  /** The process group in the foreground of the terminal; -1 without a terminal. */
  readonly foreground: number
  readonly startTicks: string
}

/** Linux only. Parses the fields after the command name, which may itself contain spaces and parentheses. */
export function procStat(pid: number): ProcStat | undefined {
  const text = readProc(`/proc/${pid}/stat`, pid)
  if (text === undefined) return undefined
  const [state, , group, session, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // The start time is field 22 of the line. The field after the name is field 3, so the first field in `rest` is field 7.
  const [startTicks, foreground] = [rest[22 - 7], rest[8 - 7]]
  if (state === undefined || startTicks === undefined) throw cannotTell(pid, `/proc/${pid}/stat has an unknown format`)
  return { state, group: Number(group), session: Number(session), foreground: Number(foreground), startTicks }
}

/** Reads a file in `/proc`. Returns undefined if the process no longer exists. */
export function readProc(path: string, pid: number): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    // Other errors, such as too many open files, do not mean that the process has ended.
    throw cannotTell(pid, `reading ${path} failed`, error)
  }
}

/** Whether this process is in the foreground of a terminal, where Ctrl-C reaches it. */
export function isInForeground(): boolean {
  const { pid, platform } = process
  if (platform === 'win32') return process.stdin.isTTY
  if (platform === 'linux') {
    const stat = procStat(pid)
    return stat !== undefined && stat.foreground === stat.group
  }
  const { stdout } = spawnSync(...ownDescriptors('ps', ['-o', 'pgid=,tpgid=', '-p', String(pid)]), { encoding: 'utf8' })
  const [group, foreground] = (stdout ?? '').trim().split(/\s+/)
  return group !== undefined && group === foreground
}

function startFromProc(pid: number): string | undefined {
  const stat = procStat(pid)
  return stat && startOf(stat)
}

/** Linux only. Returns the `startedAt` of a process; undefined for a zombie. */
export function startOf({ state, startTicks }: ProcStat): string | undefined {
  return state === 'Z' || state === 'X' ? undefined : `${bootId()}:${startTicks}`
}

/** Whether the process was started since the machine was last started. False where that cannot be determined. */
export function isOfThisBoot({ startedAt }: ProcessIdentity): boolean {
  return process.platform === 'linux' && startedAt.startsWith(`${bootId()}:`)
}

let knownBootId: string | undefined

/** Start times count from boot, so the identity includes the boot id. Sandboxes without this file get a constant. */
function bootId(): string {
  knownBootId ??= readProc('/proc/sys/kernel/random/boot_id', process.pid)?.trim() ?? 'unknown-boot'
  return knownBootId
}

/**
 * The wall time at which the process started, which is unique across boots. A fixed locale and time zone keep its format
 * constant.
 */
function startFromPs(pid: number): string | undefined {
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  const result = spawnSync(...ownDescriptors('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]), {
    env,
    encoding: 'utf8',
  })
  if (result.error) throw cannotTell(pid, 'running ps failed', result.error)
  const [state, ...start] = result.stdout.trim().split(/\s+/)
  // If the process does not exist, ps prints nothing and exits with 1.
  if (!state || start.length === 0 || state.startsWith('Z')) return undefined
  return start.join(' ')
}

function cannotTell(pid: number, why: string, cause?: unknown): FleetError {
  return new FleetError('unavailable', `cannot determine whether process ${pid} runs: ${why}`, { cause })
}
