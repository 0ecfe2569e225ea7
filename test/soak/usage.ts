/** Compares a host's memory and open files early and late in its run. Pure. */
import type { Usage } from './machine.js'

export interface Sample extends Usage {
  /** Time since the host was ready. */
  readonly atMs: number
  /** Number of game servers; each has a connection for its heartbeats. */
  readonly servers: number
  /** Whether the fleet had settled. */
  readonly settled: boolean
}

export interface UsageReport {
  readonly lifeSeconds: number
  readonly rssMiB: { readonly early: number; readonly late: number; readonly perMinute: number }
  /** Open files while the fleet was settled, not counting one per game server. */
  readonly fds: { readonly early: number; readonly late: number }
}

/** Samples taken earlier than this are ignored for memory: start-up and the first garbage collections affect them. */
const warmUpMs = 20_000

/** Returns undefined if the run was too short. */
export function reportOf(samples: readonly Sample[]): UsageReport | undefined {
  const warm = samples.filter(({ atMs }) => atMs >= warmUpMs)
  const first = warm[0]
  const last = warm.at(-1)
  if (!first || !last || warm.length < 6) return undefined
  const third = Math.ceil(warm.length / 3)
  const rss = (part: readonly Sample[]) => median(part.map(({ rssMiB }) => rssMiB))
  const early = rss(warm.slice(0, third))
  const late = rss(warm.slice(-third))
  // The two medians are from the first and last third, so they are two thirds of the duration apart.
  const apartMinutes = ((last.atMs - first.atMs) * 2) / 3 / 60_000
  const own = samples.filter(({ settled }) => settled).map(({ fds, servers }) => fds - servers)
  const half = Math.ceil(own.length / 2)
  return {
    lifeSeconds: Math.round(last.atMs / 1000),
    rssMiB: { early: round(early), late: round(late), perMinute: round((late - early) / apartMinutes) },
    fds: { early: median(own.slice(0, half)), late: median(own.slice(-half)) },
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
