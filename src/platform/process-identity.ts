/**
 * Tells one process from a later one that got its number. May read `/proc` on Linux and run `ps` elsewhere; both are
 * synchronous, so that no time passes between "it is still the same" and the signal that follows.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { FleetError } from '../contracts/errors.js'

export interface ProcessIdentity {
  readonly pid: number
  /** When it started, in the platform's own words. Equal for equal processes, and never equal across two boots. */
  readonly startedAt: string
}

/** Who has this number now; nobody if there is no such process or only its zombie. Throws when that cannot be told. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  if (!Number.isInteger(pid) || pid < 1) return undefined
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

/** True while this very process runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identityOf(identity.pid)?.startedAt === identity.startedAt
}

/** The process that this code runs in. */
export function currentProcess(): ProcessIdentity {
  const identity = identityOf(process.pid)
  if (!identity) throw cannotTell(process.pid, 'it does not list this very process')
  return identity
}

/** What `/proc/<pid>/stat` says; undefined when there is no such process. */
export interface ProcStat {
  readonly state: string
  readonly group: number
  readonly startTicks: string
}

/** Linux only. Reads the fields that follow the command's name, which may itself hold spaces and brackets. */
export function procStat(pid: number): ProcStat | undefined {
  const text = readProc(`/proc/${pid}/stat`, pid)
  if (text === undefined) return undefined
  const [state, , group, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // Field 22 of the line; the first after the name is field 3, and the first of `rest` is field 6.
  const startTicks = rest[22 - 6]
  if (state === undefined || startTicks === undefined) throw cannotTell(pid, `/proc/${pid}/stat is not understood`)
  return { state, group: Number(group), startTicks }
}

/** A file of `/proc`, or undefined when its process is gone. */
export function readProc(path: string, pid: number): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    // Too many open files, for one, must never be read as "dead".
    throw cannotTell(pid, `${path} cannot be read`, error)
  }
}

function startFromProc(pid: number): string | undefined {
  const stat = procStat(pid)
  if (!stat || stat.state === 'Z' || stat.state === 'X') return undefined
  return `${bootId()}:${stat.startTicks}`
}

let knownBootId: string | undefined

/** Start times count from the boot, so that the boot belongs to them. Sandboxes without the file get a weaker mark. */
function bootId(): string {
  knownBootId ??= readProc('/proc/sys/kernel/random/boot_id', process.pid)?.trim() ?? 'unknown-boot'
  return knownBootId
}

/** The wall time of the start, which no other boot repeats. Fixed locale and zone keep the words equal. */
function startFromPs(pid: number): string | undefined {
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  const result = spawnSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { env, encoding: 'utf8' })
  if (result.error) throw cannotTell(pid, 'ps cannot be run', result.error)
  const [state, ...start] = result.stdout.trim().split(/\s+/)
  // ps says "no such process" by an exit status of 1 and no output.
  if (!state || start.length === 0 || state.startsWith('Z')) return undefined
  return start.join(' ')
}

function cannotTell(pid: number, why: string, cause?: unknown): FleetError {
  return new FleetError('unavailable', `cannot tell whether process ${pid} runs: ${why}`, { cause })
}
