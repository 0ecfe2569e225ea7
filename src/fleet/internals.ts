/**
 * What other parts of this package may do with a fleet beyond its facade. A fleet that somebody has made up has none of
 * it. The key is one that the ESM and the CommonJS copy of this file share.
 */
import type { FleetEmitter, LoggedEvents } from '../contracts/events.js'

export interface FleetInternals {
  /** Tells an event of the fleet's surroundings as one of its own. */
  readonly emit: FleetEmitter['emit']
  readonly log: LoggedEvents
  /** `limits.maxWaitMs`. */
  readonly maxWaitMs: number
}

const key = Symbol.for('gamekeeper.inside')

/** To be spread into a fleet. */
export function withInternals(inside: FleetInternals): object {
  return { [key]: inside }
}

export function internalsOf(fleet: object): FleetInternals | undefined {
  const inside: unknown = Reflect.get(fleet, key)
  return isInside(inside) ? inside : undefined
}

function isInside(value: unknown): value is FleetInternals {
  return typeof value === 'object' && value !== null && 'emit' in value && 'log' in value
}
