/** Lends a Hono app to `node:http` and to frameworks that speak its request and response, such as Express. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Hono } from 'hono'
import { failure } from '../core/exchange.js'
import { describe } from '../core/error-responses.js'
import { NodeExchange } from '../core/node-exchange.js'
import { keepParsedBody, type ParsedMessage } from '../core/parsed-body.js'
import { type Find, type Table, tableOf } from '../core/routing.js'
import { responseOf } from '../core/web-exchange.js'

/** A listener for `node:http`, and a middleware for Express and what is like it. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void

/**
 * `createServer(nodeHandler(fleetRoutes(fleet)))`, or in Express and NestJS `app.use('/fleet', nodeHandler(…))`, in front
 * of a body parser or behind it. A path that the routes do not have is left to `next` where there is one. A Hono app of
 * the host's own is served as @hono/node-server does it, which puts its Request and Response in the place of the global
 * ones; for the routes of this project the globals stay as they are.
 */
export function nodeHandler(app: Pick<Hono, 'fetch'>): NodeHandler {
  const table = tableOf(app)
  const listener =
    table === undefined
      ? getRequestListener(app.fetch, { hostname: anyHost })
      : getRequestListener(app.fetch, { hostname: anyHost, overrideGlobalObjects: false, errorHandler })
  return (request: ExpressMessage, response, next) => {
    keepParsedBody(request, request)
    const done = table === undefined ? undefined : answerPlain(table.find, request, response)
    if (done === undefined && next !== undefined && table !== undefined && !isKnown(table, request)) return next()
    // What fails here is writing to the client: there is nobody left to tell.
    ;(done ?? listener(request, response)).catch(() => response.destroy())
  }
}

/** The answer to what is no URL is ours. */
function isKnown(table: Table, { method = 'GET', url = '/' }: IncomingMessage): boolean {
  const base = `http://${anyHost}`
  return !URL.canParse(url, base) || table.knows(method, new URL(url, base))
}

/** An HTTP/1.0 client need not name a host. */
const anyHost = 'localhost'

/** A target that is no URL is the client's mistake. The routes answer whatever else they meet. */
function errorHandler(error: unknown): Response {
  return responseOf(failure(error instanceof RequestError ? 400 : 500, describe(error)))
}

/** Nothing in them is to be decoded, resolved or refused, so that they mean what they say. */
const plainTarget = /^\/[!$&-;=?-Z_a-z~]*$/
const plainHost = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i

/**
 * Answers by Node's own means, at a fraction of the cost, when the request is of Node's own make and plainly means one of
 * the table's paths. Undefined for whatever else there is: that is Hono's business.
 */
function answerPlain(find: Find, request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
  if (!(request instanceof IncomingMessage) || !(response instanceof ServerResponse)) return undefined
  const { url = '', headers } = request
  if (!plainTarget.test(url) || url.includes('/.') || !plainHost.test(headers.host ?? anyHost)) return undefined
  const pathEnd = url.indexOf('?')
  const match = find(pathEnd < 0 ? url : url.slice(0, pathEnd))
  if (match === undefined) return undefined
  const exchange = new NodeExchange(request, response, pathEnd < 0 ? '' : url.slice(pathEnd + 1), match.params)
  return match.value(exchange).then((answer) => exchange.answer(answer))
}

/** Where parsers of Express leave what they have read. */
interface ExpressMessage extends ParsedMessage {
  readonly body?: unknown
}
