/** Which Linux capabilities a container has. Pure. */

/**
 * The part of Docker's default capabilities that games and their entry points use when they run as root: changing the owner
 * of files, reading and writing files of any owner, signalling, ports below 1024, and switching to another user. The rest
 * of Docker's defaults, such as NET_RAW and MKNOD, is dropped.
 */
export const keptCapabilities: readonly string[] = Object.freeze([
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'KILL',
  'NET_BIND_SERVICE',
  'SETGID',
  'SETUID',
])

export interface CapabilityOptions {
  readonly add: readonly string[]
  readonly drop: readonly string[]
}

/** The fields of the engine's `HostConfig`. `add` takes precedence over `drop`; `ALL` means every capability. */
export function containerCapabilities(options: CapabilityOptions): {
  readonly CapAdd: string[]
  readonly CapDrop: string[]
} {
  const [add, drop] = [options.add.map(plainName), options.drop.map(plainName)]
  // The engine then drops the named ones from all.
  if (add.includes('ALL')) return { CapAdd: ['ALL'], CapDrop: drop.filter((name) => name !== 'ALL') }
  const kept = drop.includes('ALL') ? [] : keptCapabilities.filter((name) => !drop.includes(name))
  return { CapAdd: [...new Set([...kept, ...add])], CapDrop: ['ALL'] }
}

/** The engine accepts `net_raw`, `NET_RAW` and `CAP_NET_RAW`. */
function plainName(name: string): string {
  return name.toUpperCase().replace(/^CAP_/, '')
}
