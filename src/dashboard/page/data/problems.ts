/** What is wrong with the fleet, as the host says it: what may have changed it, and the order of builds that follows. Pure. */
import { compare, type FleetProblem, type Severity } from '../../../rules/model/problems.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { countsOf, type Model, type StreamedEvent } from './model.js'

/** Changes of single servers, of which a busy fleet has hundreds a second. */
const ofServers: ReadonlySet<StreamedEvent['type']> = new Set([
  'Allocated',
  'ServerCreated',
  'ServerEnding',
  'ServerHealthChanged',
  'ServerRemoved',
  'ServerStateChanged',
  'SessionEnded',
])

const unrelated: ReadonlySet<StreamedEvent['type']> = new Set([
  'Audited',
  'BuildPreparing',
  'DrainProgress',
  'MaintenanceAnnounced',
  'MaintenanceWithdrawn',
  'MetadataKeysReserved',
  'PlayersChanged',
  'SeatsLapsed',
  'SeatsReleased',
  'SeatsReserved',
  'ServerDataChanged',
  'TemplateFieldsSkipped',
  'WebhookFailed',
])

/**
 * Whether one of the events may have changed what is wrong. A change of a single server does so only in a build that has a problem, whose
 * words count its servers, and in one that has reached its max. `model` has the events already.
 */
export function mayChangeProblems(
  model: Model,
  known: readonly FleetProblem[],
  events: readonly StreamedEvent[],
): boolean {
  const troubled = new Set(known.flatMap(({ build }) => (build ? [keyOf(build)] : [])))
  return events.some((event) => {
    if (unrelated.has(event.type)) return false
    if (!ofServers.has(event.type) || !('build' in event)) return true
    if (event.type === 'ServerHealthChanged' && event.health === 'Unhealthy') return true
    const key = keyOf(event.build)
    return troubled.has(key) || isMaxReached(model, key)
  })
}

function isMaxReached(model: Model, key: string): boolean {
  const build = model.builds.get(key)
  return build !== undefined && countsOf(model, key).Active >= build.spec.max
}

export function problemsOfBuild(known: readonly FleetProblem[], build: Ref): readonly FleetProblem[] {
  const key = keyOf(build)
  return known.filter((problem) => problem.build && keyOf(problem.build) === key)
}

/** The worst of a build's problems says how it is. Undefined if it has none. */
export function severityOf(known: readonly FleetProblem[], build: Ref): Severity | undefined {
  return problemsOfBuild(known, build)[0]?.severity
}

/** In the order of their problems, the worst first; those without any follow by name. */
export function worstFirst(
  builds: Iterable<GameServerBuild>,
  known: readonly FleetProblem[],
): readonly GameServerBuild[] {
  const ranks = new Map<string, number>()
  for (const [rank, { build }] of known.entries()) if (build && !ranks.has(keyOf(build))) ranks.set(keyOf(build), rank)
  const rankOf = ({ metadata }: GameServerBuild) => ranks.get(keyOf(metadata)) ?? known.length
  return [...builds].toSorted((a, b) => rankOf(a) - rankOf(b) || compare(a.metadata.name, b.metadata.name))
}
