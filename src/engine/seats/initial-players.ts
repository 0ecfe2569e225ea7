/** Refuses allocations whose initial players would not fit into a session. */
import { FleetError } from '../../contracts/errors.js'
import type { AllocationRequest } from '../../rules/model/allocation.js'
import { counted } from '../../rules/model/counted.js'
import { keyOf } from '../../rules/model/resources.js'
import { selectedBuilds } from '../allocation/selected-builds.js'
import type { Inventory } from '../state/inventory.js'

/** Throws `invalid` if a session of any build that the request names has fewer seats than the request has initial players. */
export function checkInitialPlayers(
  { buildID, select, server, initialPlayers }: AllocationRequest,
  inventory: Pick<Inventory, 'buildByID' | 'buildsWithLabels' | 'servers'>,
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
