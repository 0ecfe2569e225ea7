/** Requests that arrive through `node:http`. Allocates only what the handler uses. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { systemClock } from '../../contracts/clock.js'
import { discardRest } from '../../platform/http-server.js'
import { isBytes } from '../../rules/model/values.js'
import { alreadyRead, disconnected, tooLarge } from './bodies.js'
import { negotiated } from './content-encoding.js'
import { type ClientCertificate, Exchange, type Handler, type Match, type RequestTarget } from './exchange.js'
import { defaultStallMs, failure, type HttpResponse, jsonType, notFound } from './responses.js'

export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void

/** Passes paths that match no route to `next`; without `next` they get 404. */
export function nodeHandler(match: NodeMatcher): NodeHandler {
  return (request, response, next) => {
    const matched = match(request, response)
    if (matched !== undefined) void answer(matched, response)
    else if (next !== undefined) next()
    else void sendResponse(request, response, notFound(pathOf(request)))
  }
}

async function answer(matched: NodeExchange, response: ServerResponse): Promise<void> {
  try {
    const streamed = matched.send(await matched.respond())
    if (streamed !== undefined) await streamed
  } catch {
    // Handlers never reject, so only writing to the client can fail here.
    response.destroy()
  }
}

type NodeMatcher = (request: IncomingMessage, response: ServerResponse, prefix?: string) => NodeExchange | undefined

/** Finds the handler for a request. Returns undefined for a path that is outside `prefix` or unknown to `find`. */
export function nodeMatcher(find: (path: string) => Match<Handler> | undefined): NodeMatcher {
  /** Caches the last valid header, since most clients always use the same name. */
  let lastValid: string | undefined
  const isValidHost = (host: string | undefined) => {
    if (host === undefined || host === lastValid) return true
    if (!validHost.test(host)) return false
    lastValid = host
    return true
  }
  return (request, response, prefix = '') => {
    const { url = '' } = request
    let path = pathOf(request)
    const search = path.length === url.length ? '' : url.slice(path.length + 1)
    if (prefix !== '') {
      const above = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
      if (!path.startsWith(`${above}/`)) return undefined
      path = path.slice(above.length)
    }
    const found = find(path)
    if (found === undefined) return undefined
    const handle = isValidHost(request.headers.host) ? found.value : refuseHost
    return new NodeExchange(request, response, handle, { path, search, params: found.params })
  }
}

/** A host name or IP address, with or without a port. HTTP also allows an empty Host header. */
const validHost = /^(?:(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?)?$/i

const refuseHost: Handler = () =>
  Promise.resolve(failure(400, 'invalid', 'the Host header must be a host name or an address'))

/** The request's path as sent, without the query. */
function pathOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  const queryAt = url.indexOf('?')
  return queryAt < 0 ? url : url.slice(0, queryAt)
}

