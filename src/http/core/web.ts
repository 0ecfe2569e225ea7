/** Requests that arrive as web-standard Requests: the routes as a `fetch` function. */
import { Socket } from 'node:net'
import { systemClock } from '../../contracts/clock.js'
import { isObject } from '../../rules/validation/problem.js'
import { alreadyRead, disconnected, tooLarge } from './bodies.js'
import { negotiated } from './content-encoding.js'
import { type ClientCertificate, Exchange, type Handler, type Match, type RequestTarget } from './exchange.js'
import { clientCertificateOf } from './node.js'
import { defaultStallMs, HttpError, type HttpResponse, jsonType, notFound } from './responses.js'

/** What @hono/node-server passes on as `env`: `incoming` is Node's request. */
export function fetchHandler(
  find: (path: string) => Match<Handler> | undefined,
  prefix = '',
): (request: Request, env?: unknown) => Promise<Response> {
  return async (request, env) => {
    const url = new URL(request.url)
    const path = pathBelow(prefix, url.pathname)
    const found = path === undefined ? undefined : find(path)
    if (path === undefined || found === undefined) return toResponse(request, notFound(url.pathname))
    const socket = socketOf(env)
    const target = { path, search: url.search.slice(1), params: found.params }
    const response = await found.value(new WebExchange(request, url, target, socket))
    return toResponse(request, response, socket && (() => socket.destroy()))
  }
}

/** Undefined for a path outside of the prefix. */
function pathBelow(prefix: string, path: string): string | undefined {
  return prefix === '' || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined
}

class WebExchange extends Exchange {
  readonly sentPath: string | undefined
  readonly #request: Request
  readonly #socket: Socket | undefined

  constructor(request: Request, url: URL, target: RequestTarget, socket: Socket | undefined) {
    super(request.method, target)
    // A framework may have removed a prefix before it passed the Request on.
    this.sentPath = target.path === url.pathname ? undefined : url.pathname
    this.#request = request
    this.#socket = socket
  }

  get remoteAddress(): string | undefined {
    return this.#socket?.remoteAddress
  }

  clientCertificate(): ClientCertificate | undefined {
    return this.#socket && clientCertificateOf(this.#socket)
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined
  }

  protected readBody(maxBytes: number): Promise<Uint8Array> {
    return readWebBody(this.#request, maxBytes)
  }

  protected watchClient(): AbortSignal {
    return this.#request.signal
  }
}

function socketOf(env: unknown): Socket | undefined {
  const incoming: unknown = isObject(env) ? env['incoming'] : undefined
  const socket: unknown = isObject(incoming) ? incoming['socket'] : undefined
  return socket instanceof Socket ? socket : undefined
}

/** `disconnect` closes the connection of a reader that accepts no data from a stream. */
function toResponse({ method, headers: asked }: Request, response: HttpResponse, disconnect?: () => void): Response {
  const { status, body, headers, stallMs = defaultStallMs } = response
  if (response.stream !== undefined) {
    const { stream = response.stream, headers } = negotiated(response, asked.get('accept-encoding') ?? undefined)
    const all = { status, headers: { ...headers } }
    return new Response(method === 'HEAD' ? null : streamedBody(stream, stallMs, disconnect), all)
  }
  if (body === undefined) return new Response(null, { status, headers: { ...headers } })
  const length = String(Buffer.byteLength(body))
  const all = { 'Content-Type': jsonType, 'Content-Length': length, ...headers }
  return new Response(method === 'HEAD' ? null : body, { status, headers: all })
}

async function readWebBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.bodyUsed) throw alreadyRead()
  const declared = request.headers.get('content-length')
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes)
  try {
    if (declared !== null && !request.headers.has('transfer-encoding')) {
      const bytes = new Uint8Array(await request.arrayBuffer())
      if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes)
      return bytes
    }
    return await readStream(request.body, maxBytes)
  } catch (error) {
    if (error instanceof HttpError) throw error
    throw request.signal.aborted ? disconnected(error) : alreadyRead(error)
  }
}

async function readStream(stream: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array()
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return Buffer.concat(chunks)
    bytes += value.byteLength
    if (bytes > maxBytes) {
      await reader.cancel()
      throw tooLarge(maxBytes)
    }
    chunks.push(value)
  }
}

/** Returns the stream as a web-standard body. `disconnect` closes the connection, if the runtime allows it. */
function streamedBody(
  stream: AsyncIterable<string | Uint8Array>,
  stallMs: number,
  disconnect: (() => void) | undefined,
): ReadableStream<Uint8Array> {
  const source = stream[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  let cancelTimeout = () => {}
  const end = async () => {
    cancelTimeout()
    await source.return?.()
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      cancelTimeout()
      const { done, value } = await source.next()
      if (done === true) return controller.close()
      controller.enqueue(typeof value === 'string' ? encoder.encode(value) : value)
      cancelTimeout = systemClock.after(stallMs, () => {
        if (disconnect) disconnect()
        else controller.error(new Error(`the reader accepted nothing for ${stallMs / 1000} s`))
        void end()
      })
    },
    cancel: end,
  })
}
