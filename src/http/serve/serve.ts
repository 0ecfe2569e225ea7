/** The allocation and the management API as servers of their own. The fleet starts the third, the agent, by itself. */
import { Server as TlsServer } from 'node:https'
import { FleetError } from '../../contracts/errors.js'
import type { Fleet } from '../../contracts/fleet.js'
import { type Logger, silentLogger } from '../../contracts/logger.js'
import { closeServer, httpServer, listen, type Listening } from '../../platform/http-server.js'
import { isLoopback } from '../../platform/own-address.js'
import { openTlsFiles, type TlsOptions } from '../../platform/tls-files.js'
import { allocationRoutes } from '../api/allocation.js'
import type { Compat } from '../api/compat.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import type { EventStreamOptions } from '../api/event-stream.js'
import type { Authorize, GuardOptions, RateLimit } from '../access/guard.js'
import { allowedHosts } from '../access/allowed-hosts.js'
import { resolveServeLimits, type ServeLimits } from './limits.js'
import { managementPart } from '../api/management.js'
import { nodeHandler } from '../mounts/node-handler.js'
import { type MetricsSource, observationPart } from '../api/observation.js'
import { routes } from '../core/routing.js'

export const defaultAllocationPort = 5_000
export const defaultManagementPort = 5_001
const defaultHost = '127.0.0.1'

export interface ListenerOptions {
  /** Default `127.0.0.1`: nobody is asked who is calling unless `authorize` or `tls` say so. */
  readonly host?: string
  /** 0 takes a free one. */
  readonly port?: number
  /** Default: plain HTTP. */
  readonly tls?: TlsOptions
}

/** `allowedOrigins` holds for both. */
export interface ServeOptions extends CorsOptions {
  /**
   * Names under which it may be asked on 127.0.0.1, besides `localhost` and addresses, as long as neither `authorize` nor
   * `tls` says who is calling: without that any web site that is open in a browser here could call. See `allowedHosts`.
   */
  readonly allowedHosts?: readonly string[]
  readonly fleet: Fleet
  /** Default port 5000. */
  readonly allocation?: ListenerOptions
  /** Default port 5001. */
  readonly management?: ListenerOptions
  /** Asked before every operation of both. Default: everybody may do everything. */
  readonly authorize?: Authorize
  /** Asked before every operation of both. Default: none. */
  readonly rateLimit?: RateLimit
  readonly limits?: Partial<ServeLimits>
  /** The management API answers in the shapes of another project. Default: our own. */
  readonly compat?: Compat
  /** How `GET /api/v1/events` of the management API is served. */
  readonly events?: EventStreamOptions
  /** Served at `/metrics` of the management API: `fleetMetrics(fleet)` of `gamekeeper/metrics`. Default: nothing is. */
  readonly metrics?: MetricsSource
  /** Default: silent. */
  readonly logger?: Logger
}

export interface Served {
  /** `http://127.0.0.1:5000`, or with TLS `https://127.0.0.1:5000` */
  readonly allocationUrl: string
  /** `http://127.0.0.1:5001` */
  readonly managementUrl: string
  /** `host:port` where game servers reach the agent. Absent when the fleet started none. */
  readonly agentAddress: string | undefined
  /**
   * Stops accepting, answers the calls that wait for a server with 503 and those in flight as they end, and closes idle
   * connections; after 5 s it cuts the rest. The fleet stays open: it belongs to who made it.
   */
  close(): Promise<void>
}

/**
 * Starts both or neither. Throws `port-in-use`, or `invalid` when a host or port cannot be listened on, a limit is none, or
 * the files of `tls` cannot be used.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { fleet, rateLimit, compat, allowedOrigins, logger = silentLogger } = options
  const limits = resolveServeLimits(options.limits)
  const closing = new AbortController()
  const shared = {
    ...limits,
    logger,
    closing: closing.signal,
    ...(rateLimit && { rateLimit }),
    ...(compat && { compat }),
    ...(allowedOrigins && { allowedOrigins }),
    ...(options.events && { events: options.events }),
    ...(options.metrics && { metrics: options.metrics }),
  }
  const open = (option: 'allocation' | 'management', app: Parameters<typeof nodeHandler>[0], port: number) =>
    openListener(app, { limits, logger, option, port, given: options[option] ?? {} })

  const guarded = (option: 'allocation' | 'management') => ({ ...shared, ...authorizeOf(options, options[option]) })

  const allocation = await open('allocation', allocationRoutes(fleet, guarded('allocation')), defaultAllocationPort)
  let management: Listener
  try {
    const own = guarded('management')
    const parts = [managementPart(fleet, own, closing.signal), observationPart(fleet, own)]
    const app = routes(parts, { closing, cors: corsOf(options), compat })
    management = await open('management', app, defaultManagementPort)
  } catch (error) {
    await allocation.close()
    throw error
  }

  let closed: Promise<void> | undefined
  const close = async () => {
    closing.abort(new FleetError('closed', 'this host is closing'))
    await Promise.all([allocation.close(), management.close()])
  }
  return {
    allocationUrl: allocation.url,
    managementUrl: management.url,
    agentAddress: fleet.agentAddress,
    close: () => (closed ??= close()),
  }
}

/** Who else may call than this machine itself is up to who opens it to others. */
function authorizeOf(
  { authorize, allowedHosts: names }: ServeOptions,
  { host = defaultHost, tls }: ListenerOptions = {},
): Pick<GuardOptions, 'authorize'> {
  if (authorize) return { authorize }
  const isAsked = tls?.ca !== undefined && tls.requestCert !== false
  return isAsked || !isLoopback(host) ? {} : { authorize: allowedHosts(names) }
}

interface Listener {
  readonly url: string
  close(): Promise<void>
}

interface OpenOptions {
  readonly option: 'allocation' | 'management'
  readonly given: ListenerOptions
  /** Where it listens unless told otherwise. */
  readonly port: number
  readonly limits: ServeLimits
  readonly logger: Logger
}

async function openListener(app: Parameters<typeof nodeHandler>[0], options: OpenOptions): Promise<Listener> {
  const { option, given, limits, logger } = options
  const { host = defaultHost, port = options.port } = given
  const files = given.tls && (await openTlsFiles(given.tls, `${option}.tls`, logger))
  const server = httpServer(nodeHandler(app), limits, files)
  const at = await listen(server, { host, port, option, logger })
  const unfollow = files && server instanceof TlsServer ? files.follow(server) : () => {}
  return {
    url: urlOf(files === undefined ? 'http' : 'https', at),
    close() {
      unfollow()
      return closeServer(server)
    },
  }
}

/** Where this machine itself reaches the listener. */
function urlOf(scheme: 'http' | 'https', { host, port }: Listening): string {
  if (host === '0.0.0.0') return `${scheme}://127.0.0.1:${port}`
  if (host === '::') return `${scheme}://[::1]:${port}`
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}