class NodeExchange extends Exchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #handle: Handler

  constructor(request: IncomingMessage, response: ServerResponse, handle: Handler, target: RequestTarget) {
    super(request.method ?? 'GET', target)
    this.#request = request
    this.#response = response
    this.#handle = handle
  }

  /** Express and its kin keep the whole URL in `originalUrl` when they remove the prefix. */
  get sentPath(): string | undefined {
    const { url, originalUrl = url }: Pick<IncomingMessage, 'url'> & { readonly originalUrl?: string } = this.#request
    return originalUrl === undefined ? undefined : pathOf({ url: originalUrl })
  }

  get remoteAddress(): string | undefined {
    return this.#request.socket.remoteAddress
  }

  clientCertificate(): ClientCertificate | undefined {
    return clientCertificateOf(this.#request.socket)
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  protected readBody(maxBytes: number): Promise<Uint8Array> {
    return readNodeBody(this.#request, maxBytes)
  }

  protected watchClient(): AbortSignal {
    const response = this.#response
    const gone = new AbortController()
    const onClose = () => {
      if (!response.writableFinished) gone.abort(new Error('the client has closed the connection'))
    }
    if (response.destroyed) onClose()
    else {
      // In HTTP/2, where a connection carries several streams, the response's own event is enough.
      const { httpVersionMajor, socket } = this.#request
      const cancel = httpVersionMajor < 2 ? onConnectionClose(socket, onClose) : () => {}
      response.once('close', () => {
        cancel()
        onClose()
      })
    }
    return gone.signal
  }

  respond(): Promise<HttpResponse> {
    return this.#handle(this)
  }

  send(response: HttpResponse): Promise<void> | undefined {
    return sendResponse(this.#request, this.#response, response)
  }
}

/** For a stream, resolves when it has been sent completely. Otherwise returns immediately, and Node sends the rest. */
function sendResponse(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  response: HttpResponse,
): Promise<void> | undefined {
  const { status, body, headers, stream, closesConnection } = response
  // The client has disconnected, or a middleware of the host app has already responded, for example after a timeout.
  if (outgoing.destroyed || outgoing.headersSent) return undefined
  if (closesConnection === true) closeConnection(outgoing)
  if (stream !== undefined) {
    const varySet = outgoing.getHeader('Vary')
    const sent = negotiated(response, incoming.headers['accept-encoding']?.toString(), varySet?.toString())
    outgoing.writeHead(status, { ...sent.headers })
    discardRest(incoming)
    if (incoming.method === 'HEAD') return void outgoing.end()
    return sendStream(outgoing, sent.stream ?? stream, response.stallMs ?? defaultStallMs)
  }
  if (body === undefined) outgoing.writeHead(status, { ...headers }).end()
  else {
    const own = { 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body) }
    outgoing.writeHead(status, headers === undefined ? own : { ...own, ...headers }).end(body)
  }
  discardRest(incoming)
  return undefined
}

/** Has no effect in HTTP/2, which has no Connection header. */
export function closeConnection(outgoing: ServerResponse): void {
  if (outgoing.req.httpVersionMajor < 2) outgoing.setHeader('Connection', 'close')
}

/** Parsing a certificate is slow, and a connection's certificate stays the same for all its requests. */
const certificates = new WeakMap<Socket, ClientCertificate>()

/** Returns undefined unless TLS has verified the client's certificate. */
export function clientCertificateOf(socket: Socket): ClientCertificate | undefined {
  if (!(socket instanceof TLSSocket)) return undefined
  const known = certificates.get(socket)
  if (known !== undefined || !socket.authorized) return known
  const { subject, fingerprint256 } = socket.getPeerCertificate()
  // Without a certificate Node returns an empty object, contrary to its type.
  const fingerprint: string | undefined = fingerprint256
  if (fingerprint === undefined) return undefined
  const { CN } = subject
  const certificate = { commonName: Array.isArray(CN) ? CN[0] : CN, fingerprint }
  certificates.set(socket, certificate)
  return certificate
}

/** Properties that a body parser may have set on the request before the routes receive it. */
interface ParsedMessage extends IncomingMessage {
  readonly rawBody?: unknown
  readonly body?: unknown
}

function readNodeBody(incoming: ParsedMessage, maxBytes: number): Promise<Uint8Array> {
  const parsed = incoming.readableDidRead || incoming.rawBody !== undefined ? parsedBody(incoming) : undefined
  if (parsed !== undefined) {
    return parsed.byteLength > maxBytes ? Promise.reject(tooLarge(maxBytes)) : Promise.resolve(parsed)
  }
  if (incoming.readableDidRead) return Promise.reject(alreadyRead())
  return new Promise((resolve, reject) => {
    if (incoming.destroyed) return reject(disconnected(incoming.errored))
    let first: Buffer | undefined
    let more: Buffer[] | undefined
    let bytes = 0
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      // `discardRest` reads the remainder after the response has been sent.
      if (bytes > maxBytes) reject(tooLarge(maxBytes))
      else if (first === undefined) first = chunk
      else (more ??= [first]).push(chunk)
    })
    incoming.on('end', () => resolve(more === undefined ? (first ?? new Uint8Array()) : Buffer.concat(more)))
    incoming.on('error', (error) => reject(disconnected(error)))
  })
}

/** Returns the body that a parser has already read. If only the parsed value is left, serializes it as JSON again. */
function parsedBody({ rawBody, body, readableDidRead }: ParsedMessage): Uint8Array | undefined {
  if (isBytes(rawBody)) return rawBody
  // A parser that has not read the stream may have set `body` to `{}`.
  if (!readableDidRead || body === undefined) return undefined
  if (isBytes(body)) return body
  try {
    return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  } catch {
    return undefined // Nested too deeply for JSON.stringify.
  }
}

/** Resolves when the stream ends or the reader disconnects. Rejects if the stream throws. */
async function sendStream(
  outgoing: ServerResponse,
  stream: AsyncIterable<string | Uint8Array>,
  stallMs: number,
): Promise<void> {
  for await (const chunk of stream) {
    if (outgoing.destroyed) return
    if (!outgoing.write(chunk) && !(await isDrained(outgoing, stallMs))) {
      outgoing.destroy()
      return
    }
  }
  outgoing.end()
}

function isDrained(outgoing: ServerResponse, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (drained: boolean) => () => {
      cancel()
      outgoing.off('drain', onDrain).off('close', onClose)
      resolve(drained)
    }
    const onDrain = done(true)
    const onClose = done(false)
    const cancel = systemClock.after(stallMs, onClose)
    outgoing.on('drain', onDrain).on('close', onClose)
    if (outgoing.destroyed) onClose()
  })
}

/** The functions to call, by connection. One listener per socket, since thousands of requests can be pipelined on it. */
const requests = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `closed` once when the connection closes, or at once if it has. Returns a function that cancels this. Node notifies a response only
 * once the responses before it on the same connection have been sent, so a pipelined request that waits would not notice that its caller
 * has gone.
 */
function onConnectionClose(socket: Socket, closed: () => void): () => void {
  if (socket.destroyed) {
    closed()
    return () => {}
  }
  const waiting = requests.get(socket) ?? follow(socket)
  waiting.add(closed)
  return () => void waiting.delete(closed)
}

function follow(socket: Socket): Set<() => void> {
  const waiting = new Set<() => void>()
  requests.set(socket, waiting)
  socket.once('close', () => {
    for (const closed of waiting) closed()
  })
  return waiting
}
