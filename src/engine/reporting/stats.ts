/** The statistics of every build, for metrics. */
import type { BuildStats } from '../../contracts/observer.js'
import { buildHealth } from '../../rules/model/status.js'
import type { BuildEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { countsOf } from '../state/queries.js'

export function buildStats(inventory: Inventory, waiting: (build: BuildEntry) => number): readonly BuildStats[] {
  return Array.from(inventory.builds.values(), (build) => {
    const { namespace, name, spec, crashes } = build.record
    return {
      build: { namespace, name },
      standingBy: spec.standingBy,
      max: spec.max,
      health: buildHealth(build.record),
      crashes,
      servers: countsOf(build),
      players: build.players,
      waiting: waiting(build),
    }
  })
}
