/** How many servers of a build stand by, of those that should. Pure. */
import { standingByOf } from '../../../rules/model/build-status.js'
import { readyText } from '../../../rules/model/problems.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import type { Counts } from './model.js'

export interface ReadyOfWanted {
  /** `3 of 6 ready`. */
  readonly text: string
  /** `grey`: none are wanted now. */
  readonly colour: 'good' | 'amber' | 'red' | 'grey'
  /** Servers are missing, and `max` allows no more. */
  readonly isMaxReached: boolean
}

export function readinessOf(build: Pick<GameServerBuild, 'spec' | 'status'>, counts: Counts): ReadyOfWanted {
  const { spec, status } = build
  const wanted = standingByOf(build)
  const { Active, StandingBy, Pending, Initializing } = counts
  const starting = Pending + Initializing
  const isDrained = status.conditions?.some(({ type }) => type === 'Draining') ?? false
  const isMaxReached =
    !isDrained && spec.max > 0 && Active + StandingBy + starting >= spec.max && StandingBy + starting < wanted
  const text = readyText(StandingBy, wanted)
  if (isDrained || wanted === 0) return { text, colour: 'grey', isMaxReached }
  const isShort = StandingBy < wanted
  return { text, colour: isShort ? (StandingBy === 0 ? 'red' : 'amber') : 'good', isMaxReached }
}
