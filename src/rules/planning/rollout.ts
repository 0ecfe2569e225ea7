/**
 * Plans a rolling update: replaces idle servers that run earlier templates, one batch at a time, and never replaces an
 * Active server. Creates new servers first if `max` and the free ports allow it. Pure.
 *
 * If servers of the new template crash or never become ready, the update stalls: at most one batch of servers starts at a
 * time, and an old server is replaced only when a new one is ready, or when `max` leaves no room or the backend no port to
 * start one. If new servers are late, at most one further batch starts beside them; where there is no room or no port, late
 * ones are terminated before old ones.
 */
import type { BuildSpec } from '../model/resources.js'
import { canonical } from '../model/values.js'

/**
 * Number of idle servers by state; servers being allocated count as Active. A server that runs the current template counts
 * as standing by only if it can be allocated and, if a server with that template has crashed, has stayed up long enough.
 * Otherwise it counts as Initializing. Late servers are not included.
 */
interface IdleCounts {
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
}

export interface RolloutInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  readonly current: IdleCounts
  readonly outdated: IdleCounts
  /** Number of Pending and Initializing servers that are late, by template. */
  readonly late: { readonly current: number; readonly outdated: number }
  /** Number of Pending servers with the current template that the backend could not start because no port is free. */
  readonly withoutPort: number
  /** The same of outdated ones, which are replaced first and give up no port. */
  readonly outdatedWithoutPort: number
  /** Number of ports that replaced, crashed and late servers gave up, or are about to, and that no new server has taken yet. */
  readonly freedPorts: number
  /** Number of Active servers, whichever template they run. */
  readonly active: number
  /** Servers whose termination is not recorded yet. Until it is, they count towards `max`. */
  readonly ending: number
  /** Number of callers that are waiting for a server or are expected to retry soon. */
  readonly callers: number
  readonly mayCreate: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Maximum number of Pending servers, without late ones. */
  readonly maxPending: number
}

interface RolloutPlan {
  readonly create: number
  /** Number of late servers to terminate: outdated ones first. */
  readonly late: number
  /** Number of outdated idle servers to terminate: Pending first, then Initializing, then StandingBy. */
  readonly replace: number
  /** How many of `replace` give up a port that a new server is to take. */
  readonly portsToFree: number
  /** Number of surplus idle servers with the current template to terminate, in the same order. */
  readonly surplus: number
  readonly partial: boolean
}

/** Returns how many servers may be starting at the same time: a quarter of the desired number, but at least one. */
export function rolloutBatch(wanted: number): number {
  return Math.max(1, Math.ceil(wanted / 4))
}

export function planRollout(input: RolloutInput): RolloutPlan {
  const { current, late } = input
  const old = total(input.outdated)
  const updated = total(current)
  const ready = current.standingBy
  const starting = updated - ready
  // The desired number of idle servers, limited to what `max` allows in addition to the Active ones, so that Active servers
  // do not stall the update.
  const wanted = Math.max(0, Math.min(input.spec.standingBy + input.callers, input.spec.max - input.active))
  const room = input.spec.max - old - updated - late.current - late.outdated - input.active

  // Missing servers are created at once, as in normal scaling; replacements are created one batch at a time.
  const batch = rolloutBatch(wanted)
  const missing = Math.max(0, wanted - old - updated)
  const renewed = Math.max(0, Math.min(wanted - updated - missing, batch - starting - missing))
  const toCreate = input.mayCreate ? missing + renewed : 0
  const possible = Math.min(toCreate, Math.max(0, room))

  const useful = Math.min(batch, Math.max(0, wanted - ready))
  const withoutRoom = toCreate - room - late.outdated
  const overdue = Math.min(late.current, Math.max(0, late.current - useful, withoutRoom, input.withoutPort))

  const notNeeded = old + ready - wanted
  const laterRoom = room + late.outdated + overdue
  const toMakeRoom = Math.min(renewed, toCreate - Math.max(0, laterRoom))
  const overMax = -laterRoom
  const otherwise = Math.min(old, Math.max(0, notNeeded, toMakeRoom, overMax))
  // Counts freed ports together with the servers that have taken one and are starting, so that no more than one batch of old
  // servers is given up if the new ones never become ready or another build takes the ports. While none may be created, the
  // build may lack servers already, so no more are given up.
  const unusedPorts = input.freedPorts + starting - input.withoutPort
  const possiblePorts = input.mayCreate ? Math.min(input.withoutPort - overdue, batch - unusedPorts) : 0
  const forPorts = Math.max(0, possiblePorts - otherwise)
  const replaced = Math.min(old, otherwise + forPorts)
  const excess = Math.min(updated, Math.max(0, updated - wanted, overMax - replaced))

  const pending = current.pending + input.outdated.pending
  const allowed = Math.max(0, Math.min(possible, room - input.ending, input.maxPending - pending))
  const create = Math.min(allowed, input.maxCreatesPerReconcile)
  const lateEnding = Math.min(late.outdated + overdue, input.maxDeletesPerReconcile)
  const replace = Math.min(replaced, input.maxDeletesPerReconcile - lateEnding)
  const surplus = Math.min(excess, input.maxDeletesPerReconcile - lateEnding - replace)
  const forRoom = Math.max(0, Math.min(replace, toMakeRoom) - input.outdatedWithoutPort)
  const portsToFree = forRoom + Math.max(0, replace - otherwise)
  const isCut = lateEnding < late.outdated + overdue || replace < replaced || surplus < excess
  return { create, late: lateEnding, replace, portsToFree, surplus, partial: create < allowed || isCut }
}

function total(counts: IdleCounts): number {
  return counts.pending + counts.initializing + counts.standingBy
}

// Identifies what a server was started with. Specs that would start the same game server have the same hash. So after a
// rollback to an earlier template, servers that still run it count as current again.

/** Returns a hash of the template, ports, metadata, and of the counters and lists that servers begin with, as 14 hex digits. */
export function templateHash({ template, portsToExpose, buildMetadata = {}, counters, lists }: HashedSpec): string {
  const parts: unknown[] = [template, portsToExpose, buildMetadata]
  if (Object.keys({ ...counters, ...lists }).length > 0) parts.push(counters ?? {}, lists ?? {})
  return hash(canonical(parts))
}

type HashedSpec = Pick<BuildSpec, 'template' | 'portsToExpose' | 'buildMetadata' | 'counters' | 'lists'>

/** The cyrb53 hash. Its 53 bits are plenty for the few templates that one build has over time. */
function hash(text: string): string {
  let a = 0xdeadbeef
  let b = 0x41c6ce57
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 2_654_435_761)
    b = Math.imul(b ^ unit, 1_597_334_677)
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909)
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909)
  return (4_294_967_296 * (2_097_151 & b) + (a >>> 0)).toString(16).padStart(14, '0')
}
