/** Says why a build has no server standing by, for the error of an allocation. Pure. */
import type { Condition, ConditionType } from '../model/resources.js'
import { counted } from '../model/counted.js'

export interface Shortage {
  readonly conditions: readonly Condition[]
  readonly initializing: number
  readonly pending: number
  /** Why one of the Pending servers has not started, from the backend. */
  readonly pendingReason: string | undefined
}

/** Conditions that keep servers from becoming ready, the most specific first. */
const causes: readonly ConditionType[] = ['Invalid', 'CreateBlocked', 'Crashing', 'Disappearing', 'LateServers']

/** Returns undefined if no cause is known: a server may be about to be started. */
export function causeOfShortage({ conditions, initializing, pending, pendingReason }: Shortage): string | undefined {
  for (const type of causes) {
    const condition = conditions.find((one) => one.type === type)
    if (condition) return condition.message
  }
  if (initializing > 0) {
    const games = initializing === 1 ? 'its game has' : 'their games have'
    return `${counted(initializing, 'server is', 'servers are')} Initializing: ${games} not called readyForPlayers()`
  }
  if (pending === 0) return undefined
  const why = pendingReason === undefined ? '' : `: ${pendingReason}`
  return `${counted(pending, 'server is', 'servers are')} Pending${why}`
}
