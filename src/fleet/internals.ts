/**
 * What other parts of this package may use in a fleet besides its public API. Other implementations of `Fleet`, such as test
 * doubles, do not have it. The ESM and CommonJS copies of this file share the key.
 */
import type { FleetEmitter, LoggedEvents } from '../contracts/events.js'
import type { LeaderLink } from '../contracts/elector.js'
import type { ObserverReports } from '../contracts/observer.js'

export interface FleetInternals {
  /** Lets a component outside the fleet, such as a webhook, emit an event through the fleet. */
  readonly emit: FleetEmitter['emit']
  readonly log: LoggedEvents
  /** The fleet's `limits.maxWaitMs`. */
  readonly maxWaitMs: number
  /** The fleet's `limits.maxWaiting`. */
  readonly maxWaiting?: number
  /** Why this host has not been able to lead for a minute, or undefined if it can. */
  readonly cannotLeadReason?: () => string | undefined
  /** Absent if calls are not forwarded to the leader. */
  readonly link?: LeaderLink | undefined
  /** Gives up the lead for good, but keeps the link, so that calls can still be forwarded. Does not close the fleet. */
  readonly handOver?: () => Promise<void>
  /** Absent if requests are not measured. */
  readonly observers?: ObserverReports
  /** Handles an HTTP request with these headers in its trace. Absent if the fleet is not traced. */
  readonly inRequest?: <T>(header: (name: string) => string | undefined, handle: () => T) => T
}

const key = Symbol.for('gamekeeper.internals')

/** Returns properties to spread into a fleet. */
export function withInternals(internals: FleetInternals): object {
  return { [key]: internals }
}

/** Returns undefined if `fleet` is another implementation of `Fleet`. */
export function internalsOf(fleet: object): FleetInternals | undefined {
  const internals: unknown = Reflect.get(fleet, key)
  return isInternals(internals) ? internals : undefined
}

function isInternals(value: unknown): value is FleetInternals {
  return typeof value === 'object' && value !== null && 'emit' in value && 'log' in value
}
