/**
 * Finds the processes that belong to a data directory, and the open ports, by reading `/proc` (Linux only), independently of
 * what the host reports. A process belongs to a data directory if its environment names the directory; its command line does not
 * matter. Games in containers are visible too; their environment names the directory because their build sets a variable.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { signalProcess } from '../../adapters/process/processes.js'
import { processIdentity, type ProcessIdentity } from '../../src/platform/process-identity.js'

/** Environment variable that names the data directory in containers. */
export const containedIn = 'SOAK_DATA_DIR'
const nameVariable = 'PF_GAMESERVER_NAME='

export interface Running {
  /** Game processes by server name. Each server should have exactly one. */
  readonly games: ReadonlyMap<string, readonly ProcessIdentity[]>
  readonly supervisors: ReadonlyMap<string, readonly ProcessIdentity[]>
  /** All processes that belong to the directory: games, supervisors and hosts. */
  readonly all: readonly ProcessIdentity[]
}

export function runningIn(dataDir: string): Running {
  const games = new Map<string, ProcessIdentity[]>()
  const supervisors = new Map<string, ProcessIdentity[]>()
  const all: ProcessIdentity[] = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!(pid > 1) || pid === process.pid) continue
    const environment = textOf(`/proc/${pid}/environ`).split('\0')
    const config = environment.find((entry) => entry.startsWith(`GSDK_CONFIG_FILE=${dataDir}/instances/`))
    const isContained = environment.includes(`${containedIn}=${dataDir}`)
    if (config === undefined && !isContained && !environment.includes(`DATA_DIR=${dataDir}`)) continue
    const identity = processIdentity(pid)
    if (!identity) continue
    all.push(identity)
    const server = isContained
      ? environment.find((entry) => entry.startsWith(nameVariable))?.slice(nameVariable.length)
      : /\/default\.([^/]+)\/gsdkConfig\.json$/.exec(config ?? '')?.[1]
    if (server === undefined) continue
    // The supervisor is a shell or, in a container, the first process.
    const isSupervisor = isContained ? /^\/(?:sbin\/docker-init|dev\/init)\0/ : /^\/bin\/sh\0/
    const kind = isSupervisor.test(textOf(`/proc/${pid}/cmdline`)) ? supervisors : games
    kind.set(server, [...(kind.get(server) ?? []), identity])
  }
  return { games, supervisors, all }
}

/** Kills all processes that belong to the directory. */
export function killAllIn(dataDir: string): void {
  for (const identity of runningIn(dataDir).all) signalProcess(identity, 'SIGKILL')
}

/** Returns the open TCP and UDP ports from `first` to `last`. */
export function openPorts(first: number, last: number): readonly number[] {
  const open = new Set<number>()
  for (const table of ['tcp', 'tcp6', 'udp', 'udp6']) {
    for (const line of textOf(`/proc/net/${table}`).split('\n').slice(1)) {
      const [, local = '', , state] = line.trim().split(/\s+/)
      const port = Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)
      // For TCP, count only listening sockets, since closed connections linger in TIME_WAIT.
      if (port >= first && port <= last && (table.startsWith('udp') || state === '0A')) open.add(port)
    }
  }
  return [...open].toSorted((a, b) => a - b)
}

export interface Usage {
  readonly rssMiB: number
  readonly fds: number
}

/** Returns the process's memory and open files, or undefined if the process has exited. */
export function usageOf(pid: number): Usage | undefined {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(textOf(`/proc/${pid}/status`))?.[1]
  if (kib === undefined) return undefined
  return { rssMiB: Number(kib) / 1024, fds: fdsOf(pid).length }
}

/** Returns the number of open file descriptors by kind, which helps to find leaks. */
export function fdsByKind(pid: number): Readonly<Record<string, number>> {
  const kinds: Record<string, number> = {}
  for (const fd of fdsOf(pid)) {
    const kind = linkOf(`/proc/${pid}/fd/${fd}`).replace(/\[\d+\]$|\d+/g, '')
    kinds[kind] = (kinds[kind] ?? 0) + 1
  }
  return kinds
}

function fdsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`)
  } catch {
    return [] // The process has exited.
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return 'closed'
  }
}

/** Returns the file's text, or an empty string if the process has exited or belongs to another user. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
