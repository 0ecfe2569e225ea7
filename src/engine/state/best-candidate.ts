/** Chooses among the candidates of builds. A group of servers with the same data is evaluated once, and builds that are draining are passed over. */
import type { ServerSelector } from '../../rules/model/allocation-request.js'
import { noData, type ServerData } from '../../rules/lifecycle/server-data.js'
import { isByTime, rankOf } from '../../rules/planning/server-choice.js'
import { fits, type Selection } from '../../rules/planning/selection.js'
import {
  type AllocatableBucket,
  type ByFree,
  candidatesOf,
  type Group,
  groupLinkOf,
  type MachineServers,
  sinceOf,
} from './candidates.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import type { LinkedSet } from './linked-set.js'
import type { Machine, MachineLoads } from './machine-loads.js'

/** Annotations can be too large for a change. Such servers are rare, so only a few of those with the same other data are looked at. */
const maxAnnotationsRead = 32

export interface Ranking {
  readonly bucket: AllocatableBucket
  readonly change: Selection['change']
  readonly order: Selection['order']
}

type IsFit = (data: ServerData | undefined) => boolean

interface Ranked {
  readonly entry: ServerEntry
  readonly rank: number
  readonly since: number
}

/** Of the servers that can be allocated and fit, the one that goes first in an order that does not depend on machines. */
export function firstThatFits(builds: readonly BuildEntry[], ranking: Ranking, isFit: IsFit): ServerEntry | undefined {
  // Usually the server that goes first fits. Whether one does takes longer to find out than which goes first.
  const first = firstOf(builds, ranking)
  return !first || isFit(first.record.data) ? first : bestOf(builds, ranking, isFit)
}

/** Of all servers, the one that goes first. */
function firstOf(builds: readonly BuildEntry[], ranking: Ranking): ServerEntry | undefined {
  const { bucket, change, order } = ranking
  if (!isByTime(order) || change?.annotations) return bestOf(builds, ranking)
  const isNewest = order?.by === 'newest'
  let first: ServerEntry | undefined
  for (const build of builds) {
    if (build.draining) continue
    const { servers } = candidatesOf(build).allocatable[bucket]
    const entry = isNewest ? servers.last : servers.first
    if (entry && (!first || (isNewest ? sinceOf(entry) > sinceOf(first) : sinceOf(entry) < sinceOf(first))))
      first = entry
  }
  return first
}

/** The server that goes first, among those that fit or among all. Looks at one server of each group. */
function bestOf(builds: readonly BuildEntry[], ranking: Ranking, isFit?: IsFit): ServerEntry | undefined {
  const { bucket, change, order } = ranking
  let best: Ranked | undefined
  for (const build of builds) {
    if (build.draining) continue
    for (const [{ data }, servers] of candidatesOf(build).allocatable[bucket].groups) {
      const entry = order?.by === 'newest' ? lastThatTakes(servers, change) : firstThatTakes(servers, change)
      if (!entry) continue
      const since = sinceOf(entry)
      const rank = rankOf(order, { since, machineLoad: 0, data })
      if (goesBefore(rank, since, best) && isFit?.(data) !== false) best = { entry, rank, since }
    }
  }
  return best?.entry
}

/** Of the servers that can be allocated and fit, the one that goes first in an order by machine. */
export function bestByMachine(
  builds: readonly BuildEntry[],
  ranking: Ranking,
  isFit: IsFit,
  loads: MachineLoads,
): ServerEntry | undefined {
  const { bucket, order } = ranking
  const machines = builds
    .filter(({ draining }) => !draining)
    .map((build) => candidatesOf(build).allocatableOn(loads)[bucket].machines)
  let first = Infinity
  for (const some of machines) for (const { machine } of some.values()) first = Math.min(first, rankOn(machine, order))
  const fitting = new Map<Group, boolean>()
  const groupFits = (group: Group) => {
    const known = fitting.get(group) ?? isFit(group.data)
    fitting.set(group, known)
    return known
  }
  // Usually one of the servers on the machines that go first fits.
  return bestOn(machines, ranking, groupFits, first) ?? bestOn(machines, ranking, groupFits, Infinity)
}

