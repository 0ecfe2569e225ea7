/**
 * What runs on this machine for a data directory, and which ports are taken: the truth beside what a host says of
 * itself. Reads `/proc`, so it knows Linux only, and nothing that the host has written. A process belongs to a directory
 * by its environment: to have it in the command line, as an operator's `tail` has, is not enough. Games in containers are
 * processes of this machine as well, and are told the directory by their build.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { signalProcess } from '../../adapters/process/process-group.js'
import { identityOf, type ProcessIdentity } from '../../src/platform/process-identity.js'

/** What a build tells its containers. */
export const containedIn = 'SOAK_DATA_DIR'
const nameVariable = 'PF_GAMESERVER_NAME='

export interface Running {
  /** By name of the server. More than one is one too many. */
  readonly games: ReadonlyMap<string, readonly ProcessIdentity[]>
  readonly supervisors: ReadonlyMap<string, readonly ProcessIdentity[]>
  /** Of every process that has to do with the directory: games, supervisors and hosts. */
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
    const identity = identityOf(pid)
    if (!identity) continue
    all.push(identity)
    const server = isContained
      ? environment.find((entry) => entry.startsWith(nameVariable))?.slice(nameVariable.length)
      : /\/default\.([^/]+)\/gsdkConfig\.json$/.exec(config ?? '')?.[1]
    if (server === undefined) continue
    // The supervisor is a shell, and so is, for a moment, what becomes the game. In a container it is the first process.
    const keeps = isContained ? /^\/(?:sbin\/docker-init|dev\/init)\0/ : /^\/bin\/sh\0/
    const kind = keeps.test(textOf(`/proc/${pid}/cmdline`)) ? supervisors : games
    kind.set(server, [...(kind.get(server) ?? []), identity])
  }
  return { games, supervisors, all }
}

/** Ends whatever has to do with the directory. */
export function killAllIn(dataDir: string): void {
  for (const identity of runningIn(dataDir).all) signalProcess(identity, 'SIGKILL')
}

/** The ports from `first` to `last` that somebody has open, for TCP or for UDP. */
export function openPorts(first: number, last: number): readonly number[] {
  const open = new Set<number>()
  for (const table of ['tcp', 'tcp6', 'udp', 'udp6']) {
    for (const line of textOf(`/proc/net/${table}`).split('\n').slice(1)) {
      const [, local = '', , state] = line.trim().split(/\s+/)
      const port = Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)
      // Of TCP, what listens: a connection that is over keeps its number for a while and is in nobody's way.
      if (port >= first && port <= last && (table.startsWith('udp') || state === '0A')) open.add(port)
    }
  }
  return [...open].toSorted((a, b) => a - b)
}

export interface Usage {
  readonly rssMiB: number
  readonly fds: number
}

/** Undefined when it has ended. */
export function usageOf(pid: number): Usage | undefined {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(textOf(`/proc/${pid}/status`))?.[1]
  if (kib === undefined) return undefined
  return { rssMiB: Number(kib) / 1024, fds: fdsOf(pid).length }
}

/** What a process has open, by kind: for whoever looks for a leak. */
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
    return [] // It has ended.
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return 'closed meanwhile'
  }
}

/** Empty when the process is gone, or belongs to somebody else. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
