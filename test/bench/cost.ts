/** Measures the cost of calls, as unaffected as possible by other work on the machine. */

/** The cost of a call in microseconds. */
export interface Cost {
  readonly wallUs: number
  /** CPU time of the whole process, with its threads for garbage collection and compilation, or of its main thread only. */
  readonly cpuUs: number
}

export async function costOf(calls: number, work: () => Promise<void>): Promise<Cost> {
  const cpuBefore = process.cpuUsage()
  const wallBefore = performance.now()
  await work()
  const wallMs = performance.now() - wallBefore
  const { user, system } = process.cpuUsage(cpuBefore)
  return { wallUs: (wallMs * 1_000) / calls, cpuUs: (user + system) / calls }
}

/**
 * An upper bound for the work on the main thread: the lower of wall time, which includes the work of other processes, and CPU
 * time, which may include helper threads.
 */
export function workUs({ wallUs, cpuUs }: Cost): number {
  return Math.min(wallUs, cpuUs)
}

/** The lower quartile of several rounds: other work on the machine can only add to the cost, but the minimum may be luck. */
export function typical(costs: readonly number[]): number {
  return costs.toSorted((a, b) => a - b)[Math.floor(costs.length / 4)] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

export function typicalWorkUs(costs: readonly Cost[]): number {
  return typical(costs.map(workUs))
}

/** The typical wall time. Used for measurements that include waiting for a disk. */
export function typicalWallUs(costs: readonly Cost[]): number {
  return typical(costs.map(({ wallUs }) => wallUs))
}

export function perSecond(us: number): number {
  return 1_000_000 / us
}

/** Formats wall and CPU time for a row's note. */
export function clocks(costs: readonly Cost[]): string {
  const wall = typicalWallUs(costs)
  const cpu = typical(costs.map(({ cpuUs }) => cpuUs))
  return `${wall.toFixed(1)} µs wall, ${cpu.toFixed(1)} µs CPU`
}

/**
 * Collects young garbage, so that neither garbage nor new objects from the set-up affect a measurement. Runs two collections,
 * since objects leave the young generation only with the second.
 */
export function collectYoungGarbage(): void {
  collector()({ type: 'minor' })
  collector()({ type: 'minor' })
}

/** Collects all garbage. Runs two collections, since finalized objects are freed only by the second. */
export function collectGarbage(): void {
  collector()()
  collector()()
}

function collector(): NodeJS.GCFunction {
  if (!globalThis.gc) throw new Error('garbage collection requires --expose-gc')
  return globalThis.gc
}
