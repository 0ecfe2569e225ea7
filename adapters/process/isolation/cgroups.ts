/**
 * One cgroup per server that has a limit of memory or tasks: below `/gamekeeper` of the cgroup file system, outside of the host's
 * service, which may be restarted while games go on. With `isolation: 'systemd'`, it is that of the server's own service, and systemd
 * creates and removes it. Reads and writes the cgroup file system, version 1 or 2.
 *
 * The name is the run's nonce, so a host that did not create a cgroup finds it again. Without a cgroup, everything here is empty.
 */
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../../src/contracts/errors.js'
import { serviceOf, slice } from './systemd.js'

const parent = 'gamekeeper'

/** Where the system mounts the controllers of cgroups. Read once, because it does not change while a host runs. */
let mounts: readonly Mount[] | undefined

function knownMounts(): readonly Mount[] {
  mounts ??=
    process.platform === 'linux' ? findMounts(readFileSync('/proc/self/mountinfo', 'utf8')).filter(canLimit) : []
  return mounts
}

function canLimit(mount: Mount): boolean {
  return mount.version === 2 || controllers.some((one) => mount.controllers.includes(one))
}

/** Why this host cannot limit servers with this controller; undefined if it can. */
export function missing(controller: Controller): string | undefined {
  const mount = mountOf(controller)
  if (!mount) return 'no cgroup with this controller'
  try {
    accessSync(mount.folder, constants.W_OK)
    if (mount.version === 2) enable(mount.folder, controller)
    return undefined
  } catch (error) {
    return `no writable cgroup: ${messageOf(error)}`
  }
}

/** Why the machine's systemd cannot limit servers with this controller; undefined if it can. */
export function missingForSystemd(controller: Controller): string | undefined {
  return mountOf(controller) ? undefined : `no cgroup with the controller ${controller}`
}

/** The cgroups of a server's own service, which exist while it runs. */
export function serviceCgroups(name: string): readonly string[] {
  return knownMounts().map(({ folder }) => join(folder, slice, serviceOf(name)))
}

/**
 * Says how this machine limits the memory and the tasks (`pids`) of each process server, such as `per server, by cgroup v2`, or why
 * it does not. For people: the wording may change.
 */
export function limitsHere(): { readonly memory: string; readonly pids: string } {
  const holds = (controller: Controller, otherwise: string) => {
    const why = missing(controller)
    return why === undefined ? `per server, by cgroup v${mountOf(controller)?.version}` : `${otherwise} (${why})`
  }
  return {
    memory: holds('memory', 'templates: not enforced; limits.memoryBytes: per process'),
    pids: holds('pids', 'only for servers that have a user of their own'),
  }
}

/** Creates the cgroup of a run, with its limits. Returns the files to which a process writes its id in order to join it. */
export function createCgroup(name: string, limits: CgroupLimits): readonly string[] {
  const joins: string[] = []
  for (const controller of controllers) {
    const mount = mountOf(controller)
    const files = limitFiles(controller, mount?.version ?? 1, limits)
    if (!mount || files.length === 0) continue
    const above = join(mount.folder, parent)
    mkdirSync(join(above, name), { recursive: true })
    if (mount.version === 2) enable(above, controller)
    for (const { file, value, optional } of files) {
      const path = join(above, name, file)
      if (!optional || existsSync(path)) writeFileSync(path, value)
    }
    joins.push(join(above, name, 'cgroup.procs'))
  }
  return [...new Set(joins)]
}

/** The files to which a process writes its id in order to join the cgroup of a run. */
export function joinsOf(name: string): readonly string[] {
  return foldersOf(name).map((folder) => join(folder, 'cgroup.procs'))
}

/** The processes in the cgroup of a run. */
export function processesIn(name: string): readonly number[] {
  return foldersOf(name).flatMap((folder) => read(folder, 'cgroup.procs').split('\n').filter(Boolean).map(Number))
}

/**
 * What the memory limit of this run has ended so far, or undefined if nothing. `keptIn` is a folder with copies of the cgroup's files:
 * systemd removes the cgroup of a service that has ended.
 */
export function endedByLimit(name: string, keptIn: string): LimitKills | undefined {
  for (const folder of [...foldersOf(name), keptIn]) {
    const ended = killsByLimit((file) => read(folder, file))
    if (ended) return ended
  }
  return undefined
}

/** Whether a memory limit ends one process of a run, after which the game may go on. Version 2 ends all of them. */
export function endsSingleProcesses(): boolean {
  return mountOf('memory')?.version === 1
}

/** Removes the cgroup of a run whose processes have ended. */
export function removeCgroup(name: string): void {
  for (const { folder } of knownMounts()) {
    try {
      rmdirSync(join(folder, parent, name))
    } catch {
      // It has none. An empty cgroup costs nothing, and a run has no other use for its name.
    }
  }
}

function foldersOf(name: string): readonly string[] {
  const folders = knownMounts().map((mount) => join(mount.folder, parent, name))
  return [...new Set([...folders, ...serviceCgroups(name)])].filter((folder) => existsSync(folder))
}

