/** Ranks the groups of servers with the same data by the server that goes first in each, in the order of a request. */
import type { ServerSelector } from '../../rules/model/allocation.js'
import type { ServerData } from '../../rules/model/server-data.js'
import { type Candidate, compareCandidates } from '../../rules/planning/order.js'
import { fits, type Selection } from '../../rules/planning/selection.js'
import type { AllocatableBucket, GroupedServers } from './data-groups.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import type { LinkedSet } from './linked-set.js'
import { type MachineLoads, machineOf } from './machine-loads.js'

/** Annotations can be too large for a change. Such servers are rare, so only a few of those with the same other data are looked at. */
const maxAnnotationsRead = 32

export interface Ranking {
  readonly bucket: AllocatableBucket
  readonly change: Selection['change']
  readonly order: Selection['order']
  readonly machineLoads: MachineLoads | undefined
}

interface Ranked extends Candidate {
  readonly entry: ServerEntry
}

/** Of the groups that fit, or of all, the server that goes first. */
export function bestOf(
  builds: readonly BuildEntry[],
  { bucket, change, order, machineLoads }: Ranking,
  isFit?: (data: ServerData | undefined) => boolean,
): Ranked | undefined {
  let best: Ranked | undefined
  for (const { draining, groups } of builds) {
    if (draining || !groups) continue
    for (const { data, servers } of groups.all) {
      if (machineLoads && isFit?.(data) === false) continue
      const entry = firstOf(servers[bucket], change, order, machineLoads)
      if (!entry) continue
      const machineLoad = machineLoads?.of(machineOf(entry)) ?? 0
      const next = { entry, since: entry.standingBySince ?? Number.MAX_VALUE, machineLoad, data }
      if (best && compareCandidates(order, next, best) >= 0) continue
      if (machineLoads || isFit?.(data) !== false) best = next
    }
  }
  return best
}

/** The server of a group that goes first. */
function firstOf(
  { all: servers, byMachine }: GroupedServers,
  change: Selection['change'],
  order: Selection['order'],
  machineLoads: MachineLoads | undefined,
): ServerEntry | undefined {
  if (!machineLoads) return order?.by === 'newest' ? lastWithRoom(servers, change) : firstWithRoom(servers, change)
  let best: ServerEntry | undefined
  let bestLoad = 0
  for (const [machine, onMachine] of byMachine) {
    const load = machineLoads.of(machine)
    if (best && (order?.by === 'packed' ? load < bestLoad : load > bestLoad)) continue
    const entry = firstWithRoom(onMachine, change)
    if (!entry || (best && load === bestLoad && !isEarlier(entry, best))) continue
    best = entry
    bestLoad = load
  }
  return best
}

function isEarlier(a: ServerEntry, b: ServerEntry): boolean {
  return (a.standingBySince ?? Number.MAX_VALUE) < (b.standingBySince ?? Number.MAX_VALUE)
}

/** The servers have the same data except for their annotations. */
function firstWithRoom(servers: LinkedSet<ServerEntry>, change: Selection['change']): ServerEntry | undefined {
  if (!change?.annotations) return servers.first
  let read = 0
  for (const entry of servers) {
    if (hasRoom(entry, change)) return entry
    if (++read === maxAnnotationsRead) break
  }
  return undefined
}

function lastWithRoom(servers: LinkedSet<ServerEntry>, change: Selection['change']): ServerEntry | undefined {
  let read = 0
  for (let entry = servers.last; entry && read < maxAnnotationsRead; entry = entry.groupLink.before, read++) {
    if (hasRoom(entry, change)) return entry
  }
  return undefined
}

function hasRoom({ record }: ServerEntry, change: Selection['change']): boolean {
  return !change?.annotations || fits(record.data, anyServer, { annotations: change.annotations })
}

const anyServer: ServerSelector = { builds: [] }
