/** Finds the builds that a selector names, and refuses requests that no build of theirs can serve. */
import { FleetError } from '../../contracts/errors.js'
import type { AllocationRequest, ServerSelector } from '../../rules/model/allocation-request.js'
import { counted, shown } from '../../rules/validation/problem.js'
import { keyOf } from '../../rules/model/resources.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { hasLabels } from '../../rules/planning/selection.js'
import { drainingError } from './allocation-errors.js'
import type { BuildEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { labelKeys } from '../state/named-builds.js'

type Builds = Pick<Inventory, 'buildByID' | 'buildsWithLabels'>

/** Returns the builds that the selector names and that exist, each once. Throws `invalid` if they are too many to look at. */
export function selectedBuilds(inventory: Builds, { builds, buildLabels = {} }: ServerSelector): readonly BuildEntry[] {
  if (!builds) return labelledBuilds(inventory, buildLabels)
  const found: BuildEntry[] = []
  for (const id of builds) {
    const build = inventory.buildByID(id)
    if (build && !found.includes(build) && hasLabels(build.record.spec, buildLabels)) found.push(build)
  }
  return found
}

function labelledBuilds(inventory: Builds, labels: Readonly<Record<string, string>>): readonly BuildEntry[] {
  const found = inventory.buildsWithLabels(labels)
  const max = sizeLimits.labelledBuilds
  if (found.length <= max) return found
  const problem = `${found.length} builds have the labels ${labelKeys(labels).join(',')}, and a selector may name at most ${max}`
  throw new FleetError('invalid', `${problem}; add a label that fewer builds have`)
}

/** For selectors whose builds are all missing or draining. */
export function noSelectedBuildError(inventory: Builds, selectors: readonly ServerSelector[]): FleetError {
  const [build] = selectors.flatMap((selector) => selectedBuilds(inventory, selector))
  if (build) return drainingError(build)
  const ids = new Set<string>()
  const others = new Set<string>()
  for (const { builds = [], buildLabels } of selectors) {
    const labels = buildLabels && `the labels ${labelKeys(buildLabels).join(',')}`
    if (labels === undefined) for (const id of builds) ids.add(shown(id))
    else if (builds.length === 0) others.add(labels)
    else others.add(`the buildID ${builds.map((id) => shown(id)).join(' or ')} and ${labels}`)
  }
  const named = [...(ids.size > 0 ? [`the buildID ${[...ids].join(' or ')}`] : []), ...others]
  return new FleetError('not-found', `no build has ${named.join(' or ')}`)
}

/** Throws `invalid` if a session of any build that the request names has fewer seats than the request has initial players. */
export function checkInitialPlayers(
  { buildID, select, server, initialPlayers }: AllocationRequest,
  inventory: Builds & Pick<Inventory, 'servers'>,
): void {
  if (!initialPlayers || initialPlayers.length < 2) return
  const players = new Set(initialPlayers).size
  const selectors = select ?? [{ builds: [buildID ?? ''] }]
  const named = server && inventory.servers.get(keyOf({ namespace: 'default', ...server }))?.build
  const builds = server ? (named ? [named] : []) : selectors.flatMap((one) => selectedBuilds(inventory, one))
  for (const { record } of builds) {
    const { name, spec } = record
    if (spec.seatsPerSession === undefined || players <= spec.seatsPerSession) continue
    throw new FleetError(
      'invalid',
      `initialPlayers has ${players} players, but a session of build ${name} has ${counted(spec.seatsPerSession, 'seat')}; name fewer players, or other builds`,
    )
  }
}
