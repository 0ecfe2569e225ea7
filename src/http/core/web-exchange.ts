/** A request as a web-standard Request, and the routes as a `fetch` function. */
import { Socket } from 'node:net'
import type { Caller } from '../../contracts/audit.js'
import { isObject } from '../../rules/validation/problem.js'
import type { ClientCertificate, Exchange, Handler, Identity } from './exchange.js'
import { type HttpResponse, jsonType, notFound } from './http-response.js'
import { clientCertificateOf } from './node-exchange.js'
import type { Match, Params } from './path-matcher.js'
import { readWebBody } from './request-body.js'
import { defaultStallMs, streamedBody } from './streaming.js'

/** What @hono/node-server passes on as `env`: `incoming` is Node's request. */
export function fetchHandler(
  find: (path: string) => Match<Handler> | undefined,
  prefix = '',
): (request: Request, env?: unknown) => Promise<Response> {
  return async (request, env) => {
    const url = new URL(request.url)
    const path = pathBelow(prefix, url.pathname)
    const found = path === undefined ? undefined : find(path)
    if (path === undefined || found === undefined) return toResponse(request.method, notFound(url.pathname))
    const socket = socketOf(env)
    const response = await found.value(new WebExchange(request, { url, path }, found.params, socket))
    return toResponse(request.method, response, socket && (() => socket.destroy()))
  }
}

interface Target {
  readonly url: URL
  /** Without the prefix. */
  readonly path: string
}

/** Undefined for a path outside of the prefix. */
export function pathBelow(prefix: string, path: string): string | undefined {
  return prefix === '' || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined
}

class WebExchange implements Exchange {
  identity: Identity | undefined
  forwardedCaller: Caller | undefined
  readonly method: string
  readonly path: string
  /** Undefined if a framework may have removed a prefix before it passed the Request on. */
  readonly sentPath: string | undefined
  readonly #request: Request
  readonly #url: URL
  readonly #params: Params
  readonly #socket: Socket | undefined

  constructor(request: Request, { url, path }: Target, params: Params, socket: Socket | undefined) {
    this.method = request.method
    this.path = path
    this.sentPath = path === url.pathname ? undefined : url.pathname
    this.#request = request
    this.#url = url
    this.#params = params
    this.#socket = socket
  }

  get search(): string {
    return this.#url.search.slice(1)
  }

  get remoteAddress(): string | undefined {
    return this.#socket?.remoteAddress
  }

  clientCertificate(): ClientCertificate | undefined {
    return this.#socket && clientCertificateOf(this.#socket)
  }

  query(name: string): string | undefined {
    return this.#url.searchParams.get(name) ?? undefined
  }

  param(name: string): string {
    return this.#params[name] ?? ''
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readWebBody(this.#request, maxBytes)
  }

  signal(): AbortSignal {
    return this.#request.signal
  }
}

function socketOf(env: unknown): Socket | undefined {
  const incoming: unknown = isObject(env) ? env['incoming'] : undefined
  const socket: unknown = isObject(incoming) ? incoming['socket'] : undefined
  return socket instanceof Socket ? socket : undefined
}

/** `disconnect` closes the connection of a reader that accepts no data from a stream. */
function toResponse(method: string, response: HttpResponse, disconnect?: () => void): Response {
  const { status, body, headers, stream, stallMs = defaultStallMs } = response
  if (stream !== undefined) {
    const all = { status, headers: { ...headers } }
    return new Response(method === 'HEAD' ? null : streamedBody(stream, stallMs, disconnect), all)
  }
  if (body === undefined) return new Response(null, { status, headers: { ...headers } })
  const length = String(Buffer.byteLength(body))
  const all = { 'Content-Type': jsonType, 'Content-Length': length, ...headers }
  return new Response(method === 'HEAD' ? null : body, { status, headers: all })
}
