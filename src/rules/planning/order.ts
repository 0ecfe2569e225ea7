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

/**
 * The server with the lowest rank is taken first, and of those with the same rank, the one that has been standing by for longest. A server
 * without the counter of the order comes last.
 */
export function rankOf(order: AllocationOrder | undefined, { since, machineLoad, data }: Candidate): number {
  switch (order?.by) {
    case 'packed':
      return -machineLoad
    case 'distributed':
      return machineLoad
    case 'newest':
      return -since
    case 'least-available':
      return availableIn(data, order.counter) ?? Infinity
    case 'most-available':
      return -(availableIn(data, order.counter) ?? -Infinity)
    case 'first-ready':
    case undefined:
      return 0
  }
}

function availableIn({ counters }: ServerData = noData, name = ''): number | undefined {
  const counter = Object.hasOwn(counters, name) ? counters[name] : undefined
  return counter && counter.capacity - counter.count
}
