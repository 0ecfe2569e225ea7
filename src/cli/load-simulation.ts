/** An even load: its callers, who are determined by a seed, and the smallest `standingBy` for them. */
import type { BuildSpec } from '../index.js'
import { play, type PlayedOutcome, type SimulatedCaller } from '../testing/played-day.js'
import { seededRandom } from '../testing/index.js'

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

/** Callers come independently of each other, so that the number in a minute varies (a Poisson process). */
export function callersOf({ allocationsPerMinute, matchSeconds, hours, seed }: Load): readonly SimulatedCaller[] {
  const random = seededRandom(seed)
  const meanGapMs = 60_000 / allocationsPerMinute
  const endMs = hours * 3_600_000
  const callers: SimulatedCaller[] = []
  const nextGap = () => -Math.log(1 - random()) * meanGapMs
  for (let atMs = nextGap(); atMs < endMs; atMs += nextGap()) {
    callers.push({ atMs: Math.round(atMs), matchMs: around(matchSeconds * 1_000, random()) })
  }
  return callers
}

/** From half to one and a half times the mean. */
function around(meanMs: number, random: number): number {
  return Math.round(meanMs * (0.5 + random))
}

/** How many matches run at the same time at most, if every caller gets a server at once. */
export function peakMatches(callers: readonly SimulatedCaller[]): number {
  const changes = callers.flatMap(({ atMs, matchMs }) => [
    { atMs, by: 1 },
    { atMs: atMs + matchMs, by: -1 },
  ])
  let [now, peak] = [0, 0]
  for (const { by } of changes.toSorted((a, b) => a.atMs - b.atMs || a.by - b.by)) peak = Math.max(peak, (now += by))
  return peak
}

// Runs a load against the real engine.

interface RunOptions {
  /** Ends the run early. Checked once a simulated minute. */
  readonly isOver?: (refused: number) => boolean
  /** Called once a simulated minute. */
  readonly onMinute?: (simulatedMs: number) => void
  readonly signal: AbortSignal
}

/** Begins once the servers that stand by are ready, so that the start of an empty fleet does not count. Throws `aborted`. */
export function runLoad(
  spec: BuildSpec,
  { hours, seed, startSeconds, waitSeconds }: Load,
  callers: readonly SimulatedCaller[],
  options: RunOptions,
): Promise<PlayedOutcome> {
  return play(spec, callers, {
    seed,
    waitMs: waitSeconds * 1_000,
    durationMs: hours * 3_600_000,
    startMs: (random) => around(startSeconds * 1_000, random),
    ...options,
  })
}

interface SizingOptions {
  /** An outcome that is known already. */
  readonly known: { readonly standingBy: number; readonly outcome: PlayedOutcome }
  /** Called when a run begins, and once a simulated minute. */
  readonly onMinute: (standingBy: number, simulatedMs: number) => void
  readonly signal: AbortSignal
}

/**
 * Doubles until a number suffices, then halves the interval: with one fewer than the result, at least one caller is refused. Undefined
 * if even `max` does not suffice.
 */
export async function smallestStandingBy(
  spec: BuildSpec,
  load: Load,
  callers: readonly SimulatedCaller[],
  { known, onMinute, signal }: SizingOptions,
): Promise<number | undefined> {
  const suffices = async (standingBy: number) => {
    if (standingBy === known.standingBy) return known.outcome.refused === 0
    const outcome = await runLoad({ ...spec, standingBy }, load, callers, {
      isOver: (refused) => refused > 0,
      onMinute: (ms) => onMinute(standingBy, ms),
      signal,
    })
    return outcome.refused === 0
  }
  let tooFew = known.outcome.refused === 0 ? -1 : known.standingBy
  let enough = known.outcome.refused === 0 ? known.standingBy : Math.max(1, known.standingBy * 2)
  if (known.outcome.refused > 0) {
    while (enough < spec.max && !(await suffices(enough))) [tooFew, enough] = [enough, enough * 2]
    if (enough >= spec.max) {
      enough = spec.max
      if (tooFew >= enough || !(await suffices(enough))) return undefined
    }
  }
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (await suffices(middle)) enough = middle
    else tooFew = middle
  }
  return enough
}
