/** The files of cgroups, in versions 1 and 2. Pure. */

export type Controller = 'memory' | 'pids'

export const controllers: readonly Controller[] = ['memory', 'pids']

export interface CgroupLimits {
  /** Of all processes of a server together. */
  readonly memoryBytes?: number | undefined
  readonly tasks?: number | undefined
}

export interface Mount {
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

export interface LimitFile {
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
