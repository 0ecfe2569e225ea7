/** Serves the allocation API and the management API, each on its own port. */
import type { ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import { FleetError } from '../contracts/errors.js'
import type { Fleet } from '../contracts/fleet.js'
import { type Logger, loggerOf } from '../contracts/logger.js'
import {
  aBoolean,
  aFunction,
  aLogger,
  anObject,
  aNumber,
  aString,
  checkOptions,
  type OptionTypes,
  required,
  strings,
  withMethods,
} from '../contracts/option-checks.js'
import { internalsOf } from '../fleet/internals.js'
import {
  closeServer,
  defaultHttpServerLimits,
  httpServer,
  type HttpServerLimits,
  isLoopback,
  listen,
  type Listening,
} from '../platform/http-server.js'
import { openTlsFiles, sharedKeyServer, type TlsOptions } from '../platform/tls.js'
import { shown } from '../rules/validation/problem.js'
import { allowedHosts, type CorsOptions } from './access/browsers.js'
import { type Authorize, defaultMaxInFlight, type GuardOptions, type RateLimit } from './access/guard.js'
import { allocationGroups, maxWaitMsOf, routesOptions, sessionIDsType } from './api/allocation.js'
import type { EventStreamOptions } from './api/event-stream.js'
import { managementGroup } from './api/management.js'
import { type MetricsSource, metricsType, observationGroup } from './api/observation.js'
import { defaultMaxBodyBytes } from './core/bodies.js'
import { closeConnection } from './core/node.js'
import { forwardedGroups, withHeartbeats } from './forwarding.js'
import { type Compat, compatType, type SessionIDs } from './openapi/operation-docs.js'
import { createRoutes, type RouteGroup, type Routes } from './route-binding.js'

const defaultAllocationPort = 5_000
const defaultManagementPort = 5_001
const defaultGrpcPort = 8_443

interface PortOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string
  /** 0 picks a free port. */
  readonly port: number
}

/** The dashboard as `serve` sees it, which does not depend on it: what `dashboardPage()` from `gamekeeper/dashboard` returns. */
export interface DashboardPage {
  /** @internal */
  readonly group: (options: GuardOptions) => RouteGroup
}

/** Options apply to both APIs unless stated otherwise. */
export interface ServeOptions extends CorsOptions {
  /**
   * Host names, besides `localhost` and IP addresses, that requests on loopback may use. Checked only if neither `authorize`
   * nor client certificates authenticate callers: the check keeps web pages in a browser on this machine from calling the
   * API. See `allowedHosts`.
   */
  readonly allowedHosts?: readonly string[]
  readonly fleet: Fleet
  /** Default port 5000. */
  readonly allocation?: ListenerOptions
  /** Default port 5001. */
  readonly management?: ListenerOptions
  /**
   * A listener of its own for `/healthz`, `/readyz` and `/metrics`, in plain HTTP and without authorization, for probes and
   * scrapers that have neither token nor certificate. The management API serves them too. Default: no such listener.
   */
  readonly health?: PortOptions
  /**
   * The listener for calls that the fleet's other hosts forward. Connections are encrypted, and only hosts that have the fleet's shared
   * key can connect. Requires the option `forwarding` of `createFleet`, which contains the listener's address as seen by the other
   * hosts. Default: no such listener.
   */
  readonly forwarding?: PortOptions
  /**
   * The listener for gRPC callers of Agones' allocator, with their client certificates if `tls.ca` is set. Requires `compat: 'agones'`.
   * Default: no such listener.
   */
  readonly grpc?: ListenerOptions
  /** Called before every operation, but not on the health listener. Default: allows every caller. */
  readonly authorize?: Authorize
  /** Called before every operation. Default: no limit. */
  readonly rateLimit?: RateLimit
  /**
   * Allows a `host` that other machines can reach although neither `authorize` nor client certificates authenticate callers, for
   * example because a proxy in front does. Default false.
   */
  readonly insecure?: boolean
  readonly limits?: Partial<ServeLimits>
  /** Answers clients that were written for another project. Default: gamekeeper's own format alone. */
  readonly compat?: Compat
  /** Which sessionIDs the allocation API accepts. Default: `any`, or `guid` with `compat: 'thundernetes'`. */
  readonly sessionIDs?: SessionIDs
  /** Options for `GET /api/v1/events` in the management API. */
  readonly events?: EventStreamOptions
  /**
   * Served at `/metrics` in the management API: for example `fleetMetrics(fleet)` from `gamekeeper/metrics`. Default:
   * `/metrics` returns 404.
   */
  readonly metrics?: MetricsSource
  /**
   * Served at `/` in the management API: `dashboardPage()` from `gamekeeper/dashboard`. The management API then also answers
   * allocations, which the page offers. Not served with `compat: 'thundernetes'`, whose formats the page does not read. Default: none.
   */
  readonly dashboard?: DashboardPage
  /** Default: warnings and errors go to stderr. false: none. */
  readonly logger?: Logger | false
}

