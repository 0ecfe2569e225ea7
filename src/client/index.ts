/** Client of a remote fleet over HTTP, for Node, browsers and edge runtimes. Needs only `fetch`. */
export { type ErrorCode, errorCodes, FleetError } from '../contracts/errors.js'
export type { EventsDropped, FleetEvent, ReadEventsOptions } from '../contracts/events.js'
export type { AllocateOptions, BuildUpdate, GameServerBuildInput } from '../contracts/fleet.js'
export type { CallOptions } from '../contracts/call-options.js'
export type { AllocationRequest, BuildSpec, RefLike } from '../rules/model/resources.js'
export type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'
export { type FleetClient, fleetClient, type FleetClientOptions } from './fleet-client.js'
