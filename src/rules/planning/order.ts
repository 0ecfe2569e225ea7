/** Which of several servers that fit a request is taken. Pure. */
import type { AllocationOrder } from '../model/allocation.js'
import { noData, type ServerData } from '../model/server-data.js'

export interface Candidate {
  /** Since when it has been standing by, in elapsed ms. */
  readonly since: number
  /** Number of servers with a session on its machine. 0 unless the order depends on machines. */
  readonly machineLoad: number
  readonly data: ServerData | undefined
}

/** True if the order depends on how many servers of a machine have a session. */
export function isByMachine(order: AllocationOrder | undefined): boolean {
  return order?.by === 'packed' || order?.by === 'distributed'
}

/** True if the order depends only on since when a server has been standing by. */
export function isByTime(order: AllocationOrder | undefined): boolean {
  return order === undefined || order.by === 'first-ready' || order.by === 'newest'
}

/** Negative if `a` is taken before `b`. Of equal ones, the one that has been standing by for longer is taken first. */
export function compareCandidates(order: AllocationOrder | undefined, a: Candidate, b: Candidate): number {
  switch (order?.by) {
    case 'packed':
      return b.machineLoad - a.machineLoad || a.since - b.since
    case 'distributed':
      return a.machineLoad - b.machineLoad || a.since - b.since
    case 'newest':
      return b.since - a.since
    case 'least-available':
      return byAvailable(order, a, b, 1) || a.since - b.since
    case 'most-available':
      return byAvailable(order, a, b, -1) || a.since - b.since
    case 'first-ready':
    case undefined:
      return a.since - b.since
  }
}

/** A server without the counter comes last. */
function byAvailable({ counter = '' }: AllocationOrder, a: Candidate, b: Candidate, sign: 1 | -1): number {
  const [inA, inB] = [availableIn(a, counter), availableIn(b, counter)]
  if (inA === undefined || inB === undefined) return Number(inA === undefined) - Number(inB === undefined)
  return sign * (inA - inB)
}

function availableIn({ data = noData }: Candidate, name: string): number | undefined {
  const counter = Object.hasOwn(data.counters, name) ? data.counters[name] : undefined
  return counter && counter.capacity - counter.count
}
