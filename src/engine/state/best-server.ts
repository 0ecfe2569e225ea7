/** Ranks the groups of servers with the same data by the server that goes first in each, in the order of a request. */
import type { ServerSelector } from '../../rules/model/allocation.js'
import type { ServerData } from '../../rules/model/server-data.js'
import { type Candidate, compareCandidates, isByTime } from '../../rules/planning/order.js'
import { fits, type Selection } from '../../rules/planning/selection.js'
import { type AllocatableBucket, type DataGroup, groupLinkOf, sinceOf } from './data-groups.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import type { LinkedSet } from './linked-set.js'

/** Annotations can be too large for a change. Such servers are rare, so only a few of those with the same other data are looked at. */
const maxAnnotationsRead = 32

export interface Ranking {
  readonly bucket: AllocatableBucket
  readonly change: Selection['change']
  readonly order: Selection['order']
}

type IsFit = (data: ServerData | undefined) => boolean

interface Ranked extends Candidate {
  readonly entry: ServerEntry
}

/** Of the servers that fit, the one that goes first in an order that does not depend on machines. */
export function firstThatFits(builds: readonly BuildEntry[], ranking: Ranking, isFit: IsFit): Ranked | undefined {
  // Usually the server that goes first fits. Whether one does takes longer to find out than which goes first.
  const first = firstOf(builds, ranking)
  if (!first || isFit(first.data)) return first
  return bestOf(builds, ranking, isFit)
}

/** Of all servers, the one that goes first. */
function firstOf(builds: readonly BuildEntry[], ranking: Ranking): Ranked | undefined {
  const { bucket, change, order } = ranking
  if (!isByTime(order) || change?.annotations) return bestOf(builds, ranking)
  let first: Ranked | undefined
  for (const { draining, groups } of builds) {
    const servers = draining ? undefined : groups?.servers[bucket]
    const entry = order?.by === 'newest' ? servers?.last : servers?.first
    const next = entry && { entry, since: sinceOf(entry), machineLoad: 0, data: entry.record.data }
    if (next && (!first || compareCandidates(order, next, first) < 0)) first = next
  }
  return first
}

/** The same of the servers that fit, or of all. Looks at one of each group. */
function bestOf(builds: readonly BuildEntry[], { bucket, change, order }: Ranking, isFit?: IsFit): Ranked | undefined {
  let best: Ranked | undefined
  for (const { draining, groups } of builds) {
    if (draining || !groups) continue
    for (const { data, servers } of groups.all) {
      const inBucket = servers[bucket]
      const entry = order?.by === 'newest' ? lastWithRoom(inBucket, change) : firstWithRoom(inBucket, change)
      const next = entry && { entry, since: sinceOf(entry), machineLoad: 0, data }
      if (!next || (best && compareCandidates(order, next, best) >= 0)) continue
      if (isFit?.(data) !== false) best = next
    }
  }
  return best
}

/** Of the servers that fit, the one that goes first by machine. */
export function bestByMachine(
  builds: readonly BuildEntry[],
  { bucket, change, order }: Ranking,
  isFit: IsFit,
): Ranked | undefined {
  let best: Ranked | undefined
  for (const { draining, groups } of builds) {
    if (draining || !groups) continue
    const fitting = new Map<DataGroup, boolean>()
    const groupFits = (group: DataGroup) => {
      const known = fitting.get(group) ?? isFit(group.data)
      fitting.set(group, known)
      return known
    }
    for (const { machine, groups: onMachine } of groups.byMachine[bucket].values()) {
      const machineLoad = machine.load
      // Spares most machines a look at their servers: not even one that has been standing by for ever would go first.
      if (best && compareCandidates(order, { since: -Infinity, machineLoad, data: undefined }, best) >= 0) continue
      for (const [group, servers] of onMachine) {
        const entry = firstWithRoom(servers, change)
        const next = entry && { entry, since: sinceOf(entry), machineLoad, data: group.data }
        if (next && (!best || compareCandidates(order, next, best) < 0) && groupFits(group)) best = next
      }
    }
  }
  return best
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
  for (let entry = servers.last; entry && read < maxAnnotationsRead; entry = groupLinkOf(entry).before, read++) {
    if (hasRoom(entry, change)) return entry
  }
  return undefined
}

function hasRoom({ record }: ServerEntry, change: Selection['change']): boolean {
  return !change?.annotations || fits(record.data, anyServer, { annotations: change.annotations })
}

const anyServer: ServerSelector = { builds: [] }