export interface Served {
  /** `http://127.0.0.1:5000`, or with TLS `https://127.0.0.1:5000` */
  readonly allocationUrl: string
  /** `http://127.0.0.1:5001` */
  readonly managementUrl: string
  /** `http://127.0.0.1:8080`. Undefined without the option `health`. */
  readonly healthUrl: string | undefined
  /** `https://127.0.0.1:5002`. Undefined without the option `forwarding`. */
  readonly forwardingUrl: string | undefined
  /** `http://127.0.0.1:8443`. Undefined without the option `grpc`. */
  readonly grpcUrl: string | undefined
  /** `host:port` at which game servers reach the fleet's agent. Undefined if the fleet runs no agent. */
  readonly agentAddress: string | undefined
  /**
   * Gives up the lead for good, if this host has it. With forwarding, calls are then answered by the next leader until `close`, so that a
   * load balancer has time to leave this host out; without, they are refused.
   */
  handOver(): Promise<void>
  /**
   * Stops accepting connections and answers callers that wait for a server with 503. Other requests in flight may finish;
   * those that take longer than 5 s are disconnected. Does not close the fleet, which belongs to the caller.
   */
  close(): Promise<void>
}

/**
 * Starts all listeners or none. Throws `port-in-use`, or `invalid` if it cannot listen on the host or port, a limit is
 * bad, or the TLS files are unusable.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  checkServeOptions(options)
  const { fleet } = options
  const logger = loggerOf(options.logger)
  const { link, handOver, maxWaitMs } = internalsOf(fleet) ?? {}
  const limits = resolveServeLimits(options.limits, maxWaitMs)
  const listeners: Listener[] = []
  const close = () => Promise.all(listeners.map((listener) => listener.close()))
  const openGrpc = async (listener: ListenerOptions) => {
    const opened = await openGrpcListener(allocationOnly(options, limits, 'grpc'), {
      options,
      listener,
      limits,
      logger,
    })
    listeners.push(opened)
    return opened.url
  }
  const open = async (option: ListenerName, routes: Routes, defaultPort: number) => {
    const listener = await openListener(routes, {
      limits,
      logger,
      option,
      defaultPort,
      listener: options[option] ?? {},
      ...(option === 'forwarding' && link && { sharedKey: () => link.key() }),
    })
    listeners.push(listener)
    return listener.url
  }
  try {
    const allocationUrl = await open('allocation', allocationOnly(options, limits), defaultAllocationPort)
    const managementUrl = await open('management', managementOnly(options, limits), defaultManagementPort)
    const peers = options.forwarding
    const forwardingUrl = peers && (await open('forwarding', forwardedOnly(options, limits), peers.port))
    const healthUrl = options.health && (await open('health', healthOnly(options), options.health.port))
    const grpcUrl = options.grpc && (await openGrpc(options.grpc))
    let closed: Promise<unknown> | undefined
    return {
      allocationUrl,
      managementUrl,
      healthUrl,
      forwardingUrl,
      grpcUrl,
      agentAddress: fleet.agentAddress,
      async handOver() {
        for (const listener of listeners) listener.leave()
        await handOver?.()
      },
      async close() {
        closed ??= close()
        await closed
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

const optionTypes: OptionTypes<ServeOptions> = {
  fleet: required(withMethods('a fleet from createFleet()', ['allocate'])),
  allocation: anObject,
  management: anObject,
  health: anObject,
  forwarding: anObject,
  grpc: anObject,
  insecure: aBoolean,
  allowedHosts: strings,
  allowedOrigins: strings,
  authorize: aFunction,
  rateLimit: aFunction,
  limits: anObject,
  compat: compatType,
  sessionIDs: sessionIDsType,
  events: anObject,
  metrics: metricsType,
  dashboard: withMethods('dashboardPage()', ['group']),
  logger: aLogger,
}
const listenerTypes: OptionTypes<ListenerOptions> = { host: aString, port: aNumber, tls: anObject }
const portTypes: OptionTypes<PortOptions> = { host: aString, port: required(aNumber) }

function checkServeOptions(options: ServeOptions): void {
  checkOptions('serve', options, optionTypes)
  const { authorize, forwarding, health, insecure = false } = options
  if (health) checkOptions('serve: health', health, portTypes)
  if (forwarding) checkOptions('serve: forwarding', forwarding, portTypes)
  if (forwarding && !internalsOf(options.fleet)?.link) {
    throw new FleetError('invalid', 'serve: forwarding needs the option forwarding of createFleet')
  }
  if (options.grpc && options.compat !== 'agones') {
    throw new FleetError('invalid', "serve: grpc needs compat: 'agones'")
  }
  for (const name of listenerNames) {
    const listener = options[name] ?? {}
    checkOptions(`serve: ${name}`, listener, listenerTypes)
    const { host = defaultHost, tls } = listener
    if (authorize || insecure || isLoopback(host) || requiresCertificate(tls)) continue
    throw new FleetError(
      'invalid',
      `serve: ${name}.host ${host} would let anyone who can reach this machine allocate game servers and end matches: set authorize, or tls with ca for client certificates, or insecure: true if a proxy in front authenticates callers`,
    )
  }
}

const listenerNames = ['allocation', 'management', 'grpc'] as const
type ListenerName = Exclude<(typeof listenerNames)[number], 'grpc'> | 'health' | 'forwarding'

function allocationOnly(
  options: ServeOptions,
  limits: ServeLimits,
  name: 'allocation' | 'grpc' = 'allocation',
): Routes {
  const { fleet } = options
  const own = routeOptions(options, name, limits)
  return createRoutes((closing) => allocationGroups(fleet, own, closing), routesOptions(fleet, own))
}

function managementOnly(options: ServeOptions, limits: ServeLimits): Routes {
  const { fleet, compat, dashboard } = options
  const own = routeOptions(options, 'management', limits)
  return createRoutes(
    (closing) => {
      const groups = [managementGroup(fleet, own, closing), observationGroup(fleet, own)]
      if (!dashboard || compat === 'thundernetes') return groups
      return [...groups, dashboard.group(own), ...allocationGroups(fleet, own, closing)]
    },
    routesOptions(fleet, own),
  )
}

/** What other hosts forward. They have applied the rate limit and authorized the caller. */
function forwardedOnly(options: ServeOptions, limits: ServeLimits): Routes {
  const { fleet } = options
  const { allowedOrigins: _, ...own } = routeOptions(options, 'management', limits)
  const routes = createRoutes(
    (closing) =>
      forwardedGroups(fleet, [managementGroup(fleet, own, closing), ...allocationGroups(fleet, own, closing)]),
    routesOptions(fleet, own),
  )
  return withHeartbeats(routes, fleet)
}

