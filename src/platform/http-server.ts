/**
 * Opens and closes HTTP servers, with limits on slow requests, actionable errors about ports, and a bounded close. Knows
 * nothing about routes. May use `node:http`, `node:https` and real time.
 */
import { createSocket } from 'node:dgram'
import {
  createServer,
  IncomingMessage,
  type Server as PlainServer,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { isIPv6, type Server as NetServer, type Socket } from 'node:net'
import { systemClock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import { type Logger, loggerOf } from '../contracts/logger.js'
import type { TlsFiles } from './tls.js'
import { requestTurns } from './turns.js'

type Server = PlainServer | TlsServer

export interface HttpServerLimits {
  /** How long a client may take to send the headers, counted from the connection or the request's first byte. */
  readonly headersTimeoutMs: number
  /** How long a client may take to send the whole request, including its body, counted from the first byte. */
  readonly requestTimeoutMs: number
  /** How often the two timeouts above are checked. A timeout can fire this much too late. */
  readonly checkIntervalMs: number
  /** How long an idle keep-alive connection stays open. Longer than heartbeat intervals and than most clients' pool timeouts. */
  readonly keepAliveTimeoutMs: number
  /** A connection without traffic for this long is closed. Longer than any call may wait for a server. */
  readonly stallTimeoutMs: number
  /** Maximum number of connections; further ones are dropped. */
  readonly maxConnections: number
  /** Maximum number of unanswered requests on one connection. A client that sends more without waiting is disconnected. */
  readonly maxPipelined: number
}

export const defaultHttpServerLimits: HttpServerLimits = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  checkIntervalMs: 5_000,
  keepAliveTimeoutMs: 75_000,
  stallTimeoutMs: 120_000,
  maxConnections: 20_000,
  maxPipelined: 100,
})

/** Creates a server that does not listen yet. Node itself answers malformed and slow requests with 400, 408 or 431. */
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
    IncomingMessage: Request,
  }
  const shared = shareTurns(listener, all.maxPipelined)
  const server =
    tls === undefined
      ? createServer(options, shared)
      : createTlsServer({ ...options, ...tls.serverOptions, handshakeTimeout: all.headersTimeoutMs }, shared)
  server.maxConnections = all.maxConnections
  server.setTimeout(all.stallTimeoutMs)
  if (tls !== undefined) trackSockets(server)
  return server
}

const upgrades = Symbol('upgrades')

/** Makes Node stop at the next request of a connection that is gone, instead of parsing all that it has read: it stops at an upgrade. */
class Request extends IncomingMessage {
  declare private [upgrades]: unknown

  get upgrade(): unknown {
    return this.socket.destroyed || this[upgrades]
  }

  set upgrade(value: unknown) {
    this[upgrades] = value
  }
}

interface Pipeline {
  /** The turn of the event loop in which the last request arrived. */
  turn: number
  unanswered: number
  /** Requests that wait for a turn. */
  waiting: number
  readonly answered: () => void
}

/**
 * Shares the event loop between connections. Node handles everything that it has read of a connection, up to 2 MiB in one turn, before it
 * reads any other, so a client that sends requests without waiting for the answers could hold up all others for seconds. Here each
 * connection gets one request per turn; further ones wait for what is left of a turn, and a client with too many of them is disconnected.
 */
function shareTurns(listener: RequestListener, maxPipelined: number): RequestListener {
  const pipelines = new WeakMap<Socket, Pipeline>()
  const handleLater = async (pipeline: Pipeline, request: IncomingMessage, response: ServerResponse) => {
    pipeline.waiting++
    await requestTurns.take()
    pipeline.waiting--
    if (!request.socket.destroyed) listener(request, response)
  }
  return (request, response) => {
    const { socket } = request
    // Node hands over what it has already read, also after the connection is gone.
    if (socket.destroyed) return
    const turn = requestTurns.current()
    let pipeline = pipelines.get(socket)
    if (pipeline === undefined) {
      const created: Pipeline = { turn: -1, unanswered: 0, waiting: 0, answered: () => void created.unanswered-- }
      pipelines.set(socket, (pipeline = created))
    }
    if (++pipeline.unanswered > maxPipelined) return void socket.destroy()
    response.on('finish', pipeline.answered)
    if (pipeline.turn === turn || pipeline.waiting > 0) return void handleLater(pipeline, request, response)
    pipeline.turn = turn
    listener(request, response)
  }
}

