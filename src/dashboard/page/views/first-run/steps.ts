/** How far a new fleet is: its first build, its first servers, its first allocation. Pure. */
import { keyOf } from '../../../../rules/model/resources.js'
import { blockedReason } from '../../data/consequences.js'
import { countsOf, type Model } from '../../data/model.js'

/** What comes next. */
export type FirstStep = 'build' | 'servers' | 'allocation'

/**
 * Undefined once something has been allocated, or may have been: a log that does not go back to the creation of every build
 * cannot say, and once no build starts servers.
 */
export function firstStep(model: Model): FirstStep | undefined {
  const keys = [...model.builds.keys()]
  if (keys.length === 0) return 'build'
  // What is wrong stands above, and no first server is on its way.
  if ([...model.builds.values()].every((build) => blockedReason(build) !== undefined)) return undefined
  const counts = keys.map((key) => countsOf(model, key))
  if (counts.some(({ Active }) => Active > 0)) return undefined
  const created = new Set<string>()
  for (const event of model.events) {
    if (event.type === 'Allocated') return undefined
    if (event.type === 'BuildCreated') created.add(keyOf(event.build))
  }
  if (!keys.every((key) => created.has(key))) return undefined
  return counts.some(({ StandingBy }) => StandingBy > 0) ? 'allocation' : 'servers'
}
