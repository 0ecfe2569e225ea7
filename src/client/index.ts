/** Client of a remote fleet over HTTP, for Node, browsers and edge runtimes. Needs only `fetch`. */
export {
  type DetailsOf,
  type ErrorCode,
  errorCodes,
  type ErrorDetails,
  FleetError,
  type NoRoomDetails,
  type ShortageDetails,
} from '../contracts/errors.js'
export type { EventsDropped, FleetEvent, ReadEventsOptions } from '../contracts/events.js'
export { defineBuild } from '../contracts/fleet.js'
export type {
  AllocateManyOptions,
  AllocateOptions,
  AppliedBuild,
  BuildUpdate,
  FleetHealth,
  FleetProblem,
  FleetStats,
  GameServerBuildInput,
  MaintenanceResult,
  MaintenanceTarget,
  ReserveOptions,
  ServerFilter,
  ServerHistory,
  ServerUsage,
} from '../contracts/fleet.js'
export type { DemandDay, DemandRecording, Durations } from '../rules/demand/demand-day.js'
export type { ActivityCrash, ActivityMinute, FleetActivity } from '../contracts/observer.js'
export type {
  Allocation,
  BatchResult,
  EndedGameSession,
  EndedOptions,
  GameSession,
  GameSessionBody,
  JoinOptions,
  JoinRequest,
  ReserveSeatsOptions,
  Sessions,
  SessionsWithRoom,
  SessionTarget,
} from '../contracts/sessions.js'
export type { Seats } from '../rules/lifecycle/server-sessions.js'
export type { AllOptions, CallOptions, Page, PageOptions } from '../contracts/call-options.js'
export type { IsolationStatus, LogsOptions } from '../contracts/backend.js'
export type { DrainOptions, DrainResult } from '../contracts/options.js'
export type {
  AllocationInput as AllocationRequest,
  AllocationOrder,
  CounterCondition,
  LabelExpression,
  ListCondition,
  ServerSelector,
} from '../rules/model/allocation-request.js'
export type { ApplyResult, BuildSpec, RefLike } from '../rules/model/resources.js'
export type { BuildSpecInput, RunPort, RunSpec } from '../rules/model/resources.js'
export type {
  AllocatedPort,
  BuildMismatch,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'
export { type FleetClient, fleetClient, type FleetClientOptions } from './fleet-client.js'
