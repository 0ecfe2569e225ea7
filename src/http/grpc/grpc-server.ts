/**
 * Agones' allocator over gRPC. A call becomes the request of its REST counterpart, which the routes answer: authorization, limits, audit,
 * metrics and forwarding are theirs.
 */
import {
  constants,
  createSecureServer,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Server as NetServer, Socket } from 'node:net'
import { systemClock } from '../../contracts/clock.js'
import type { HttpServerLimits } from '../../platform/http-server.js'
import type { TlsFiles } from '../../platform/tls.js'
import { isObject } from '../../rules/validation/problem.js'
import { operations } from '../operations.js'
import type { Routes } from '../route-binding.js'
import { allocationRequestMessage, allocationResponseMessage, healthResponseMessage } from './allocation-service.js'
import { decodeMessage, encodeMessage } from './protobuf.js'

interface GrpcOptions {
  /** With `compat: 'agones'`. */
  readonly routes: Pick<Routes, 'fetch'>
  readonly limits: HttpServerLimits & { readonly maxBodyBytes: number }
  readonly maxWaitMs: number
  /** For the health service. */
  readonly isReady: () => Promise<boolean>
  readonly tls: Pick<TlsFiles, 'serverOptions'> | undefined
}

export interface GrpcServer {
  /** Does not listen yet. */
  readonly server: NetServer
  /** Ends each connection after the calls in progress. */
  leave(): void
  /** Stops accepting connections. Calls in progress may finish; those that take longer than 5 s are cut off. */
  close(): Promise<void>
}

const graceMs = 5_000
/** A caller with one connection may have many calls that wait. */
const maxStreams = 1_000
/** What all callers together may have sent of requests that are not complete, before anybody knows who they are. */
const maxHeldBytes = 64 * 1024 * 1024

export function grpcServer(options: GrpcOptions): GrpcServer {
  const { limits, tls } = options
  const settings = { settings: { maxConcurrentStreams: maxStreams } }
  const server = tls
    ? createSecureServer({ ...settings, ...tls.serverOptions, handshakeTimeout: limits.headersTimeoutMs })
    : createServer(settings)
  const sessions = new Set<ServerHttp2Session>()
  const sockets = new Set<Socket>()
  const held = { bytes: 0 }
  let isLeaving = false
  server.maxConnections = limits.maxConnections
  server.setTimeout(limits.stallTimeoutMs)
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => {})
    session.once('close', () => sessions.delete(session))
    if (isLeaving) session.close()
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('stream', (stream, headers) => {
    answerCall(stream, headers, options, held).catch(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
  })
  const leave = () => {
    isLeaving = true
    for (const session of sessions) session.close()
  }
  return {
    server,
    leave,
    async close() {
      if (!server.listening) return
      const cut = systemClock.after(graceMs, () => {
        for (const session of sessions) session.destroy()
        for (const socket of sockets) socket.destroy()
      })
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      leave()
      await closed
      cut()
    },
  }
}

