/** The allocation and the management API as servers of their own. The fleet starts the third, the agent, by itself. */
import { FleetError } from '../errors.js'
import type { Fleet } from '../fleet.js'
import { type Logger, silentLogger } from '../logger.js'
import { closeServer, httpServer, listen, type Listening } from '../platform/http-server.js'
import { allocationRoutes } from './allocation.js'
import { managementRoutes } from './management.js'
import { nodeHandler } from './node-handler.js'

export const defaultAllocationPort = 5_000
export const defaultManagementPort = 5_001

export interface ListenerOptions {
  /** Default `127.0.0.1`: neither API asks who is calling. */
  readonly host?: string
  /** 0 takes a free one. */
  readonly port?: number
}

export interface ServeOptions {
  readonly fleet: Fleet
  /** Default port 5000. */
  readonly allocation?: ListenerOptions
  /** Default port 5001. */
  readonly management?: ListenerOptions
  /** Default: silent. */
  readonly logger?: Logger
}

export interface Served {
  /** `http://127.0.0.1:5000` */
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

/** Starts both or neither. Throws `port-in-use`, or `invalid` when a host or port cannot be listened on. */
export async function serve(options: ServeOptions): Promise<Served> {
  const { fleet, logger = silentLogger } = options
  const closing = new AbortController()
  const allocation = httpServer(nodeHandler(allocationRoutes(fleet, { closing: closing.signal })))
  const management = httpServer(nodeHandler(managementRoutes(fleet)))

  const at = (listener: ListenerOptions | undefined, port: number) => ({
    host: listener?.host ?? '127.0.0.1',
    port: listener?.port ?? port,
    logger,
  })
  const allocationAt = await listen(allocation, {
    ...at(options.allocation, defaultAllocationPort),
    option: 'allocation',
  })
  let managementAt: Listening
  try {
    managementAt = await listen(management, { ...at(options.management, defaultManagementPort), option: 'management' })
  } catch (error) {
    await closeServer(allocation)
    throw error
  }

  let closed: Promise<void> | undefined
  const close = async () => {
    closing.abort(new FleetError('closed', 'this host is closing'))
    await Promise.all([closeServer(allocation), closeServer(management)])
  }
  return {
    allocationUrl: urlOf(allocationAt),
    managementUrl: urlOf(managementAt),
    agentAddress: fleet.agentAddress,
    close: () => (closed ??= close()),
  }
}

/** Where this machine itself reaches the listener. */
function urlOf({ host, port }: Listening): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`
  if (host === '::') return `http://[::1]:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
