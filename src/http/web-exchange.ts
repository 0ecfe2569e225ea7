/** An exchange over Hono's Context: for a host's own Hono app, whose middleware may change the answer, and for `fetch`. */
import type { Context } from 'hono'
import { readWebBody } from './body.js'
import { type Answer, type Exchange, jsonType } from './exchange.js'

export class WebExchange implements Exchange {
  readonly method: string
  readonly #c: Context

  constructor(c: Context) {
    this.method = c.req.method
    this.#c = c
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

export function responseOf({ status, body, headers }: Answer): Response {
  const type = body === undefined ? undefined : { 'Content-Type': jsonType }
  return new Response(body ?? null, { status, headers: { ...type, ...headers } })
}
