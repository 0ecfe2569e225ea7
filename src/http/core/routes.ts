/** The routes that a host app mounts: one table of handlers behind a web-standard `fetch` and a `node:http` listener. */
import { setMaxListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetError } from '../../contracts/errors.js'
import type { ArgumentType, OptionType } from '../../contracts/option-checks.js'
import { handlerTable, type HandlerTableOptions, type RouteGroup } from './handler-table.js'
import type { HttpResponse } from './http-response.js'
import { nodeMatcher } from './node-exchange.js'
import { type NodeHandler, nodeHandler } from './node-handler.js'
import { pathMatcher } from './path-matcher.js'
import { fetchHandler } from './web-exchange.js'

export interface Routes {
  /**
   * Handles a web-standard Request: in Hono (`app.all('/fleet/*', mount(routes.fetch))`), Bun (`Bun.serve({ fetch:
   * routes.fetch })`), Deno, or a Next.js route handler. A path that matches no route gets 404. `env` is what
   * @hono/node-server passes on; without it, `remoteAddress` and client certificates are undefined.
   */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>
  /** A `node:http` listener that also works as middleware: `app.use('/fleet', routes.nodeHandler)` in Express and NestJS. */
  readonly nodeHandler: NodeHandler
  /**
   * For frameworks that send responses themselves; `fastifyPlugin` and `koaMiddleware` use it. Returns undefined if the path
   * is outside `prefix` or matches no route.
   */
  readonly match: (request: IncomingMessage, response: ServerResponse, prefix?: string) => MatchedRequest | undefined
  /**
   * Call this before you close the HTTP server: callers that wait for a game server get 503 immediately, and event streams
   * end. Otherwise closing the HTTP server waits for them.
   */
  readonly close: () => void
}

/** What a mount of a framework takes. */
export const routesArgument: ArgumentType = {
  what: 'routes, such as fleetRoutes(fleet)',
  members: ['match', 'close'],
  wrapped: 'routes',
}

export interface MatchedRequest {
  /** Runs the handler. Never rejects. */
  respond(): Promise<HttpResponse>
  /** Writes a response. For a stream, resolves when it has been sent completely; otherwise returns immediately. */
  send(response: HttpResponse): Promise<void> | undefined
}

export interface PrefixOption {
  /**
   * The path below which `fetch` and `nodeHandler` serve the routes, such as `/fleet`, where the framework passes whole paths on, as Next.js
   * does. Default: none, for a framework that removes it, such as Express. `match` has its own.
   */
  readonly prefix?: string
}

export const prefixType: OptionType = {
  must: 'must be a path that begins with a slash, such as /fleet',
  is: (value) => typeof value === 'string' && /^\/[^?#]*$/.test(value),
}

export interface RoutesOptions extends HandlerTableOptions {
  readonly prefix?: string | undefined
  /** Aborted by `close`. Handlers listen to this signal. */
  readonly closing: AbortController
}

export function createRoutes(groups: readonly RouteGroup[], options: RoutesOptions): Routes {
  const { closing, prefix: given = '', ...tableOptions } = options
  const prefix = given.replace(/\/+$/, '')
  // Every event stream and waiting caller listens to it. Node warns from the eleventh on.
  setMaxListeners(0, closing.signal)
  const find = pathMatcher(handlerTable(groups, tableOptions))
  const match = nodeMatcher(find)
  return Object.freeze<Routes>({
    fetch: fetchHandler(find, prefix),
    nodeHandler: nodeHandler((request, response) => match(request, response, prefix)),
    match,
    close: () => closing.abort(new FleetError('closed', 'this host is closing')),
  })
}
