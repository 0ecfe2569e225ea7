/** The allocation and management APIs together, for a host app that mounts both under one path. */
import { corsOf } from '../access/cors.js'
import { createRoutes, type Routes } from '../core/routes.js'
import { type AllocatingFleet, allocationGroup, type AllocationRoutesOptions, maxWaitMsOf } from './allocation.js'
import { type ManagedFleet, managementGroup, type ManagementOptions } from './management.js'

export interface FleetRoutesOptions extends AllocationRoutesOptions, ManagementOptions {}

/** The routes of `allocationRoutes` and `managementRoutes`, with a single OpenAPI document. */
export function fleetRoutes(fleet: AllocatingFleet & ManagedFleet, options: FleetRoutesOptions = {}): Routes {
  const closing = new AbortController()
  const groups = [allocationGroup(fleet, options, closing.signal), managementGroup(fleet, options, closing.signal)]
  const { compat } = options
  return createRoutes(groups, { closing, cors: corsOf(options), compat, maxWaitMs: maxWaitMsOf(fleet) })
}
