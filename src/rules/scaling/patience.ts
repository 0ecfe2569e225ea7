/** Lets a number rise at once and fall slowly. Pure. */

export interface Patience {
  /** The number as it is followed. */
  readonly level: number
  /** What was asked for within the delay, the highest first, each lower one later than the one before it; the last is asked for now. */
  readonly asked: readonly Ask[]
  /** When the level fell last, ms. */
  readonly loweredAt: number
}

interface Ask {
  readonly level: number
  /** Until when it was asked for, ms. */
  readonly until: number
}

export interface PatienceLimits {
  /** How long something lower must be asked for before the level falls. */
  readonly delayMs: number
  /** By how many it may fall in a minute. */
  readonly perMinute: number
}

/** The beginning: what is there now counts as asked for. */
export function patientFrom(level: number, now: number): Patience {
  return { level, asked: [{ level, until: now }], loweredAt: -Infinity }
}

/**
 * The level follows the highest number asked for within the delay: it rises to it at once, and falls to it by `perMinute` a minute, in steps at
 * least a second apart. So it does not move while the numbers go up and down within one delay. `now` must not decrease. `nextMs` is the time
 * until the level changes, if the number stays the same.
 */
export function follow(
  before: Patience,
  level: number,
  now: number,
  { delayMs, perMinute }: PatienceLimits,
): { readonly patience: Patience; readonly nextMs: number | undefined } {
  const held = before.asked.map((ask, index) => (index === before.asked.length - 1 ? { ...ask, until: now } : ask))
  const recent = merged(
    held.filter((ask) => ask.until + delayMs > now && ask.level > level),
    delayMs,
  )
  const asked = [...recent, { level, until: now }]
  const floor = asked[0]?.level ?? level
  const size = Math.ceil(perMinute / 60)
  const stepMs = Math.ceil((60_000 * size) / perMinute)
  const restMs = before.loweredAt + stepMs - now
  const mayFall = floor < before.level && restMs <= 0
  const fallen = Math.max(floor, before.level - size)
  const next = floor >= before.level ? floor : mayFall ? fallen : before.level
  const loweredAt = mayFall ? now : before.loweredAt
  const patience = { level: next, asked, loweredAt }
  const first = recent[0]
  if (next > floor) return { patience, nextMs: mayFall ? stepMs : restMs }
  return { patience, nextMs: first && first.until + delayMs - now }
}

/** At most about a hundred: those within the same hundredth of the delay count as the higher one. */
function merged(asks: readonly Ask[], delayMs: number): readonly Ask[] {
  const [last, before] = [asks.at(-1), asks.at(-2)]
  const part = ({ until }: Ask) => Math.floor((100 * until) / delayMs)
  if (!last || !before || part(last) !== part(before)) return asks
  return [...asks.slice(0, -2), { level: before.level, until: last.until }]
}
