/** The HTTP APIs: routes to mount in a host app, and `serve`, which runs them on their own ports. */
export {
  agentListener,
  type AgentListenerOptions,
  type AgentOperation,
  type ForwardHeartbeat,
  type HeartbeatTarget,
} from '../agent/index.js'
export { allocationRoutes, type AllocatingFleet, type AllocationRoutesOptions } from './api/allocation.js'
export { bearerTokens, type BearerToken } from './access/bearer-tokens.js'
export type { AnsweredAllocation } from './api/compat.js'
export type { CorsOptions } from './access/browsers.js'
export type { EventStreamOptions, ReadableFleet, StreamedEvent } from './api/event-stream.js'
export type { ApiRequest, ClientCertificate, Identity } from './core/exchange.js'
export type { HttpResponse } from './core/responses.js'
export { fastifyPlugin, type FastifyHost } from './mounts.js'
export type { Authorize, GuardOptions, RateLimit, Verdict } from './access/guard.js'
export type { TlsOptions } from '../platform/tls.js'
export { defaultServeLimits, type ServeLimits } from './serve.js'
export { allowedHosts } from './access/browsers.js'
export { koaMiddleware, type KoaContext, type KoaOptions } from './mounts.js'
export {
  fleetRoutes,
  type FleetRoutesOptions,
  type ManagedFleet,
  type ManagementOptions,
  managementRoutes,
} from './api/management.js'
export type { NodeHandler } from './core/node.js'
export { openApiDocument, type OpenApiDocument, type OpenApiOptions } from './openapi/document.js'
export type { Compat, SessionIDs } from './openapi/operation-docs.js'
export {
  type Method,
  type Operation,
  type OperationName,
  type OperationRow,
  operations,
  type Role,
  roles,
  type Route,
} from './operations.js'
export { verifyWebhook, type VerifyOptions } from './webhooks.js'
export type { WebhookOptions } from './webhooks.js'
export { webhook, type Webhook } from './webhooks.js'
export {
  type MetricsSource,
  type ObservationOptions,
  observationRoutes,
  type ObservedFleet,
} from './api/observation.js'
export { perClientRateLimit, type PerClientRateLimitOptions } from './access/per-client-rate-limit.js'
export type { MatchedRequest, Routes } from './route-binding.js'
export { type DashboardPage, type ListenerOptions, serve, type Served, type ServeOptions } from './serve.js'
