/** The allocation and management APIs together, for a host app that mounts both under one path. */
import { checkFleet, checkOptions } from '../../contracts/option-checks.js'
import { corsOf } from '../access/cors.js'
import { createRoutes, type Routes } from '../routes/routes.js'
import {
  type AllocatingFleet,
  allocatingMembers,
  allocationGroup,
  allocationOptionTypes,
  type AllocationRoutesOptions,
  descriptionOf,
} from './allocation.js'
import {
  managedMembers,
  type ManagedFleet,
  managementGroup,
  type ManagementOptions,
  managementOptionTypes,
} from './management.js'

export interface FleetRoutesOptions extends AllocationRoutesOptions, ManagementOptions {}

/** The routes of `allocationRoutes` and `managementRoutes`, with a single OpenAPI document. */
export function fleetRoutes(fleet: AllocatingFleet & ManagedFleet, options: FleetRoutesOptions = {}): Routes {
  checkFleet('fleetRoutes', fleet, [...allocatingMembers, ...managedMembers])
  checkOptions('fleetRoutes', options, { ...allocationOptionTypes, ...managementOptionTypes })
  const closing = new AbortController()
  const groups = [allocationGroup(fleet, options, closing.signal), managementGroup(fleet, options, closing.signal)]
  return createRoutes(groups, {
    closing,
    cors: corsOf(options),
    prefix: options.prefix,
    ...descriptionOf(fleet, options),
  })
}
