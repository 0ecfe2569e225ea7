/** The public surface of gamekeeper. */
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
  LogsOptions,
  PrepareOptions,
  RecordedInstance,
} from './contracts/backend.js'
export type { CallOptions } from './contracts/call-options.js'
export { type Clock, systemClock } from './contracts/clock.js'
export { alwaysLeader, type ElectionListener, type Elector } from './contracts/elector.js'
export { type ErrorCode, errorCodes, FleetError } from './contracts/errors.js'
export type {
  EventListener,
  EventOf,
  EventsDropped,
  FleetEvent,
  FleetEventType,
  ReadEventsOptions,
} from './contracts/events.js'
export type * from './contracts/fleet.js'
export type { Logger } from './contracts/logger.js'
export type {
  BackendOperation,
  CallOutcome,
  FleetObserver,
  StoreCollection,
  StoreOperation,
} from './contracts/observer.js'
export {
  type AgentOptions,
  defaultLimits,
  type DrainOptions,
  type DrainResult,
  type FleetLimits,
  type FleetOptions,
} from './contracts/options.js'
export type { Collection, Store, Versioned } from './contracts/store.js'
export { createFleet } from './fleet/create-fleet.js'
export type { Heartbeat, HeartbeatAnswer } from './rules/game/heartbeat.js'
export type { PortRange } from './rules/model/ports.js'
export type * from './rules/model/resources.js'
export type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from './rules/model/wire.js'
export type { TemplateSupport } from './rules/validation/template.js'
export { fileStore } from './stores/file.js'
export { memoryStore } from './stores/memory.js'