/** The end of a call other than an answer. */
class GrpcError extends Error {
  override readonly name = 'GrpcError'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

const status = { invalidArgument: 3, resourceExhausted: 8, unimplemented: 12, internal: 13 } as const

async function answerCall(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  options: GrpcOptions,
  held: { bytes: number },
): Promise<void> {
  // A stream that breaks is closed, which is all that there is to do about it.
  stream.on('error', () => {})
  const gone = new AbortController()
  stream.once('close', () => gone.abort())
  if (!headers['content-type']?.startsWith('application/grpc'))
    return stream.respond({ ':status': 415 }, { endStream: true })
  const method = methods.get(String(headers[':path']))
  const outcome = await (
    method ? method({ stream, headers, gone: gone.signal, options, held }) : Promise.reject(unknownMethod(headers))
  ).catch((error: unknown) => (error instanceof GrpcError ? error : new GrpcError(status.internal, 'the call failed')))
  if (stream.destroyed || stream.closed) return
  const type = { ':status': 200, 'content-type': 'application/grpc+proto' }
  if (outcome instanceof GrpcError) {
    const { code, message } = outcome
    stream.respond(
      { ...type, 'grpc-status': code, 'grpc-message': encodeURI(wellFormed(message)) },
      { endStream: true },
    )
    return
  }
  const prefix = Buffer.alloc(prefixBytes)
  prefix.writeUInt32BE(outcome.length, 1)
  stream.respond(type, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': 0 }))
  stream.end(Buffer.concat([prefix, outcome]))
}

/** Half of a character, which a cut may leave, would not be encoded. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString()
}

interface Call {
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
  /** Aborts when the caller has gone. */
  readonly gone: AbortSignal
  readonly options: GrpcOptions
  /** What all callers have sent of requests that are not complete. */
  readonly held: { bytes: number }
}

const methods = new Map<string, (call: Call) => Promise<Buffer>>([
  ['/allocation.AllocationService/Allocate', allocate],
  [
    '/grpc.health.v1.Health/Check',
    async ({ options }) => encodeMessage(healthResponseMessage, { status: (await options.isReady()) ? 1 : 2 }),
  ],
])

function unknownMethod(headers: IncomingHttpHeaders): GrpcError {
  return new GrpcError(
    status.unimplemented,
    `${String(headers[':path'])} is not served here, only ${[...methods.keys()].join(', ')}`,
  )
}

async function allocate({ stream, headers, gone, options, held }: Call): Promise<Buffer> {
  const body = JSON.stringify(read(await readMessage(stream, options.limits, held)))
  const { allocateAsAgones: operation } = operations
  const seconds = headers['prefer'] === undefined ? waitSeconds(headers['grpc-timeout'], options.maxWaitMs) : undefined
  const wait = seconds === undefined ? '' : `?wait=${seconds}`
  const request = new Request(`http://${headers[':authority'] ?? 'localhost'}${operation.path}${wait}`, {
    method: operation.method,
    headers: { ...passedOn(headers), 'content-type': 'application/json' },
    body,
    signal: gone,
  })
  const response = await options.routes.fetch(request, { incoming: { socket: stream.session?.socket } })
  const answer: unknown = await response.json()
  if (!isObject(answer)) throw new GrpcError(status.internal, 'the answer is no object')
  if (response.ok) return encodeMessage(allocationResponseMessage, answer)
  throw new GrpcError(Number(answer['code']), String(answer['message']))
}

function read(bytes: Uint8Array): unknown {
  try {
    return decodeMessage(allocationRequestMessage, bytes)
  } catch {
    throw new GrpcError(status.invalidArgument, 'the request is no allocation.AllocationRequest')
  }
}

/** Metadata of the caller, such as its token and its key of idempotency. */
function passedOn(headers: IncomingHttpHeaders): Readonly<Record<string, string>> {
  const entries = Object.entries(headers).flatMap(([name, value]) =>
    typeof value === 'string' && !/^(:|grpc-|content-|te$|host$)/.test(name) ? [[name, value] as const] : [],
  )
  return { ...Object.fromEntries(entries), host: headers[':authority'] ?? headers.host ?? 'localhost' }
}

const unitsMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 0.001, n: 0.000_001 }
const shortestMarginMs = 500

/** A caller with a deadline waits for a server until shortly before it, so that it learns why there is none. */
function waitSeconds(timeout: string | string[] | undefined, maxWaitMs: number): string | undefined {
  const [, amount, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(String(timeout)) ?? []
  if (amount === undefined) return undefined
  const timeoutMs = Number(amount) * (unitsMs[unit] ?? 0)
  const waitMs = timeoutMs - Math.min(shortestMarginMs, timeoutMs / 2)
  return (Math.min(waitMs, maxWaitMs) / 1_000).toFixed(3)
}

/** A byte that says whether the message is compressed, and its length. */
const prefixBytes = 5

/** A caller that sends more than this is cut off. Less is read to the end, so that it sees why its message is refused. */
const discardBytes = 16 * 1024 * 1024

async function readMessage(
  stream: ServerHttp2Stream,
  limits: GrpcOptions['limits'],
  held: Call['held'],
): Promise<Uint8Array> {
  const chunks: Buffer[] = []
  let length = 0
  const cut = () => stream.close(constants.NGHTTP2_CANCEL)
  const cancel = systemClock.after(limits.requestTimeoutMs, cut)
  stream.once('close', cancel)
  await new Promise<void>((resolve) => {
    stream.on('data', (chunk: Buffer) => {
      length += chunk.length
      held.bytes += chunk.length
      if (held.bytes > maxHeldBytes) cut()
      if (length <= limits.maxBodyBytes + prefixBytes) chunks.push(chunk)
      else if (length > discardBytes) cut()
    })
    stream.once('end', resolve)
    stream.once('close', resolve)
  })
  cancel()
  held.bytes -= length
  if (length > limits.maxBodyBytes + prefixBytes) {
    throw new GrpcError(status.resourceExhausted, `the request is larger than ${limits.maxBodyBytes} bytes`)
  }
  const all = Buffer.concat(chunks)
  if (all[0] === 1)
    throw new GrpcError(status.unimplemented, 'compressed requests are not read: send them uncompressed')
  if (length < prefixBytes || all.readUInt32BE(1) !== length - prefixBytes) {
    throw new GrpcError(status.invalidArgument, 'the call must have exactly one message')
  }
  return all.subarray(prefixBytes)
}