/** Only who can reach its address may ask, so it needs no limit of requests per client either. */
function healthOnly({ fleet, metrics, logger }: ServeOptions): Routes {
  const own = { ...(metrics && { metrics }), ...(logger !== undefined && { logger }) }
  return createRoutes(() => [observationGroup(fleet, own)], {})
}

function routeOptions(options: ServeOptions, name: (typeof listenerNames)[number], limits: ServeLimits) {
  const { rateLimit, compat, sessionIDs, allowedOrigins, events, metrics, logger } = options
  return {
    ...limits,
    ...(logger !== undefined && { logger }),
    ...(rateLimit && { rateLimit }),
    ...(compat && { compat }),
    ...(sessionIDs && { sessionIDs }),
    ...(allowedOrigins && { allowedOrigins }),
    ...(events && { events }),
    ...(metrics && { metrics }),
    ...authorizeOption(options, options[name]),
  }
}

/**
 * Checks host names only on loopback without client certificates. In other cases the operator has already decided who can
 * reach the listener, so every host name is allowed.
 */
function authorizeOption(
  { authorize, allowedHosts: names }: ServeOptions,
  { host = defaultHost, tls }: ListenerOptions = {},
): Pick<GuardOptions, 'authorize'> {
  if (authorize) return { authorize }
  return requiresCertificate(tls) || !isLoopback(host) ? {} : { authorize: allowedHosts(names) }
}

function requiresCertificate(tls: TlsOptions | undefined): boolean {
  return tls?.ca !== undefined && tls.requestCert !== false
}

// Opens and closes one HTTP listener of `serve`. The limits of listeners are listed in docs/reference/http-api.md.

const defaultHost = '127.0.0.1'

