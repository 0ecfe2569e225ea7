/** An exchange straight over `node:http`: nothing is made for a request that its handler does not ask for. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { discardRest } from '../../platform/http-server.js'
import { readNodeBody } from './body.js'
import { type Answer, type ClientCertificate, type Exchange, jsonType } from './exchange.js'
import { clientCertificateOf } from '../access/client-certificate.js'
import type { Params } from './matcher.js'
import { defaultStallMs, sendStream } from './streaming.js'

export class NodeExchange implements Exchange {
  readonly method: string
  readonly #incoming: IncomingMessage
  readonly #outgoing: ServerResponse
  readonly #query: string
  readonly #params: Params
  readonly #path: string | undefined

  /** `query` is what follows the `?` of the target; `path` what is before it, unless the target says it as it is. */
  constructor(incoming: IncomingMessage, outgoing: ServerResponse, query: string, params: Params, path?: string) {
    this.method = incoming.method ?? 'GET'
    this.#incoming = incoming
    this.#outgoing = outgoing
    this.#query = query
    this.#params = params
    this.#path = path
  }

  get path(): string {
    if (this.#path !== undefined) return this.#path
    const { url = '/' } = this.#incoming
    const end = url.indexOf('?')
    return end < 0 ? url : url.slice(0, end)
  }

  get remoteAddress(): string | undefined {
    return this.#incoming.socket.remoteAddress
  }

  clientCertificate(): ClientCertificate | undefined {
    return clientCertificateOf(this.#incoming.socket)
  }

  query(name: string): string | undefined {
    return this.#query === '' ? undefined : (new URLSearchParams(this.#query).get(name) ?? undefined)
  }

  param(name: string): string {
    return this.#params[name] ?? ''
  }

  header(name: string): string | undefined {
    const value = this.#incoming.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readNodeBody(this.#incoming, maxBytes)
  }

  signal(): AbortSignal {
    const outgoing = this.#outgoing
    const gone = new AbortController()
    const onClose = () => {
      if (!outgoing.writableFinished) gone.abort(new Error('the client has closed the connection'))
    }
    if (outgoing.destroyed) onClose()
    else outgoing.once('close', onClose)
    return gone.signal
  }

  /** Resolves when nothing is left to send of a stream; of anything else Node takes care. */
  answer({
    status,
    body,
    headers,
    stream,
    stallMs = defaultStallMs,
    isLast = false,
  }: Answer): Promise<void> | undefined {
    const outgoing = this.#outgoing
    // The client is gone, or a middleware of the host has lost its patience and answered.
    if (outgoing.destroyed || outgoing.headersSent) return undefined
    if (isLast) closeAfter(outgoing)
    if (stream !== undefined) {
      outgoing.writeHead(status, { ...headers })
      discardRest(this.#incoming)
      return sendStream(outgoing, stream, stallMs)
    }
    if (body === undefined) outgoing.writeHead(status, { ...headers })
    else if (headers === undefined) {
      outgoing.writeHead(status, { 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body) })
    } else {
      outgoing.writeHead(status, { 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body), ...headers })
    }
    outgoing.end(body)
    discardRest(this.#incoming)
    return undefined
  }
}

/** HTTP/2 has no header for that, and no need of one. */
export function closeAfter(outgoing: ServerResponse): void {
  if (outgoing.req.httpVersionMajor < 2) outgoing.setHeader('Connection', 'close')
}
