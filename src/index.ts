/** The public surface of gamekeeper. */
export type {
  AgentPlace,
  Backend,
  BackendCapabilities,
  BackendListener,
  BackendOptions,
  DefaultStore,
  DestroyOptions,
  Instance,
  InstanceSpec,
  KnownInstance,
  LogsOptions,
  PrepareOptions,
} from './backend.js'
export { type Clock, systemClock } from './clock.js'
export { alwaysLeader, type ElectionListener, type Elector } from './elector.js'
export { type ErrorCode, errorCodes, FleetError } from './errors.js'
export type { EventListener, EventOf, EventsDropped, FleetEvent, FleetEventType, ReadEventsOptions } from './events.js'
export { createFleet } from './create-fleet.js'
export type * from './fleet.js'
export type { BackendOperation, CallOutcome, FleetObserver, StoreCollection, StoreOperation } from './observer.js'
export type { Logger } from './logger.js'
export {
  type AgentOptions,
  type CallOptions,
  defaultLimits,
  type Drained,
  type DrainOptions,
  type FleetLimits,
  type FleetOptions,
} from './options.js'
export type { Heartbeat, HeartbeatAnswer } from './rules/heartbeat.js'
export type * from './rules/resources.js'
export type { PortRange } from './rules/ports.js'
export type { TemplateSupport } from './rules/template.js'
export type { Allocation, GameServer, GameServerBuild, GameServerBuildDetail, GameServerDetail } from './rules/wire.js'
export type { Collection, Store, StoreOptions, Versioned } from './store.js'
export { fileStore } from './stores/file.js'
export { memoryStore } from './stores/memory.js'
