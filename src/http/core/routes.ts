/** The routes as a host mounts them: one table of handlers behind a web-standard `fetch` and a `node:http` listener. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetError } from '../../contracts/errors.js'
import { handlerTable, type HandlerTableOptions, type RouteGroup } from './handler-table.js'
import type { HttpResponse } from './http-response.js'
import { nodeMatcher } from './node-exchange.js'
import { type NodeHandler, nodeHandler } from './node-handler.js'
import { pathMatcher } from './path-matcher.js'
import { fetchHandler } from './web-exchange.js'

export interface Routes {
  /**
   * Answers a web-standard Request: `app.all('/fleet/*', mount(routes.fetch))` in Hono, `Bun.serve({ fetch: routes.fetch })`,
   * Deno, a route handler of Next.js. A path that is not one of these routes is 404. `env` is what @hono/node-server
   * passes on; without it `remoteAddress` and client certificates are unknown.
   */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>
  /** A listener for `node:http`, and a middleware: `app.use('/fleet', routes.nodeHandler)` in Express and NestJS. */
  readonly nodeHandler: NodeHandler
  /**
   * For frameworks that send responses themselves, as `fastifyPlugin` and `koaMiddleware` do. Undefined when the path is
   * not below `prefix`, or not one of these routes.
   */
  readonly match: (request: IncomingMessage, response: ServerResponse, prefix?: string) => MatchedRequest | undefined
  /**
   * Call it before closing the server: callers that wait for a game server get a 503 at once, and event streams end.
   * Without it, closing the server waits for them.
   */
  readonly close: () => void
}

export interface MatchedRequest {
  /** Runs the handler. Never rejects. */
  respond(): Promise<HttpResponse>
  /** Writes a response. Resolves when a stream has been sent to its end; otherwise returns at once. */
  send(response: HttpResponse): Promise<void> | undefined
}

export interface RoutesOptions extends HandlerTableOptions {
  /** Aborted by `close`; the groups' handlers listen to its signal. */
  readonly closing: AbortController
}

export function createRoutes(groups: readonly RouteGroup[], options: RoutesOptions): Routes {
  const { closing, ...tableOptions } = options
  const find = pathMatcher(handlerTable(groups, tableOptions))
  const match = nodeMatcher(find)
  return Object.freeze<Routes>({
    fetch: fetchHandler(find),
    nodeHandler: nodeHandler(match),
    match,
    close: () => closing.abort(new FleetError('closed', 'this host is closing')),
  })
}
