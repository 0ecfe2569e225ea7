/** An exchange over Hono's Context: for a host's own Hono app, whose middleware may change the answer, and for `fetch`. */
import { Socket } from 'node:net'
import type { Context } from 'hono'
import { routePath } from 'hono/route'
import { isObject } from '../../rules/validation/problem.js'
import { readWebBody } from './body.js'
import { clientCertificateOf } from '../access/client-certificate.js'
import { type Answer, type ClientCertificate, type Exchange, jsonType } from './exchange.js'
import { defaultStallMs, streamedBody } from './streaming.js'

export class WebExchange implements Exchange {
  readonly method: string
  readonly #c: Context
  readonly #pattern: string

  /** `pattern`: under which the routes have registered what is asked for. */
  constructor(c: Context, pattern: string) {
    this.method = c.req.method
    this.#c = c
    this.#pattern = pattern
  }

  get path(): string {
    const { path } = this.#c.req
    // A host that has mounted the routes has registered more than they did; a segment of that may be a `:name`.
    const above = routePath(this.#c).split('/').length - this.#pattern.split('/').length
    return above > 0
      ? `/${path
          .split('/')
          .slice(above + 1)
          .join('/')}`
      : path
  }

  get remoteAddress(): string | undefined {
    return this.#socket()?.remoteAddress
  }

  clientCertificate(): ClientCertificate | undefined {
    const socket = this.#socket()
    return socket && clientCertificateOf(socket)
  }

  /** Ends the connection. Undefined where the runtime does not show it. */
  get cut(): (() => void) | undefined {
    const socket = this.#socket()
    return socket && (() => socket.destroy())
  }

  /** Where @hono/node-server is below, it leaves Node's request in the environment. */
  #socket(): Socket | undefined {
    const env: unknown = this.#c.env
    const incoming: unknown = isObject(env) ? env['incoming'] : undefined
    const socket: unknown = isObject(incoming) ? incoming['socket'] : undefined
    return socket instanceof Socket ? socket : undefined
  }

  query(name: string): string | undefined {
    return this.#c.req.query(name)
  }

  param(name: string): string {
    return this.#c.req.param(name) ?? ''
  }

  header(name: string): string | undefined {
    return this.#c.req.header(name)
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readWebBody(this.#c, maxBytes)
  }

  signal(): AbortSignal {
    return this.#c.req.raw.signal
  }
}

/** `cut` ends the connection of a reader that takes nothing of a stream. */
export function responseOf(answer: Answer, cut?: () => void): Response {
  const { status, body, headers, stream, stallMs = defaultStallMs } = answer
  if (stream !== undefined) return new Response(streamedBody(stream, stallMs, cut), { status, headers: { ...headers } })
  const type = body === undefined ? undefined : { 'Content-Type': jsonType }
  return new Response(body ?? null, { status, headers: { ...type, ...headers } })
}
