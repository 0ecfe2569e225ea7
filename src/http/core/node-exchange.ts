/** A request received through `node:http`. Allocates only what the handler uses. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Caller } from '../../contracts/audit.js'
import { discardRest } from '../../platform/http-server.js'
import { onConnectionClose } from './connection-close.js'
import type { ClientCertificate, Exchange, Handler, Identity } from './exchange.js'
import { failure, type HttpResponse, jsonType } from './http-response.js'
import type { Match } from './path-matcher.js'
import { readNodeBody } from './request-body.js'
import { defaultStallMs, sendStream } from './streaming.js'

export type NodeMatcher = (
  request: IncomingMessage,
  response: ServerResponse,
  prefix?: string,
) => NodeExchange | undefined

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
    const queryAt = url.indexOf('?')
    let path = queryAt < 0 ? url : url.slice(0, queryAt)
    if (prefix !== '') {
      const above = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
      if (!path.startsWith(`${above}/`)) return undefined
      path = path.slice(above.length)
    }
    const found = find(path)
    if (found === undefined) return undefined
    const route = isValidHost(request.headers.host) ? found : invalidHost
    return new NodeExchange(request, response, route, path, queryAt < 0 ? '' : url.slice(queryAt + 1))
  }
}

/** A host name or IP address, with or without a port. HTTP also allows an empty Host header. */
const validHost = /^(?:(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?)?$/i

const invalidHost: Match<Handler> = {
  value: () => Promise.resolve(failure(400, 'invalid', 'the Host header must be a host name or an address')),
  params: {},
}

/** The request's path as sent, without the query. */
export function pathOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  const queryAt = url.indexOf('?')
  return queryAt < 0 ? url : url.slice(0, queryAt)
}

export class NodeExchange implements Exchange {
  identity: Identity | undefined
  forwardedCaller: Caller | undefined
  readonly method: string
  readonly path: string
  readonly search: string
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #route: Match<Handler>

  constructor(request: IncomingMessage, response: ServerResponse, route: Match<Handler>, path: string, query: string) {
    this.method = request.method ?? 'GET'
    this.path = path
    this.#request = request
    this.#response = response
    this.#route = route
    this.search = query
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

  query(name: string): string | undefined {
    return this.search === '' ? undefined : (new URLSearchParams(this.search).get(name) ?? undefined)
  }

  param(name: string): string {
    return this.#route.params[name] ?? ''
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readNodeBody(this.#request, maxBytes)
  }

  signal(): AbortSignal {
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
    return this.#route.value(this)
  }

  send(response: HttpResponse): Promise<void> | undefined {
    return sendResponse(this.#request, this.#response, response)
  }
}

/** For a stream, resolves when it has been sent completely. Otherwise returns immediately, and Node sends the rest. */
export function sendResponse(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  response: HttpResponse,
): Promise<void> | undefined {
  const { status, body, headers, stream, closesConnection } = response
  // The client has disconnected, or a middleware of the host app has already responded, for example after a timeout.
  if (outgoing.destroyed || outgoing.headersSent) return undefined
  if (closesConnection === true) closeConnection(outgoing)
  if (stream !== undefined) {
    outgoing.writeHead(status, { ...headers })
    discardRest(incoming)
    if (incoming.method === 'HEAD') return void outgoing.end()
    return sendStream(outgoing, stream, response.stallMs ?? defaultStallMs)
  }
  if (body === undefined) outgoing.writeHead(status, { ...headers }).end()
  else {
    const bytes = Buffer.byteLength(body)
    outgoing.writeHead(
      status,
      headers === undefined
        ? { 'Content-Type': jsonType, 'Content-Length': bytes }
        : { 'Content-Type': jsonType, 'Content-Length': bytes, ...headers },
    )
    // A text with as many bytes as characters is ASCII, which Node writes faster as Latin-1.
    outgoing.end(body, bytes === body.length ? 'latin1' : 'utf8')
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
  const known = certificates.get(socket)
  if (known !== undefined) return known
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined
  const { subject, fingerprint256 } = socket.getPeerCertificate()
  // Without a certificate Node returns an empty object, contrary to its type.
  const fingerprint: string | undefined = fingerprint256
  if (fingerprint === undefined) return undefined
  const { CN } = subject
  const certificate = { commonName: Array.isArray(CN) ? CN[0] : CN, fingerprint }
  certificates.set(socket, certificate)
  return certificate
}