/** Open sockets of each TLS server: `closeAllConnections` misses connections whose handshake has not finished. */
const sockets = new WeakMap<Server, Set<Socket>>()

function trackSockets(server: Server): void {
  const open = new Set<Socket>()
  sockets.set(server, open)
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
}

interface ListenOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  /** Name of the option that contains `host` and `port`, such as `agent`. Used in messages. */
  readonly option: string
  readonly logger?: Logger | false
}

export interface Listening {
  readonly host: string
  readonly port: number
}

/** Connections that the system keeps until they are accepted, up to its own limit: while many open at once, the others need not try again. */
const backlog = 4_096

/**
 * Resolves with the actual address. Rejects with `port-in-use`, or with `invalid` if the server cannot listen on the host or
 * port.
 */
export function listen(server: NetServer, options: ListenOptions): Promise<Listening> {
  const { host, port, option } = options
  const logger = loggerOf(options.logger)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    return Promise.reject(
      new FleetError('invalid', `${option}.port must be an integer from 0 to 65535, but is ${String(port)}`),
    )
  }
  // With an empty host, Node would listen on all interfaces, which is unlikely to be intended.
  if (host === '') return Promise.reject(new FleetError('invalid', `${option}.host must not be empty`))
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => reject(listenError(error, options))
    server.once('error', failed)
    server.listen({ host, port, backlog }, () => {
      server.off('error', failed)
      // From now on an error means that a connection could not be accepted. Without a listener it would end the process.
      server.on('error', (error) => logger.warn({ err: error, option }, 'cannot accept a connection'))
      const address = server.address()
      if (typeof address === 'object' && address !== null) resolve({ host: address.address, port: address.port })
      else reject(new FleetError('internal', `${option} listens on ${String(address)} instead of a host and port`))
    })
  })
}

/** How often a closing server closes connections that have become idle. */
const sweepIntervalMs = 25

/**
 * Stops accepting connections, lets requests in flight finish, and closes idle connections. Resolves when every connection
 * is closed. Connections that are still busy after `graceMs` are closed forcibly.
 */
export async function closeServer(server: Server, graceMs = 5_000): Promise<void> {
  if (!server.listening) return
  let cancelSweep = () => {}
  const sweep = () => {
    server.closeIdleConnections()
    cancelSweep = systemClock.after(sweepIntervalMs, sweep)
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
 * Reads and discards the rest of a request that was rejected early: a client that is still sending sees the response only if
 * the connection is not reset. Closes the connection if the rest is too long or arrives too slowly.
 */
export function discardRest(incoming: IncomingMessage): void {
  if (incoming.complete || incoming.destroyed) return
  let left = discardBytes
  // Not its socket's: a request that a framework's test injects has none.
  const cut = () => incoming.destroy()
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
    const hint = port === 5_000 ? ' (on macOS usually the AirPlay receiver)' : ''
    const message = `${where} is in use by another program${hint}; ${another}, or 0 for a free one`
    return new FleetError('port-in-use', message, { cause: error })
  }
  if (code === 'EACCES') {
    return new FleetError('invalid', `this user may not use ${where}; ${another}`, { cause: error })
  }
  if (notAnAddress.has(code)) {
    const message = `${host} is not an address of this machine; set ${option}: { host }`
    return new FleetError('invalid', message, { cause: error })
  }
  return new FleetError('internal', `cannot listen on ${where}: ${error.message}`, { cause: error })
}

const notAnAddress: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EAI_AGAIN', 'EINVAL', 'ENOTFOUND'])

/** Tries to bind to the address: the list of network interfaces omits a bridge without containers. */
export function isOwnAddress(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
    const done = (own: boolean) => socket.close(() => resolve(own))
    socket.once('error', () => done(false))
    socket.bind({ address, port: 0, exclusive: true }, () => done(true))
  })
}

/** True if only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
