/**
 * How a route answers. Two ways lead to the same bytes: inside a host's Hono app the web standard's Response, which any
 * middleware may still change; under a listener of this project (`node-handler.ts`) Node's own response, at half the cost.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'hono'

export interface Answer {
  readonly status: number
  /** JSON. Absent: no content. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

export function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) }
}

/** Every error body of every surface. */
export function failure(status: number, message: string, headers?: Readonly<Record<string, string>>): Answer {
  const body = JSON.stringify({ error: message })
  return headers === undefined ? { status, body } : { status, body, headers }
}

/** What is thrown where an answer is due that is not the handler's own. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly answer: Answer

  constructor(status: number, message: string) {
    super(message)
    this.answer = failure(status, message)
  }
}

/** Node's two halves of an exchange. Comes along in Hono's `env` when no middleware stands between it and the route. */
export interface NodeExchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

const key = Symbol('gamekeeper.nodeExchange')

export function envOf(exchange: NodeExchange): object {
  return { [key]: exchange }
}

export function nodeExchangeOf(c: Context): NodeExchange | undefined {
  const env: { readonly [key]?: NodeExchange } | undefined = c.env
  return env?.[key]
}

const jsonType = 'application/json'

export function send(c: Context, { status, body, headers }: Answer): Response {
  const outgoing = nodeExchangeOf(c)?.outgoing
  if (outgoing === undefined) {
    const type = body === undefined ? undefined : { 'Content-Type': jsonType }
    return new Response(body ?? null, { status, headers: { ...type, ...headers } })
  }
  if (body === undefined) outgoing.writeHead(status, { ...headers })
  else if (headers === undefined) {
    outgoing.writeHead(status, { 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body) })
  } else {
    outgoing.writeHead(status, { 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body), ...headers })
  }
  outgoing.end(body)
  return placeholder
}

/** What a handler must return when the answer is on its way already. Nobody reads it. */
const placeholder = new Response(null)
