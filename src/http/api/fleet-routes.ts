/** The allocation and management APIs together, for a host app that mounts both under one path. */
import { checkFleet, checkOptions } from '../../contracts/option-checks.js'
import { createRoutes, type Routes } from '../routes/routes.js'
import {
  type AllocatingFleet,
  allocatingMembers,
  allocationGroup,
  allocationOptionTypes,
  type AllocationRoutesOptions,
  routesOptions,
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
  return createRoutes(
    (closing) => [allocationGroup(fleet, options, closing), managementGroup(fleet, options, closing)],
    routesOptions(fleet, options),
  )
}
