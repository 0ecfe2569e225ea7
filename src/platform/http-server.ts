/**
 * HTTP servers as this project opens and closes them: bounds against slow and endless requests, errors that say what to
 * do about a port, and a close that ends. Knows nothing of routes. May touch `node:http`, `node:https` and real time.
 */
import { createServer, type IncomingMessage, type RequestListener, type Server as PlainServer } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { systemClock } from '../contracts/clock.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { type Logger, silentLogger } from '../contracts/logger.js'
import type { TlsFiles } from './tls-files.js'

export type Server = PlainServer | TlsServer

export interface HttpServerLimits {
  /** A request's head must be complete this long after its first byte, or after the connection. */
  readonly headersTimeoutMs: number
  /** The whole request, body included, must be complete this long after its first byte. */
  readonly requestTimeoutMs: number
  /** How often the two above are looked at: they are late by at most this. */
  readonly checkIntervalMs: number
  /** An idle connection is kept this long: longer than any heartbeat interval in use and than clients' pools. */
  readonly keepAliveTimeoutMs: number
  /** A connection on which nothing moves for this long is cut: longer than any call may wait for a server. */
  readonly stallTimeoutMs: number
  /** Connections beyond this are dropped at once. */
  readonly maxConnections: number
}

export const defaultHttpServerLimits: HttpServerLimits = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  checkIntervalMs: 5_000,
  keepAliveTimeoutMs: 75_000,
  stallTimeoutMs: 120_000,
  maxConnections: 20_000,
})

/** A server that listens nowhere yet. What is not HTTP, or too slow, Node answers by itself: 400, 408 or 431. */
export function httpServer(
  listener: RequestListener,
  limits: Partial<HttpServerLimits> = {},
  tls?: Pick<TlsFiles, 'serverOptions'>,
): Server {
  const all = { ...defaultHttpServerLimits, ...limits }
  const options = {
    headersTimeout: all.headersTimeoutMs,
    requestTimeout: all.requestTimeoutMs,
    connectionsCheckingInterval: all.checkIntervalMs,
    keepAliveTimeout: all.keepAliveTimeoutMs,
  }
  const server =
    tls === undefined
      ? createServer(options, listener)
      : createTlsServer({ ...options, ...tls.serverOptions, handshakeTimeout: all.headersTimeoutMs }, listener)
  server.maxConnections = all.maxConnections
  server.setTimeout(all.stallTimeoutMs)
  if (tls !== undefined) keepSockets(server)
  return server
}

/** Those of a TLS server: until its handshake is over, `closeAllConnections` does not know of a connection. */
const sockets = new WeakMap<Server, Set<Socket>>()

function keepSockets(server: Server): void {
  const open = new Set<Socket>()
  sockets.set(server, open)
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
}

export interface ListenOptions {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** The caller's option that holds `host` and `port`, for messages: `agent`. */
  readonly option: string
  readonly logger?: Logger
}

export interface Listening {
  readonly host: string
  readonly port: number
}

/** Resolves with the address in use. Throws `port-in-use`, or `invalid` when host or port cannot be listened on. */
export function listen(server: Server, options: ListenOptions): Promise<Listening> {
  const { host, port, option, logger = silentLogger } = options
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    return Promise.reject(
      new FleetError('invalid', `${option}.port must be an integer from 0 to 65535, but is ${String(port)}`),
    )
  }
  // Node takes an empty host for "every interface", which nobody means to say by it.
  if (host === '') return Promise.reject(new FleetError('invalid', `${option}.host must not be empty`))
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => reject(listenError(error, options))
    server.once('error', failed)
    server.listen({ host, port }, () => {
      server.off('error', failed)
      // From here on an error is a connection that could not be accepted; without a listener it would end the process.
      server.on('error', (error) => logger.warn({ error: messageOf(error), option }, 'a connection was not accepted'))
      const address = server.address()
      if (typeof address === 'object' && address !== null) resolve({ host: address.address, port: address.port })
      else reject(new FleetError('internal', `${option} listens on ${String(address)}, which is no host and port`))
    })
  })
}

/** How often a closing server looks for connections that have become idle. */
const sweepMs = 25

/**
 * Stops accepting, lets requests in flight be answered and closes idle connections. Resolves when every connection is
 * closed; those that are busy after `graceMs` are cut.
 */
export async function closeServer(server: Server, graceMs = 5_000): Promise<void> {
  if (!server.listening) return
  let cancelSweep = () => {}
  const sweep = () => {
    server.closeIdleConnections()
    cancelSweep = systemClock.after(sweepMs, sweep)
  }
  const cancelCut = systemClock.after(graceMs, () => {
    server.closeAllConnections()
    for (const socket of sockets.get(server) ?? []) socket.destroy()
  })
  try {
    await new Promise<void>((resolve, reject) => {
      server.close((error) => (error ? reject(error) : resolve()))
      sweep()
    })
  } finally {
    cancelSweep()
    cancelCut()
  }
}

const discardMs = 1_000
const discardBytes = 16 * 1024 * 1024

/**
 * Reads on and forgets: a client that is still sending when it is refused sees the answer only if its connection is not
 * reset under it. A client that does not come to an end soon is cut.
 */
export function discardRest(incoming: IncomingMessage): void {
  if (incoming.complete || incoming.destroyed) return
  let left = discardBytes
  const cut = () => incoming.socket.destroy()
  const cancel = systemClock.after(discardMs, cut)
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) cut()
  })
  incoming.once('close', cancel)
  incoming.resume()
}

function listenError(error: NodeJS.ErrnoException, { host, port, option }: ListenOptions): FleetError {
  const { code = '' } = error
  const where = `port ${port} on ${host}`
  const another = `choose another with ${option}: { port }`
  if (code === 'EADDRINUSE') {
    const hint = port === 5_000 ? '; on macOS that is usually the AirPlay receiver' : ''
    const message = `${where} is in use by another program${hint}; ${another}, 0 takes a free one`
    return new FleetError('port-in-use', message, { cause: error })
  }
  if (code === 'EACCES') {
    return new FleetError('invalid', `${where} may not be used by this user; ${another}`, { cause: error })
  }
  if (notAnAddress.has(code)) {
    const message = `${host} is not an address of this machine; set ${option}: { host }`
    return new FleetError('invalid', message, { cause: error })
  }
  return new FleetError('internal', `cannot listen on ${where}: ${error.message}`, { cause: error })
}

const notAnAddress: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EAI_AGAIN', 'EINVAL', 'ENOTFOUND'])
