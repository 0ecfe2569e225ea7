/** What charts mark on the axis of time: deployments, drains, crashes and restarts. Pure. */
import type { FleetActivity } from '../../../contracts/observer.js'
import type { FleetEvent, FleetEventType } from '../../../contracts/events.js'
import { keyOf } from '../../../rules/model/resources.js'
import { minuteMs } from '../data/model.js'

export type MarkKind = 'deployment' | 'drain' | 'crash' | 'restart'

export interface Mark {
  readonly kind: MarkKind
  /** Wall time in ms. */
  readonly at: number
  readonly text: string
}

/** A variable of the style sheet, and the sign at the top of the line: the colour alone says nothing to some. */
export const markLooks: Readonly<Record<MarkKind, { readonly colour: string; readonly sign: string }>> = {
  deployment: { colour: '--active', sign: '▲' },
  drain: { colour: '--quiet', sign: '▼' },
  crash: { colour: '--bad', sign: '✕' },
  restart: { colour: '--warn', sign: '◆' },
}

export const markKinds = ['deployment', 'drain', 'crash', 'restart'] as const satisfies readonly MarkKind[]

/** The events that a chart marks. Crashes are in the activity, which has them for longer. */
export const markedTypes = [
  'BuildCreated',
  'BuildUpdated',
  'ConditionChanged',
  'LeadershipChanged',
] as const satisfies readonly FleetEventType[]

/** Oldest first. `build`: its key, for the charts of one build. Of the crashes in a minute there is one mark. */
export function marksOf(
  events: readonly FleetEvent[],
  activity: FleetActivity | undefined,
  build?: string,
): readonly Mark[] {
  const marks = events.flatMap((event) => markOf(event, build))
  const crashes = new Map<number, string[]>()
  for (const {
    at,
    build: { name },
  } of activity?.crashes ?? []) {
    const minute = Math.floor(at / minuteMs) * minuteMs
    crashes.set(minute, [...(crashes.get(minute) ?? []), name])
  }
  for (const [minute, names] of crashes) {
    const text = `${names.length === 1 ? 'crash' : `${names.length} crashes`} of ${[...new Set(names)].join(', ')}`
    marks.push({ kind: 'crash', at: minute + minuteMs / 2, text })
  }
  return marks.toSorted((a, b) => a.at - b.at)
}

function markOf(event: FleetEvent, build: string | undefined): readonly Mark[] {
  const { at, type } = event
  if (type === 'LeadershipChanged') return event.leads ? [{ kind: 'restart', at, text: 'this host began to lead' }] : []
  if (!('build' in event) || (build !== undefined && keyOf(event.build) !== build)) return []
  const { name } = event.build
  if (type === 'BuildCreated') return [{ kind: 'deployment', at, text: `${name} was created` }]
  if (type === 'BuildUpdated') return [{ kind: 'deployment', at, text: `${name} was deployed` }]
  if (type === 'ConditionChanged' && event.condition === 'Draining')
    return [{ kind: 'drain', at, text: event.status ? `drain of ${name}` : `${name} was resumed` }]
  return []
}
