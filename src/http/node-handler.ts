/** Lends a Hono app to `node:http` and to frameworks that speak its request and response, such as Express. */
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Hono } from 'hono'
import { envOf, failure } from './exchange.js'
import { describe } from './failures.js'
import { isOwnApp } from './routing.js'

/**
 * `createServer(nodeHandler(managementRoutes(fleet)))`, or in Express `app.use('/fleet', nodeHandler(…))`, also behind a
 * body parser. A Hono app of the host's own is served as @hono/node-server does it, which puts its Request and Response
 * in the place of the global ones; for the routes of this project the globals stay as they are.
 */
export function nodeHandler(app: Pick<Hono, 'fetch'>): RequestListener {
  const listener = isOwnApp(app) ? ownListener(app) : getRequestListener(app.fetch, { hostname: anyHost })
  return (request: ParsedRequest, response) => {
    keepParsedBody(request)
    // What fails here is writing to the client: there is nobody left to tell.
    listener(request, response).catch(() => response.destroy())
  }
}

/** An HTTP/1.0 client need not name a host. */
const anyHost = 'localhost'

function ownListener(app: Pick<Hono, 'fetch'>): ReturnType<typeof getRequestListener> {
  return getRequestListener(
    async (request, env) => {
      const { incoming, outgoing } = env
      if (!(incoming instanceof IncomingMessage) || !(outgoing instanceof ServerResponse)) {
        return app.fetch(request, env)
      }
      await app.fetch(request, envOf({ incoming, outgoing }))
      throw answered
    },
    {
      hostname: anyHost,
      overrideGlobalObjects: false,
      errorHandler: (error) => (error === answered ? undefined : errorAnswer(error)),
    },
  )
}

/** Tells @hono/node-server that the route has answered by itself: an error that is handled already. */
const answered = new Error('answered')

/** A target that is no URL is the client's mistake. The routes answer whatever else they meet. */
function errorAnswer(error: unknown): Response {
  const { status, body = '' } = failure(error instanceof RequestError ? 400 : 500, describe(error))
  return new Response(body, { status, headers: { 'Content-Type': 'application/json' } })
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
