/** Finds the system's processes that belong to a run of a game, signals them, and measures what they use. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { InstanceUsage } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/files.js'
import { ownDescriptors } from '../../src/platform/own-descriptors.js'
import { isAlive, type ProcessIdentity, procStat, readProc, startOf } from '../../src/platform/process-identity.js'
import { isError } from '../../src/rules/model/values.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { dottedName } from '../shared/backend-lifecycle.js'
import { type InstanceRecord, readRecord } from './files/record.js'

/** Name of the environment variable that contains the mark. */
export const markVariable = 'GAMEKEEPER_RUN'

/** Name of the environment variable that contains the instance's record, see `encodeMark`. */
export const recordVariable = 'GAMEKEEPER_INSTANCE'

export interface RunningProcess extends ProcessIdentity {
  readonly group: number
  /** The session on Linux; elsewhere the group. */
  readonly session: number
  readonly mark?: string
  /** See `encodeMark`. */
  readonly recordMark?: string
  /** On Linux, the effective user. */
  readonly uid?: number
}

interface RunIdentity {
  readonly mark: string
  /** Process id of the supervisor, which leads the session and the group. */
  readonly group: number
  /** Process id of the game; missing if it is not known, or if the machine may have been restarted since. */
  readonly game?: number | undefined
  /** The user of this run, if no other run has it. All processes of this user belong to the run. */
  readonly uid?: number | undefined
  /** Processes that are known to belong to the run, such as those in its cgroup. */
  readonly pids?: readonly number[]
}

/** Processes at one moment, without zombies. */
export class ProcessSnapshot {
  readonly processes: readonly RunningProcess[]
  readonly #bySession: ReadonlyMap<number, readonly RunningProcess[]>
  readonly #byMark: ReadonlyMap<string | undefined, readonly RunningProcess[]>

  readonly #byUser: ReadonlyMap<number | undefined, readonly RunningProcess[]>

  constructor(processes: readonly RunningProcess[]) {
    this.processes = processes
    this.#byUser = groupBy(processes, ({ uid }) => uid)
    this.#bySession = groupBy(processes, ({ session }) => session)
    this.#byMark = groupBy(processes, ({ mark }) => mark)
  }

