/**
 * Distinguishes a process from a later one with the same id. Reads `/proc` on Linux and runs `ps` elsewhere; both
 * synchronously, so that no time passes between the check and a signal that follows it.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { FleetError } from '../contracts/errors.js'
import { codeOf } from './error-code.js'

export interface ProcessIdentity {
  readonly pid: number
  /** Start time in the platform's format. Equal for the same process, never equal across boots. */
  readonly startedAt: string
}

/** The process with this id; undefined when there is none or only a zombie. Throws `unavailable` when that cannot be determined. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  if (!Number.isInteger(pid) || pid < 1) return undefined
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

/** True while exactly this process runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identityOf(identity.pid)?.startedAt === identity.startedAt
}

/** The process that this code runs in. */
export function currentProcess(): ProcessIdentity {
  const identity = identityOf(process.pid)
  if (!identity) throw cannotTell(process.pid, 'it is this process but is not listed')
  return identity
}

/** The fields of `/proc/<pid>/stat` that are used here. */
export interface ProcStat {
  readonly state: string
  readonly group: number
  readonly startTicks: string
}

/** Linux only. Parses the fields after the command name, which may itself contain spaces and brackets. */
export function procStat(pid: number): ProcStat | undefined {
  const text = readProc(`/proc/${pid}/stat`, pid)
  if (text === undefined) return undefined
  const [state, , group, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // Field 22 of the line; the first after the name is field 3, and the first of `rest` is field 6.
  const startTicks = rest[22 - 6]
  if (state === undefined || startTicks === undefined) throw cannotTell(pid, `/proc/${pid}/stat has an unknown format`)
  return { state, group: Number(group), startTicks }
}

/** A file of `/proc`, or undefined when its process is gone. */
export function readProc(path: string, pid: number): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    // Other errors, such as too many open files, do not mean that the process is dead.
    throw cannotTell(pid, `reading ${path} failed`, error)
  }
}

function startFromProc(pid: number): string | undefined {
  const stat = procStat(pid)
  if (!stat || stat.state === 'Z' || stat.state === 'X') return undefined
  return `${bootId()}:${stat.startTicks}`
}

let knownBootId: string | undefined

/** Start times count from boot, so the identity includes the boot. Sandboxes without the file get a constant. */
function bootId(): string {
  knownBootId ??= readProc('/proc/sys/kernel/random/boot_id', process.pid)?.trim() ?? 'unknown-boot'
  return knownBootId
}

/** The wall time of the start, unique across boots. A fixed locale and time zone keep its format constant. */
function startFromPs(pid: number): string | undefined {
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  const result = spawnSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { env, encoding: 'utf8' })
  if (result.error) throw cannotTell(pid, 'running ps failed', result.error)
  const [state, ...start] = result.stdout.trim().split(/\s+/)
  // Without such a process ps prints nothing and exits with 1.
  if (!state || start.length === 0 || state.startsWith('Z')) return undefined
  return start.join(' ')
}

function cannotTell(pid: number, why: string, cause?: unknown): FleetError {
  return new FleetError('unavailable', `cannot determine whether process ${pid} runs: ${why}`, { cause })
}
