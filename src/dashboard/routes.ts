/** The dashboard with the HTTP APIs that its page calls, for a host app that mounts both under one path. */
import { checkFleet, checkOptions } from '../contracts/option-checks.js'
import {
  type AllocatingFleet,
  allocatingMembers,
  allocationGroups,
  allocationOptionTypes,
  type AllocationRoutesOptions,
  routesOptions,
} from '../http/api/allocation.js'
import {
  type ManagedFleet,
  managedMembers,
  managementGroup,
  type ManagementOptions,
  managementOptionTypes,
} from '../http/api/management.js'
import { createRoutes, type Routes } from '../http/route-binding.js'
import { dashboardPage } from './page-group.js'

/** The page reads gamekeeper's own format, so there is no `compat`. */
export type DashboardRoutesOptions = Omit<AllocationRoutesOptions & ManagementOptions, 'compat'>

const { compat: _allocation, ...allocationTypes } = allocationOptionTypes
const { compat: _management, ...managementTypes } = managementOptionTypes

/**
 * The routes of `fleetRoutes`, and at their root the dashboard: `app.use('/fleet', dashboardRoutes(fleet).nodeHandler)`
 * serves it at `/fleet/`. The page itself has no data and needs no authorization; the APIs that it calls do, as in
 * `fleetRoutes`.
 */
export function dashboardRoutes(fleet: AllocatingFleet & ManagedFleet, options: DashboardRoutesOptions = {}): Routes {
  checkFleet('dashboardRoutes', fleet, [...allocatingMembers, ...managedMembers])
  checkOptions('dashboardRoutes', options, { ...allocationTypes, ...managementTypes })
  return createRoutes(
    (closing) => [
      ...allocationGroups(fleet, options, closing),
      managementGroup(fleet, options, closing),
      dashboardPage().group(options),
    ],
    routesOptions(fleet, options),
  )
}
