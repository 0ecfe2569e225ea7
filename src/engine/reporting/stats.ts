/** The statistics of every build, for metrics, and what may be wrong. */
import type { BuildStats } from '../../contracts/observer.js'
import { buildHealth } from '../../rules/model/build-status.js'
import { type FleetSituation, isTroubled } from '../../rules/model/problems.js'
import type { BuildEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { countsOf, decidedScaling, generationsOf, inUse, readinessOfBuild, scaledSpec } from '../state/queries.js'

export interface StatsDependencies {
  readonly inventory: Inventory
  readonly waiting: (build: BuildEntry) => number
  readonly maxServersPerBuild: number
}

export function buildStats({ inventory, waiting, maxServersPerBuild }: StatsDependencies): readonly BuildStats[] {
  return Array.from(inventory.builds.values(), (build) => {
    const { namespace, name, spec, crashes, conditions } = build.record
    return {
      build: { namespace, name },
      standingBy: decidedScaling(build)?.decision.standingBy ?? spec.standingBy,
      max: spec.max,
      health: buildHealth(build.record),
      ready: readinessOfBuild(build, maxServersPerBuild).ready,
      conditions: conditions.map(({ type }) => type),
      crashes,
      servers: countsOf(build),
      templates: generationsOf(build),
      players: build.players,
      waiting: waiting(build),
    }
  })
}

/** Goes through all servers. */
export function situationOf(
  { builds, servers }: Inventory,
  maxServersPerBuild: number,
): Pick<FleetSituation, 'builds' | 'servers'> {
  return {
    builds: Array.from(builds.values(), (build) => ({
      build: build.record,
      counts: countsOf(build),
      wanted: scaledSpec(build, maxServersPerBuild).standingBy,
      inUse: inUse(build),
      isFull: (build.candidates?.freePlaces ?? 0) === 0,
    })),
    servers: Array.from(servers.values(), ({ record, instance, pendingReason }) => ({
      server: record,
      pendingReason: instance?.blocked || record.health === 'Unhealthy' ? pendingReason : undefined,
    })).filter(isTroubled),
  }
}