  /** All processes of a run, including those that have left its group. */
  membersOf({ mark, group, game, uid, pids = [] }: RunIdentity): readonly RunningProcess[] {
    const session = this.#bySession.get(group) ?? []
    const isOfRun = session.some((one) => one.mark === mark || one.pid === game)
    const ofUser = uid === undefined ? [] : (this.#byUser.get(uid) ?? [])
    const listed = pids.length === 0 ? [] : this.processes.filter(({ pid }) => pids.includes(pid))
    return [...new Set([...listed, ...(isOfRun ? session : []), ...(this.#byMark.get(mark) ?? []), ...ofUser])]
  }
}

/** Calls that arrive this close together share one scan. */
const gatherMs = 10
/** Number of processes that are read in a row, before other work gets a turn. */
const chunkSize = 50

/** Scans the system's processes. All callers share its scans, so a thousand endings at once need no more than a few. */
export class ProcessTable {
  /** Number of scans so far. */
  scans = 0
  #last: Promise<unknown> = Promise.resolve()
  #next: Promise<ProcessSnapshot> | undefined

  /** Returns the result of a scan that begins after this call. Rejects with `unavailable`. */
  snapshot(): Promise<ProcessSnapshot> {
    this.#next ??= this.#scanAfter(this.#last)
    return this.#next
  }

  async #scanAfter(last: Promise<unknown>): Promise<ProcessSnapshot> {
    // A failure concerns only the callers of that scan.
    await last.catch(() => {})
    await setTimeout(gatherMs)
    this.#last = this.#next ?? last
    this.#next = undefined
    this.scans++
    return new ProcessSnapshot(process.platform === 'linux' ? await scanProc() : scanPs())
  }
}

async function scanProc(): Promise<readonly RunningProcess[]> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const processes: RunningProcess[] = []
  for (let i = 0; i < pids.length; i += chunkSize) {
    if (i > 0) await setImmediate()
    for (const name of pids.slice(i, i + chunkSize)) {
      const found = readProcess(Number(name))
      if (found) processes.push(found)
    }
  }
  return processes
}

function readProcess(pid: number): RunningProcess | undefined {
  const stat = procStat(pid)
  const startedAt = stat && startOf(stat)
  if (!stat || startedAt === undefined) return undefined
  const { group, session } = stat
  const mark = markIn(readOwnProc(`/proc/${pid}/environ`, pid))
  const status = readProc(`/proc/${pid}/status`, pid) ?? ''
  return { pid, startedAt, group, session, ...mark, ...userIn(status) }
}

/** The line contains the real, effective, saved and file system user. */
function userIn(status: string): { readonly uid?: number } {
  const uid = /^Uid:\t\d+\t(\d+)/m.exec(status)?.[1]
  return uid === undefined ? {} : { uid: Number(uid) }
}

const recordPattern = new RegExp(`(?:^|[\\0 ])${recordVariable}=([\\w-]+)`)
const markPattern = new RegExp(`(?:^|[\\0 ])${markVariable}=([0-9a-f]+)`)

function markIn(environment: string): Pick<RunningProcess, 'mark' | 'recordMark'> {
  const mark = markPattern.exec(environment)?.[1]
  if (mark === undefined) return {}
  const recordMark = recordPattern.exec(environment)?.[1]
  return recordMark === undefined ? { mark } : { mark, recordMark }
}

/** The columns are those of `startFromPs` in `process-identity.ts`, and the environment follows the command. */
function scanPs(): readonly RunningProcess[] {
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  const columns = 'pid=,pgid=,stat=,lstart=,command='
  const result = spawnSync(...ownDescriptors('ps', ['-A', '-E', '-ww', '-o', columns]), {
    env,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  })
  if (result.error) throw new FleetError('unavailable', 'cannot list processes', { cause: result.error })
  return result.stdout.split('\n').flatMap((line) => {
    const [pid, group, state, ...rest] = line.trim().split(/\s+/)
    if (group === undefined || state === undefined || state.startsWith('Z')) return []
    const startedAt = rest.slice(0, 5).join(' ')
    const session = Number(group)
    return [{ pid: Number(pid), startedAt, group: session, session, ...markIn(rest.slice(5).join(' ')) }]
  })
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

// Signals the processes of a run. Reads `/proc` on Linux and runs `ps` on other systems.
//
// The system can reuse a group id once the last process in the group has exited. While the leader is alive, its identity
// proves that the group is the right one. After that, the run's processes are found by their mark.

/** How the supervisor's script begins. */
export const supervisorScript = 'exec 2>&1\ntrap _gamekeeper_sigterm=1 TERM\n'

/** What a process with the mark is: its supervisor, a program that is about to become the supervisor or the game, or the game's. */
function roleOf(pid: number, mark: string): 'supervisor' | 'starting' | 'game' {
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
function readOwnProc(path: string, pid: number): string {
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

// Finds running games by the mark in their environment. The mark contains the instance's record, so that an instance whose files
// are lost, damaged, or older than its process can be recovered.

export interface MarkedRun {
  readonly record: InstanceRecord & { readonly nonce: string }
  /** The process id of the supervisor, which leads the run's session and group. */
  readonly group: number
  /** The supervisor; missing if it was killed. */
  readonly leader?: ProcessIdentity
}

/** The value of the variable. Contains no secret that is not in the game's environment anyway. */
export function encodeMark(instanceDirectory: string, record: InstanceRecord): string {
  return Buffer.from(JSON.stringify({ directory: instanceDirectory, record })).toString('base64url')
}

/** Returns the runs of instances below this directory, by dotted name. */
export function findMarkedRuns({ processes }: ProcessSnapshot, instances: string): ReadonlyMap<string, MarkedRun> {
  const found = new Map<string, MarkedRun>()
  for (const { pid, startedAt, session, recordMark, uid } of processes) {
    // A game that runs as another user could forge the mark of another game.
    const isTrusted = uid === undefined || uid === process.geteuid?.()
    const record = recordMark === undefined || !isTrusted ? undefined : decodeMark(recordMark, instances)
    if (!record) continue
    const name = dottedName(record.ref)
    // A game's child that leads its own session has the mark in its environment only.
    const role = roleOf(pid, record.nonce)
    if (session === pid && role === 'supervisor') {
      found.set(name, { record, group: session, leader: { pid, startedAt } })
    } else if (session !== pid && role !== 'starting' && !found.has(name)) found.set(name, { record, group: session })
  }
  return found
}

function decodeMark(text: string, instances: string): MarkedRun['record'] | undefined {
  const json = parse(Buffer.from(text, 'base64url').toString())
  if (!isObject(json) || typeof json['directory'] !== 'string') return undefined
  if (dirname(json['directory']) !== instances) return undefined
  const record = readRecord(JSON.stringify(json['record']))
  return record?.nonce === undefined ? undefined : { ...record, nonce: record.nonce }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Another program's variable.
    return undefined
  }
}

/** Of the kernel's accounting, on all platforms of Linux that Node supports. */
const ticksPerSecond = 100

/** A process that has ended counts with its parent, if that has waited for it. Throws `unsupported`. */
export function usageOf(pids: readonly number[]): Required<Omit<InstanceUsage, 'cpuCores'>> {
  if (process.platform !== 'linux')
    throw new FleetError('unsupported', `what game servers use is not measured on ${process.platform}`)
  let memoryBytes = 0
  let ticks = 0
  for (const pid of pids) {
    const stat = readProc(`/proc/${pid}/stat`, pid)
    const status = readProc(`/proc/${pid}/status`, pid)
    if (stat === undefined || status === undefined) continue
    // The name may contain spaces and parentheses. Fields 14 to 17 are utime, stime, cutime and cstime; the first after the name is 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    for (const field of [14, 15, 16, 17]) ticks += Number(fields[field - 3] ?? 0)
    memoryBytes += 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0)
  }
  return { memoryBytes, cpuSeconds: ticks / ticksPerSecond }
}
