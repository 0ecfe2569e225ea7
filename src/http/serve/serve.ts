/** Serves the allocation API and the management API, each on its own port. */
import { Server as TlsServer } from 'node:https'
import type { Fleet } from '../../contracts/fleet.js'
import { type Logger, silentLogger } from '../../contracts/logger.js'
import { internalsOf } from '../../fleet/internals.js'
import { closeServer, httpServer, listen, type Listening } from '../../platform/http-server.js'
import { isLoopback } from '../../platform/own-address.js'
import { openTlsFiles, type TlsOptions } from '../../platform/tls-files.js'
import { allowedHosts } from '../access/allowed-hosts.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import type { Authorize, GuardOptions, RateLimit } from '../access/guard.js'
import { allocationRoutes } from '../api/allocation.js'
import type { Compat } from '../api/compat.js'
import type { EventStreamOptions } from '../api/event-stream.js'
import { managementGroup } from '../api/management.js'
import { type MetricsSource, observationGroup } from '../api/observation.js'
import { createRoutes, type Routes } from '../core/routes.js'
import { resolveServeLimits, type ServeLimits } from './limits.js'

export const defaultAllocationPort = 5_000
export const defaultManagementPort = 5_001
const defaultHost = '127.0.0.1'

export interface ListenerOptions {
  /** Default `127.0.0.1`, because callers are not authenticated unless `authorize` or `tls` is set. */
  readonly host?: string
  /** 0 picks a free port. */
  readonly port?: number
  /** Default: plain HTTP. */
  readonly tls?: TlsOptions
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
  /** Called before every operation. Default: allows every caller. */
  readonly authorize?: Authorize
  /** Called before every operation. Default: no limit. */
  readonly rateLimit?: RateLimit
  readonly limits?: Partial<ServeLimits>
  /** Uses another project's JSON format in the management API. Default: gamekeeper's own format. */
  readonly compat?: Compat
  /** Options for `GET /api/v1/events` in the management API. */
  readonly events?: EventStreamOptions
  /**
   * Served at `/metrics` in the management API: for example `fleetMetrics(fleet)` from `gamekeeper/metrics`. Default:
   * `/metrics` returns 404.
   */
  readonly metrics?: MetricsSource
  /** Default: silent. */
  readonly logger?: Logger
}

export interface Served {
  /** `http://127.0.0.1:5000`, or with TLS `https://127.0.0.1:5000` */
  readonly allocationUrl: string
  /** `http://127.0.0.1:5001` */
  readonly managementUrl: string
  /** `host:port` at which game servers reach the fleet's agent. Undefined if the fleet runs no agent. */
  readonly agentAddress: string | undefined
  /**
   * Stops accepting connections and answers callers that wait for a server with 503. Other requests in flight may finish;
   * those that take longer than 5 s are disconnected. Does not close the fleet, which belongs to the caller.
   */
  close(): Promise<void>
}

/**
 * Starts both servers or neither. Throws `port-in-use`, or `invalid` if it cannot listen on the host or port, a limit is
 * bad, or the TLS files are unusable.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { fleet, compat, logger = silentLogger } = options
  const limits = resolveServeLimits(options.limits, internalsOf(fleet)?.maxWaitMs)
  const open = (option: ListenerName, routes: Routes, defaultPort: number) =>
    openListener(routes, { limits, logger, option, defaultPort, listener: options[option] ?? {} })

  const allocation = await open(
    'allocation',
    allocationRoutes(fleet, routeOptions(options, 'allocation', limits)),
    defaultAllocationPort,
  )
  let management: Listener
  try {
    const own = routeOptions(options, 'management', limits)
    const closing = new AbortController()
    const groups = [managementGroup(fleet, own, closing.signal), observationGroup(fleet, own)]
    const routes = createRoutes(groups, { closing, cors: corsOf(options), compat })
    management = await open('management', routes, defaultManagementPort)
  } catch (error) {
    await allocation.close()
    throw error
  }

  let closed: Promise<unknown> | undefined
  return {
    allocationUrl: allocation.url,
    managementUrl: management.url,
    agentAddress: fleet.agentAddress,
    async close() {
      closed ??= Promise.all([allocation.close(), management.close()])
      await closed
    },
  }
}

type ListenerName = 'allocation' | 'management'

function routeOptions(options: ServeOptions, name: ListenerName, limits: ServeLimits) {
  const { rateLimit, compat, allowedOrigins, events, metrics, logger } = options
  return {
    ...limits,
    ...(logger && { logger }),
    ...(rateLimit && { rateLimit }),
    ...(compat && { compat }),
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
  const requiresCertificate = tls?.ca !== undefined && tls.requestCert !== false
  return requiresCertificate || !isLoopback(host) ? {} : { authorize: allowedHosts(names) }
}

interface Listener {
  readonly url: string
  close(): Promise<void>
}

interface OpenOptions {
  readonly option: ListenerName
  readonly listener: ListenerOptions
  readonly defaultPort: number
  readonly limits: ServeLimits
  readonly logger: Logger
}

async function openListener(routes: Routes, options: OpenOptions): Promise<Listener> {
  const { option, listener, limits, logger } = options
  const { host = defaultHost, port = options.defaultPort, tls } = listener
  const files = tls && (await openTlsFiles(tls, `${option}.tls`, logger))
  const server = httpServer(routes.nodeHandler, limits, files)
  const address = await listen(server, { host, port, option, logger })
  const unfollow = files && server instanceof TlsServer ? files.follow(server) : () => {}
  return {
    url: urlOf(files === undefined ? 'http' : 'https', address),
    close() {
      routes.close()
      unfollow()
      return closeServer(server)
    },
  }
}

/** The URL at which this machine can reach the listener. */
function urlOf(scheme: 'http' | 'https', { host, port }: Listening): string {
  if (host === '0.0.0.0') return `${scheme}://127.0.0.1:${port}`
  if (host === '::') return `${scheme}://[::1]:${port}`
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}
