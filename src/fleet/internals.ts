/**
 * What other parts of this package may use of a fleet beyond its facade. Absent from other implementations of `Fleet`, such as
 * test doubles. The key is shared by the ESM and the CommonJS copy of this file.
 */
import type { FleetEmitter, LoggedEvents } from '../contracts/events.js'

export interface FleetInternals {
  /** Emits an event of a component outside the fleet, such as a webhook, as one of the fleet's. */
  readonly emit: FleetEmitter['emit']
  readonly log: LoggedEvents
  /** `limits.maxWaitMs`. */
  readonly maxWaitMs: number
}

const key = Symbol.for('gamekeeper.internals')

/** Returns properties to spread into a fleet. */
export function withInternals(internals: FleetInternals): object {
  return { [key]: internals }
}

/** Undefined for a fleet of another implementation. */
export function internalsOf(fleet: object): FleetInternals | undefined {
  const internals: unknown = Reflect.get(fleet, key)
  return isInternals(internals) ? internals : undefined
}

function isInternals(value: unknown): value is FleetInternals {
  return typeof value === 'object' && value !== null && 'emit' in value && 'log' in value
}