function mountOf(controller: Controller): Mount | undefined {
  return knownMounts().find((mount) => {
    if (mount.version === 1) return mount.controllers.includes(controller)
    return read(mount.folder, 'cgroup.controllers').trim().split(' ').includes(controller)
  })
}

/** Version 2: the controller applies to the cgroups below this one. */
function enable(folder: string, controller: Controller): void {
  const enabled = read(folder, 'cgroup.subtree_control').trim().split(' ')
  if (!enabled.includes(controller)) writeFileSync(join(folder, 'cgroup.subtree_control'), `+${controller}`)
}

/** Returns an empty string if there is no such file. */
function read(folder: string, file: string): string {
  try {
    return readFileSync(join(folder, file), 'utf8')
  } catch {
    // The other version, or a cgroup that has been removed.
    return ''
  }
}

export type Controller = 'memory' | 'pids'

const controllers: readonly Controller[] = ['memory', 'pids']

export interface CgroupLimits {
  /** Of all processes of a server together. */
  readonly memoryBytes?: number | undefined
  readonly tasks?: number | undefined
}

interface Mount {
  readonly version: 1 | 2
  readonly folder: string
  /** Version 1 only: version 2 lists its controllers in a file. */
  readonly controllers: readonly string[]
}

/** Parses `/proc/self/mountinfo`. Mounts of version 1 come first: a controller that they have is not available to version 2. */
export function findMounts(mountinfo: string): readonly Mount[] {
  const mounts: Mount[] = []
  for (const line of mountinfo.split('\n')) {
    const [own = '', system = ''] = line.split(' - ')
    const folder = unescaped(own.split(' ')[4] ?? '')
    const [type, , options = ''] = system.split(' ')
    if (type === 'cgroup') mounts.push({ version: 1, folder, controllers: options.split(',') })
    if (type === 'cgroup2') mounts.push({ version: 2, folder, controllers: [] })
  }
  return mounts.toSorted((a, b) => a.version - b.version)
}

/** Spaces and the like are octal numbers. */
function unescaped(path: string): string {
  return path.replaceAll(/\\(\d{3})/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 8)))
}

interface LimitFile {
  readonly file: string
  readonly value: string
  /** Absent from machines without swap, for example. */
  readonly optional?: true
}

/** What to write, in this order. Swap does not extend the memory. */
export function limitFiles(controller: Controller, version: 1 | 2, limits: CgroupLimits): readonly LimitFile[] {
  const { memoryBytes, tasks } = limits
  if (controller === 'pids') return tasks === undefined ? [] : [{ file: 'pids.max', value: String(tasks) }]
  if (memoryBytes === undefined) return []
  const value = String(memoryBytes)
  if (version === 1) {
    return [
      { file: 'memory.limit_in_bytes', value },
      { file: 'memory.memsw.limit_in_bytes', value, optional: true },
    ]
  }
  return [
    { file: 'memory.max', value },
    { file: 'memory.swap.max', value: '0', optional: true },
    // A game without one of its processes is broken in ways that its exit does not tell.
    { file: 'memory.oom.group', value: '1', optional: true },
  ]
}

/** What `killsByLimit` reads. */
export const limitEvidence: readonly string[] = Object.freeze([
  'memory.oom_control',
  'memory.limit_in_bytes',
  'memory.max_usage_in_bytes',
  'memory.memsw.max_usage_in_bytes',
  'memory.events.local',
  'memory.events',
  'memory.max',
])

export interface LimitKills {
  /** Number of processes that the limit has ended. */
  readonly kills: number
  readonly limitBytes: number
}

/**
 * What the memory limit of a cgroup has ended, from the contents of its files; a missing file is empty. Undefined if it has ended
 * nothing: the kernel counts the kills of the machine's OOM killer, and those by the limits of cgroups above, in the same place.
 */
export function killsByLimit(read: (file: string) => string): LimitKills | undefined {
  const control = read('memory.oom_control')
  const events = read('memory.events.local') || read('memory.events')
  const isFirst = control !== ''
  const kills = fieldOf(isFirst ? control : events, 'oom_kill')
  const limitBytes = numberIn(read(isFirst ? 'memory.limit_in_bytes' : 'memory.max'))
  const wasReached = isFirst ? peakOf(read) >= limitBytes * almost : fieldOf(events, 'oom') > 0
  return kills > 0 && limitBytes > 0 && wasReached ? { kills, limitBytes } : undefined
}

/** Version 1 does not count how often it had nothing left to free below the limit, and what is refused does not add to the peak. */
const almost = 0.97

/** Of the memory with swap, if the machine accounts for that. */
function peakOf(read: (file: string) => string): number {
  return numberIn(read('memory.memsw.max_usage_in_bytes')) || numberIn(read('memory.max_usage_in_bytes'))
}

function fieldOf(counts: string, name: string): number {
  const line = counts.split('\n').find((one) => one.startsWith(`${name} `)) ?? ''
  return numberIn(line.slice(name.length + 1))
}

/** 0 if the text is no number: `max` is no limit. */
function numberIn(text: string): number {
  return /^\d+\s*$/.test(text) ? Number(text) : 0
}
