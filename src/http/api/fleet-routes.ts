/** All routes of a fleet in one app, for a host that mounts them at one place. */
import type { Hono } from 'hono'
import { allocationPart, type AllocatingFleet, type AllocationRoutesOptions } from './allocation.js'
import { corsOf } from '../access/cors.js'
import { type ManagedFleet, managementPart, type ManagementOptions } from './management.js'
import { closer, routes } from '../core/routing.js'

export interface FleetRoutesOptions extends AllocationRoutesOptions, ManagementOptions {}

/** What `allocationRoutes` and `managementRoutes` serve, in one app with one document. */
export function fleetRoutes(fleet: AllocatingFleet & ManagedFleet, options: FleetRoutesOptions = {}): Hono {
  const closing = closer(options.closing)
  const parts = [allocationPart(fleet, options, closing.signal), managementPart(fleet, options, closing.signal)]
  return routes(parts, { closing, cors: corsOf(options), compat: options.compat })
}
