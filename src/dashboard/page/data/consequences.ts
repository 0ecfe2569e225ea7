/** What an action would do, in numbers, before it is taken. Pure. */
import type { Counts } from './model.js'
import { plural } from './words.js'

export interface Scale {
  readonly standingBy: number
  readonly max: number
}

/** Why a scale is not possible, or undefined. The host checks it again. */
export function scaleProblem({ standingBy, max }: Scale): string | undefined {
  if (![standingBy, max].every((value) => Number.isInteger(value) && value >= 0))
    return 'Both must be whole numbers from 0.'
  return standingBy > max ? 'Standing by must be at most max.' : undefined
}

/** Only what differs from the spec: somebody else may be changing the other field. */
export function scaleChange(before: Scale, { standingBy, max }: Scale): Partial<Scale> {
  return { ...(standingBy !== before.standingBy && { standingBy }), ...(max !== before.max && { max }) }
}

export function scaleConsequence(counts: Counts, { standingBy, max }: Scale): string {
  const idle = idleOf(counts)
  const wanted = Math.max(0, Math.min(standingBy, max - counts.Active))
  const kept = 'Matches go on in any case.'
  if (wanted > idle) return `Starts ${plural(wanted - idle, 'server')}. ${kept}`
  if (wanted < idle) return `Ends ${plural(idle - wanted, 'idle server')}. ${kept}`
  return `Starts and ends no server now. ${kept}`
}

export function drainConsequence(counts: Counts, players: number, endsMatches: boolean): string {
  const idle = idleOf(counts)
  const matches = `${plural(counts.Active, 'match', 'matches')} with ${plural(players, 'player')}`
  const active =
    counts.Active === 0 ? '' : endsMatches ? ` Ends ${matches}.` : ` Lets ${matches} go on until they are over.`
  return `Ends ${plural(idle, 'idle server')}.${active} Afterwards the build is neither allocated nor started again until it is resumed.`
}

export function deleteConsequence(counts: Counts, players: number): string {
  const servers = idleOf(counts) + counts.Active
  const matches =
    counts.Active === 0
      ? 'No match is running.'
      : `${plural(counts.Active, 'match', 'matches')} with ${plural(players, 'player')} will be ended.`
  return `Ends ${plural(servers, 'server')} and removes the build. ${matches}`
}

function idleOf({ Pending, Initializing, StandingBy }: Counts): number {
  return Pending + Initializing + StandingBy
}