export interface ListenerOptions {
  /** Default `127.0.0.1`, because callers are not authenticated unless `authorize` or `tls` is set. */
  readonly host?: string
  /** 0 picks a free port. */
  readonly port?: number
  /** Default: plain HTTP. */
  readonly tls?: TlsOptions
}

interface Listener {
  readonly url: string
  /** Closes each connection after its next response, so that clients connect again, to another host. */
  leave(): void
  close(): Promise<void>
}

interface OpenOptions {
  /** Used in messages. */
  readonly option: string
  readonly listener: ListenerOptions
  readonly defaultPort: number
  readonly limits: ServeLimits
  readonly logger: Logger
  /** Admits only hosts that have this key. */
  readonly sharedKey?: () => Uint8Array | undefined
}

async function openListener(routes: Routes, options: OpenOptions): Promise<Listener> {
  const { option, listener, limits, logger, sharedKey } = options
  const { host = defaultHost, port = options.defaultPort, tls } = listener
  const files = tls && (await openTlsFiles(tls, `${option}.tls`, logger))
  const secured = sharedKey ? { serverOptions: sharedKeyServer(sharedKey) } : files
  const server = httpServer(routes.nodeHandler, limits, secured)
  const address = await listen(server, { host, port, option, logger })
  const unfollow = files && server instanceof TlsServer ? files.follow(server) : () => {}
  return {
    url: urlOf(secured === undefined ? 'http' : 'https', address),
    leave() {
      server.prependListener('request', (_, response: ServerResponse) => closeConnection(response))
    },
    close() {
      routes.close()
      unfollow()
      return closeServer(server)
    },
  }
}

interface OpenGrpcOptions extends Pick<OpenOptions, 'listener' | 'limits' | 'logger'> {
  readonly options: ServeOptions
}

async function openGrpcListener(
  routes: Routes,
  { options, listener, limits, logger }: OpenGrpcOptions,
): Promise<Listener> {
  const { host = defaultHost, port = defaultGrpcPort, tls } = listener
  const files = tls && (await openTlsFiles(tls, 'grpc.tls', logger))
  // Only who serves gRPC loads HTTP/2.
  const { grpcServer } = await import('./grpc/grpc-server.js')
  const { server, leave, close } = grpcServer({
    routes,
    limits,
    maxWaitMs: maxWaitMsOf(options.fleet),
    isReady: async () => (await options.fleet.health()).ready,
    tls: files,
  })
  const address = await listen(server, { host, port, option: 'grpc', logger })
  const unfollow = files && server instanceof TlsServer ? files.follow(server) : () => {}
  return {
    url: urlOf(files === undefined ? 'http' : 'https', address),
    leave,
    close() {
      routes.close()
      unfollow()
      return close()
    },
  }
}

/** The URL at which this machine can reach the listener. */
function urlOf(scheme: 'http' | 'https', { host, port }: Listening): string {
  if (host === '0.0.0.0') return `${scheme}://127.0.0.1:${port}`
  if (host === '::') return `${scheme}://[::1]:${port}`
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

export interface ServeLimits extends HttpServerLimits {
  /** Larger bodies get 413. */
  readonly maxBodyBytes: number
  /**
   * Maximum number of requests that each API processes at once; further requests get 503. Callers that wait for a server do
   * not count.
   */
  readonly maxInFlight: number
}

export const defaultServeLimits: ServeLimits = Object.freeze({
  ...defaultHttpServerLimits,
  maxBodyBytes: defaultMaxBodyBytes,
  maxInFlight: defaultMaxInFlight,
})

/**
 * While a caller waits for a server, its connection may be silent for up to `maxWaitMs`. The stall timeout is longer than
 * that by at least this margin.
 */
const stallMarginMs = 60_000

/** Throws `invalid`, naming the limit, if a limit is unknown or its value is not an integer ≥ 1. */
function resolveServeLimits(overrides: Partial<ServeLimits> = {}, maxWaitMs = 0): ServeLimits {
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(defaultServeLimits, name)) {
      const names = Object.keys(defaultServeLimits).join(', ')
      throw new FleetError('invalid', `limits.${name} is not a limit of serve; known are ${names}`)
    }
    if (!Number.isInteger(value) || value < 1) {
      throw new FleetError('invalid', `limits.${name} must be an integer ≥ 1, but is ${shown(value)}`)
    }
  }
  const stallTimeoutMs = Math.max(defaultServeLimits.stallTimeoutMs, maxWaitMs + stallMarginMs)
  return Object.freeze({ ...defaultServeLimits, stallTimeoutMs, ...overrides })
}