/** Looks at machines up to this rank. */
function bestOn(
  machines: readonly ReadonlyMap<string, MachineServers>[],
  { change, order }: Ranking,
  groupFits: (group: Group) => boolean,
  last: number,
): ServerEntry | undefined {
  let best: Ranked | undefined
  for (const some of machines) {
    for (const { machine, groups } of some.values()) {
      const rank = rankOn(machine, order)
      if (rank > (best ? best.rank : last)) continue
      for (const [group, servers] of groups) {
        const entry = firstThatTakes(servers, change)
        if (!entry) continue
        const since = sinceOf(entry)
        if (goesBefore(rank, since, best) && groupFits(group)) best = { entry, rank, since }
      }
    }
  }
  return best?.entry
}

function rankOn({ load: machineLoad }: Machine, order: Ranking['order']): number {
  return rankOf(order, { since: 0, machineLoad, data: undefined })
}

function goesBefore(rank: number, since: number, best: Ranked | undefined): boolean {
  return !best || rank < best.rank || (rank === best.rank && since < best.since)
}

/** The servers have the same data except for their annotations. */
function firstThatTakes(servers: LinkedSet<ServerEntry>, change: Selection['change']): ServerEntry | undefined {
  if (!change?.annotations) return servers.first
  let read = 0
  for (const entry of servers) {
    if (takesAnnotations(entry, change)) return entry
    if (++read === maxAnnotationsRead) break
  }
  return undefined
}

function lastThatTakes(servers: LinkedSet<ServerEntry>, change: Selection['change']): ServerEntry | undefined {
  let read = 0
  for (let entry = servers.last; entry && read < maxAnnotationsRead; entry = groupLinkOf(entry).before, read++) {
    if (takesAnnotations(entry, change)) return entry
  }
  return undefined
}

function takesAnnotations({ record }: ServerEntry, change: Selection['change']): boolean {
  return !change?.annotations || fits(record.data, anyServer, { annotations: change.annotations })
}

const anyServer: ServerSelector = { builds: [] }

interface Fullest {
  readonly entry: ServerEntry
  readonly free: number
  readonly isCurrent: boolean
}

/**
 * Of the servers that have sessions, take further ones and fit the selector if there is one, the one with the fewest free places: one that
 * runs the current template if there is any.
 */
export function fullestServer(
  builds: readonly BuildEntry[],
  selector?: ServerSelector,
  change?: Selection['change'],
  meets = fits,
): ServerEntry | undefined {
  let best: Fullest | undefined
  const { annotations, ...others } = change ?? {}
  const shared = change && others
  const isFit = (data: ServerData) => !selector || meets(data, selector, shared)
  // The servers of a group may differ in their annotations.
  const takes = ({ record }: ServerEntry) => !selector || !annotations || meets(record.data, selector, change)
  for (const { candidates, draining } of builds) {
    if (draining || !candidates) continue
    for (const [{ data = noData, isCurrent }, byFree] of candidates.withFreePlaces) {
      if (best?.isCurrent && !isCurrent) continue
      const isBetter = (free: number) => !best || (isCurrent && !best.isCurrent) || free < best.free
      if (!isBetter(Math.min(...byFree.keys())) || !isFit(data)) continue
      const found = fullestOf(byFree, takes)
      if (found && isBetter(found.free)) best = { ...found, isCurrent }
    }
  }
  return best?.entry
}

function fullestOf(byFree: ByFree, takes: (entry: ServerEntry) => boolean): Omit<Fullest, 'isCurrent'> | undefined {
  for (const free of [...byFree.keys()].sort((a, b) => a - b)) {
    for (const entry of byFree.get(free) ?? []) if (takes(entry)) return { entry, free }
  }
  return undefined
}

/** The servers whose sessions have at least so many free seats, of those that fit the selector: sets with equally many, the fullest first. */
export function withFreeSeats(
  builds: readonly BuildEntry[],
  seats: number,
  selector: ServerSelector,
): readonly ReadonlySet<ServerEntry>[] {
  const found: { readonly free: number; readonly servers: ReadonlySet<ServerEntry> }[] = []
  for (const build of builds) {
    if (build.draining || build.record.spec.seatsPerSession === undefined) continue
    for (const [{ data }, byFree] of candidatesOf(build).withFreeSeats) {
      let isFit: boolean | undefined
      for (const [free, servers] of byFree) {
        if (free >= seats && (isFit ??= fits(data, selector, undefined))) found.push({ free, servers })
      }
    }
  }
  return found.sort((a, b) => a.free - b.free).map(({ servers }) => servers)
}
