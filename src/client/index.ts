/** A fleet that is elsewhere, over HTTP, for Node, browsers and edge runtimes: needs `fetch` and nothing else. */
export { type ErrorCode, errorCodes, FleetError } from '../errors.js'
export type { EventsDropped, FleetEvent, ReadEventsOptions } from '../events.js'
export type { AllocateOptions, BuildUpdate, GameServerBuildInput } from '../fleet.js'
export type { CallOptions } from '../options.js'
export type { AllocationRequest, BuildSpec, RefLike } from '../rules/resources.js'
export type { Allocation, GameServer, GameServerBuild, GameServerBuildDetail, GameServerDetail } from '../rules/wire.js'
export { type FleetClient, fleetClient, type FleetClientOptions } from './fleet-client.js'
