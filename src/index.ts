/** The public surface of gamekeeper. */
export { type ClientConfig, defineConfig, type GamekeeperConfig } from './config/define-config.js'
export type {
  AgentEndpoint,
  AgentEndpointOptions,
  Backend,
  BackendCapabilities,
  BackendListener,
  DefaultStore,
  DestroyOptions,
  Instance,
  InstanceSpec,
  IsolationStatus,
  LogsOptions,
  PrepareOptions,
  RecordedInstance,
} from './contracts/backend.js'
export type { AuditedAction, AuditedCallOptions, AuditedOutcome, Caller, CallerKind } from './contracts/call-options.js'
export type { AllOptions, CallOptions, Page, PageOptions } from './contracts/call-options.js'
export { type Clock, systemClock } from './contracts/clock.js'
export { alwaysLeader, type ElectionListener, type Elector, type ForwardingOptions } from './contracts/elector.js'
export {
  type ErrorCode,
  errorCodes,
  type DetailsOf,
  type ErrorDetails,
  FleetError,
  type FleetErrorOptions,
  type NoRoomDetails,
  type ShortageDetails,
} from './contracts/errors.js'
export type {
  EventListener,
  EventListeners,
  EventOf,
  EventReader,
  EventsDropped,
  FleetEvent,
  FleetEventType,
  ReadEventsOptions,
} from './contracts/events.js'
export { defineBuild } from './contracts/fleet.js'
export type * from './contracts/fleet.js'
export type { Logger } from './contracts/logger.js'
export type {
  ActivityCrash,
  ActivityMinute,
  BackendOperation,
  CallOutcome,
  FleetActivity,
  FleetObserver,
  ForwardedKind,
  ForwardedOutcome,
  StoreCollection,
  StoreOperation,
} from './contracts/observer.js'
export {
  type AgentOptions,
  type BudgetOptions,
  defaultLimits,
  type DrainOptions,
  type DrainResult,
  type FleetLimits,
  type FleetOptions,
} from './contracts/options.js'
export type {
  Allocation,
  BatchResult,
  EndedGameSession,
  EndedOptions,
  GameSession,
  GameSessionBody,
  GrantedAllocation,
  JoinOptions,
  JoinRequest,
  OwnAllocation,
  ReserveSeatsOptions,
  Sessions,
  SessionsWithRoom,
  SessionTarget,
} from './contracts/sessions.js'
export type { DemandDay, DemandMinute, DemandRecord, DemandRecording, Durations } from './rules/demand/demand-day.js'
export type { ScalingCounts, ScalingDemand, ScalingFunction, ScalingFunctionInput } from './contracts/scaling-demand.js'
export type { Seats } from './rules/lifecycle/server-sessions.js'
export type {
  BufferPolicy,
  CronWindow,
  Decider,
  ForecastPolicy,
  ReplaceWindow,
  ScaleDown,
  ScalingSpec,
  SchedulePolicy,
  ScheduleWindow,
  WebhookPolicy,
} from './rules/scaling/policies.js'
export type { Collection, DamagedRecord, RecordKind, Store, StoreCheck, Versioned } from './contracts/store.js'
export { createFleet } from './fleet/create-fleet.js'
export { fleetOnce } from './fleet/create-fleet.js'
export type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from './rules/game/heartbeat.js'
export {
  type GameSpec,
  type NetworkProbe,
  type PlayersProbe,
  queryProtocols,
  type QueryProtocol,
  type ReadinessProbe,
} from './rules/game/probes.js'
export type { PortRange } from './rules/model/ports.js'
export type {
  AllocationInput as AllocationRequest,
  AllocationOrder,
  CounterCondition,
  LabelExpression,
  ListCondition,
  OwnAllocationRequest,
  ServerSelector,
} from './rules/model/allocation-request.js'
export {
  type ApplyResult,
  type Build,
  type BuildBudget,
  type BuildSpec,
  type Condition,
  type ConditionType,
  conditionTypes,
  type Detail,
  type Ending,
  type EndingReason,
  endingReasons,
  type Eviction,
  type GameSdk,
  gameSdks,
  evictions,
  type Health,
  type HealthLimits,
  healths,
  type Maintenance,
  type MaintenanceSource,
  maintenanceSources,
  type PodTemplateSpec,
  type PortPair,
  type Ref,
  type RefLike,
  type Server,
  type ServerState,
  serverStates,
  type Session,
  type TerminationOrder,
  terminationOrders,
} from './rules/model/resources.js'
export type { BuildSpecInput, RunPort, RunSpec } from './rules/model/resources.js'
export type {
  Counter,
  CounterUpdate,
  ListUpdate,
  ServerData,
  ServerDataUpdate,
  ValueList,
} from './rules/lifecycle/server-data.js'
export type {
  AllocatedPort,
  AllocationBody,
  AllocationDetails,
  BuildMismatch,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from './rules/model/wire.js'
export type { TemplateSupport } from './rules/validation/pod-template.js'
export { fileStore } from './stores/file.js'
export { readFileStore, type StoreContents } from './stores/read.js'
export { memoryStore } from './stores/memory.js'
