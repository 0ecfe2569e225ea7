/** The HTTP surfaces: routes to mount into a host's own app, and `serve` for those who have none. */
export { agentListener, type AgentListenerOptions, type HeartbeatTarget } from '../agent/index.js'
export { allocationRoutes, type AllocatingFleet, type AllocationRoutesOptions } from './allocation.js'
export { type ManagedFleet, type ManagementOptions, managementRoutes } from './management.js'
export { nodeHandler } from './node-handler.js'
export { type ListenerOptions, serve, type Served, type ServeOptions } from './serve.js'
