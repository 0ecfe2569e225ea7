/** The callers of a simulated load. Pure: a seed determines them. */
import { seededRandom } from '../../testing/random.js'

export interface Load {
  readonly allocationsPerMinute: number
  /** Mean length of a match. */
  readonly matchSeconds: number
  /** Mean time from the start of a server until it is standing by. */
  readonly startSeconds: number
  /** How long a caller waits for a server. */
  readonly waitSeconds: number
  readonly hours: number
  readonly seed: number
}

export interface Caller {
  readonly atMs: number
  readonly matchMs: number
}

/** Callers come independently of each other, so that the number in a minute varies (a Poisson process). */
export function callersOf({ allocationsPerMinute, matchSeconds, hours, seed }: Load): readonly Caller[] {
  const random = seededRandom(seed)
  const meanGapMs = 60_000 / allocationsPerMinute
  const endMs = hours * 3_600_000
  const callers: Caller[] = []
  const nextGap = () => -Math.log(1 - random()) * meanGapMs
  for (let atMs = nextGap(); atMs < endMs; atMs += nextGap()) {
    callers.push({ atMs: Math.round(atMs), matchMs: around(matchSeconds * 1_000, random()) })
  }
  return callers
}

/** From half to one and a half times the mean. */
export function around(meanMs: number, random: number): number {
  return Math.round(meanMs * (0.5 + random))
}

/** How many matches run at the same time at most, if every caller gets a server at once. */
export function peakMatches(callers: readonly Caller[]): number {
  const changes = callers.flatMap(({ atMs, matchMs }) => [
    { atMs, by: 1 },
    { atMs: atMs + matchMs, by: -1 },
  ])
  let [now, peak] = [0, 0]
  for (const { by } of changes.toSorted((a, b) => a.atMs - b.atMs || a.by - b.by)) peak = Math.max(peak, (now += by))
  return peak
}
