/**
 * Finds the processes of runs among all processes of the system. Reads `/proc` on Linux, and runs `ps` on other systems.
 *
 * A process belongs to a run if it carries the run's mark in its environment, which it inherits even if it leaves its group. A
 * game that clears its environment carries none. Its session still identifies it: the system does not reuse a session id
 * while a process of the session is left, so all of a session belong to the run if one of them does, such as the game.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { FleetError } from '../../../src/contracts/errors.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { type ProcessIdentity, procStat, readProc, startOf } from '../../../src/platform/process-identity.js'
import { markVariable, readOwnProc, recordVariable } from './process-group.js'

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

export interface RunIdentity {
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
