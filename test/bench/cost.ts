/** What calls cost, measured so that the other work of a shared machine counts as little as can be. */

/** Microseconds per call. */
export interface Cost {
  readonly wallUs: number
  /** Of the whole process: of its helper threads, too, which collect garbage and compile. */
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
 * The work of the thread that is called: it is at most the time that passed, in which others may have had the processor,
 * and at most the CPU time of its process. So the lower of the two is the better measure, and never too low.
 */
export function workUs({ wallUs, cpuUs }: Cost): number {
  return Math.min(wallUs, cpuUs)
}

/**
 * Of several rounds, the cost that a quarter of them stayed below: what else a shared machine does only ever adds to a
 * round, so the quieter ones tell more of what is measured, and the quietest alone may be luck.
 */
export function typical(costs: readonly number[]): number {
  return costs.toSorted((a, b) => a - b)[Math.floor(costs.length / 4)] ?? Number.NaN
}

export function typicalWorkUs(costs: readonly Cost[]): number {
  return typical(costs.map(workUs))
}

/** Where waiting, for a disk, is part of what is measured. */
export function typicalWallUs(costs: readonly Cost[]): number {
  return typical(costs.map(({ wallUs }) => wallUs))
}

export function perSecond(us: number): number {
  return 1_000_000 / us
}

/** For notes: the two clocks behind a figure. */
export function clocks(costs: readonly Cost[]): string {
  const wall = typicalWallUs(costs)
  const cpu = typical(costs.map(({ cpuUs }) => cpuUs))
  return `${wall.toFixed(1)} µs wall, ${cpu.toFixed(1)} µs CPU`
}

/** Young garbage of the set-up is not the measured work's. */
export function collectYoungGarbage(): void {
  collector()({ type: 'minor' })
}

/** All there is, twice, since what is finalized by the first may only be freed by the second. */
export function collectGarbage(): void {
  collector()()
  collector()()
}

function collector(): NodeJS.GCFunction {
  if (!globalThis.gc) throw new Error('garbage can only be collected under --expose-gc')
  return globalThis.gc
}
