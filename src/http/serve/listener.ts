/** Opens and closes one HTTP listener of `serve`. The limits of listeners are listed in docs/reference/http-api.md. */
import type { ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import { FleetError } from '../../contracts/errors.js'
import type { Logger } from '../../contracts/logger.js'
import {
  closeServer,
  defaultHttpServerLimits,
  httpServer,
  type HttpServerLimits,
  listen,
  type Listening,
} from '../../platform/http-server.js'
import { sharedKeyServer } from '../../platform/shared-key.js'
import { openTlsFiles, type TlsOptions } from '../../platform/tls-files.js'
import { shown } from '../../rules/validation/problem.js'
import { defaultMaxInFlight } from '../access/guard.js'
import { defaultMaxBodyBytes } from '../core/bodies.js'
import { closeConnection } from '../core/node.js'
import type { Routes } from '../routes/routes.js'

export const defaultHost = '127.0.0.1'

export interface ListenerOptions {
  /** Default `127.0.0.1`, because callers are not authenticated unless `authorize` or `tls` is set. */
  readonly host?: string
  /** 0 picks a free port. */
  readonly port?: number
  /** Default: plain HTTP. */
  readonly tls?: TlsOptions
}

export interface Listener {
  readonly url: string
  /** Closes each connection after its next response, so that clients connect again, to another host. */
  leave(): void
  close(): Promise<void>
}

export interface OpenOptions {
  /** Used in messages. */
  readonly option: string
  readonly listener: ListenerOptions
  readonly defaultPort: number
  readonly limits: ServeLimits
  readonly logger: Logger
  /** Admits only hosts that have this key. */
  readonly sharedKey?: () => Uint8Array | undefined
}

export async function openListener(routes: Routes, options: OpenOptions): Promise<Listener> {
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
export function resolveServeLimits(overrides: Partial<ServeLimits> = {}, maxWaitMs = 0): ServeLimits {
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
