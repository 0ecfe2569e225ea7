/** Lends a Hono app to `node:http` and to frameworks that speak its request and response, such as Express. */
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Hono } from 'hono'
import { failure } from './exchange.js'
import { describe } from './failures.js'
import { NodeExchange } from './node-exchange.js'
import { type Find, tableOf } from './routing.js'
import { responseOf } from './web-exchange.js'

/**
 * `createServer(nodeHandler(managementRoutes(fleet)))`, or in Express `app.use('/fleet', nodeHandler(…))`, also behind a
 * body parser. A Hono app of the host's own is served as @hono/node-server does it, which puts its Request and Response
 * in the place of the global ones; for the routes of this project the globals stay as they are.
 */
export function nodeHandler(app: Pick<Hono, 'fetch'>): RequestListener {
  const find = tableOf(app)
  const listener =
    find === undefined
      ? getRequestListener(app.fetch, { hostname: anyHost })
      : getRequestListener(app.fetch, { hostname: anyHost, overrideGlobalObjects: false, errorHandler })
  return (request: ParsedRequest, response) => {
    keepParsedBody(request)
    const done = find === undefined ? undefined : answerPlain(find, request, response)
    // What fails here is writing to the client: there is nobody left to tell.
    ;(done ?? listener(request, response)).catch(() => response.destroy())
  }
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

/** Body parsers leave what they made of the body in `body`; @hono/node-server and these routes look in `rawBody`. */
interface ParsedRequest extends IncomingMessage {
  readonly body?: unknown
  rawBody?: unknown
}

function keepParsedBody(request: ParsedRequest): void {
  // A parser that has left the stream alone may still have put `{}` there.
  if (!request.readableDidRead || request.body === undefined || request.rawBody !== undefined) return
  const { body } = request
  try {
    request.rawBody = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  } catch {
    // Nested too deep to be written: the routes will say that the body cannot be read.
  }
}
