/** The routes that a host app mounts: one table of handlers behind a web-standard `fetch` and a `node:http` listener. */
import { setMaxListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetError } from '../contracts/errors.js'
import type { ObserverReports } from '../contracts/observer.js'
import type { ArgumentType, OptionType } from '../contracts/option-checks.js'
import { type Cors, corsOf, type CorsOptions, crossOrigin } from './access/browsers.js'
import type { Guard } from './access/guard.js'
import type { Handler, Match, Params } from './core/exchange.js'
import { type NodeHandler, nodeHandler, nodeMatcher } from './core/node.js'
import { HttpError, type HttpResponse, json, outcomeOf } from './core/responses.js'
import { fetchHandler } from './core/web.js'
import { openApiDocument } from './openapi/document.js'
import type { DescriptionOptions } from './openapi/operation-docs.js'
import {
  type Method,
  methods,
  type Operation,
  type OperationName,
  operationNames,
  operations,
  type ProbeName,
  probeNames,
  probes,
} from './operations.js'

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

/** The handlers of operations and probes, by their names in the table of operations. */
export type Handlers = { readonly [Name in OperationName | ProbeName]?: Handler | undefined }

/** Handlers that share a guard and error responses. */
export interface RouteGroup {
  readonly handlers: Handlers
  /** By path, what every caller may `GET` and the OpenAPI document does not mention. */
  readonly pages?: Readonly<Record<string, Handler>>
  readonly errorResponse: (error: unknown) => HttpResponse
  readonly guard: Guard
  /** Wraps the handlers of operations that only the leader can carry out. Absent if this host carries out all of them itself. */
  readonly forward?: ((operation: Operation, handle: Handler) => Handler) | undefined
  /** Get the outcome of each operation. */
  readonly observers?: ObserverReports | undefined
}

export type RoutesOptions = DescriptionOptions & {
  readonly [Name in keyof (CorsOptions & PrefixOption)]?: (CorsOptions & PrefixOption)[Name] | undefined
}

/** `groupsOf` gets the signal that `close` aborts, to which handlers listen. */
export function createRoutes(
  groupsOf: (closing: AbortSignal) => readonly RouteGroup[],
  { allowedOrigins = [], prefix: given = '', ...description }: RoutesOptions,
): Routes {
  const closing = new AbortController()
  // Every event stream and waiting caller listens to it. Node warns from the eleventh on.
  setMaxListeners(0, closing.signal)
  const groups = groupsOf(closing.signal)
  const prefix = given.replace(/\/+$/, '')
  const cors = corsOf({ allowedOrigins })
  const find = pathMatcher(handlersByPath(groups, cors, description))
  const match = nodeMatcher(find)
  return Object.freeze<Routes>({
    fetch: fetchHandler(find, prefix),
    nodeHandler: nodeHandler((request, response) => match(request, response, prefix)),
    match,
    close: () => closing.abort(new FleetError('closed', 'this host is closing')),
  })
}

type HandlersByMethod = Map<Method, { readonly handle: Handler; readonly operation?: OperationName }>

/** One handler for each path, which never rejects. Adds `/openapi.json`, which describes all operations of the groups. */
function handlersByPath(
  groups: readonly RouteGroup[],
  cors: Cors | undefined,
  description: DescriptionOptions,
): ReadonlyMap<string, Handler> {
  const table = new Map<string, Handler>()
  const add = (path: string, endpoints: HandlersByMethod, group: RouteGroup) => {
    const handle = limited(byMethod(endpoints, group), endpoints, group)
    const supported = methods.filter((method) => endpoints.has(method))
    table.set(path, cors === undefined ? handle : crossOrigin(cors, supported, handle))
  }
  for (const group of groups) for (const [path, endpoints] of pathsOf(group)) add(path, endpoints, group)
  const [first] = groups
  const openApi: HandlersByMethod = new Map([['GET', { handle: documentOf(groups, description) }]])
  if (first) add('/openapi.json', openApi, first)
  return table
}

function pathsOf({ handlers, pages = {}, guard, forward }: RouteGroup): ReadonlyMap<string, HandlersByMethod> {
  const paths = new Map<string, HandlersByMethod>()
  const at = (path: string) => {
    const endpoints: HandlersByMethod = paths.get(path) ?? new Map()
    paths.set(path, endpoints)
    return endpoints
  }
  for (const name of operationNames) {
    const { [name]: handle } = handlers
    if (handle === undefined) continue
    const { method, path, role } = operations[name]
    const operation = { name, role }
    const guarded = guard.before(operation, forward?.(operation, handle) ?? handle)
    at(path).set(method, { handle: guarded, operation: name })
  }
  for (const name of probeNames) {
    const { [name]: handle } = handlers
    if (handle) at(probes[name].path).set(probes[name].method, { handle })
  }
  for (const [path, handle] of Object.entries(pages)) at(path).set('GET', { handle })
  return paths
}

/** Responds with 405 to methods that the path does not support. */
function byMethod(endpoints: HandlersByMethod, { errorResponse }: RouteGroup): Handler {
  const handlers = new Map<string, Handler>()
  for (const method of methods) {
    const endpoint = endpoints.get(method)
    if (endpoint === undefined) continue
    handlers.set(method, endpoint.handle)
    if (method === 'GET') handlers.set('HEAD', endpoint.handle)
  }
  const allow = { Allow: [...handlers.keys(), 'OPTIONS'].join(', ') }
  handlers.set('OPTIONS', () => Promise.resolve({ status: 204, headers: allow }))
  return (exchange) => {
    const handle = handlers.get(exchange.method)
    if (handle !== undefined) return handle(exchange)
    const message = `${exchange.method} is not allowed here, only ${allow.Allow}`
    return Promise.resolve(errorResponse(new HttpError(405, 'unsupported', message, allow)))
  }
}

/**
 * Counts the request towards the concurrency limit, and converts every error to a response. Every request comes here, so it
 * creates no function for each, unless it is measured.
 */
function limited(handle: Handler, endpoints: HandlersByMethod, group: RouteGroup): Handler {
  const {
    guard: { inFlight },
    errorResponse,
    observers,
  } = group
  const succeeded = (response: HttpResponse) => {
    inFlight.leave()
    return response
  }
  const failed = (error: unknown) => {
    inFlight.leave()
    return errorResponse(error)
  }
  const respond: Handler = (exchange) => {
    try {
      inFlight.enter()
    } catch (error) {
      return Promise.resolve(errorResponse(error))
    }
    try {
      return handle(exchange).then(succeeded, failed)
    } catch (error) {
      return Promise.resolve(failed(error))
    }
  }
  if (observers === undefined) return respond
  const names = new Map<string, OperationName | undefined>(
    [...endpoints].map(([method, { operation }]) => [method, operation]),
  )
  return (exchange) => {
    if (observers.isEmpty) return respond(exchange)
    const name = names.get(exchange.method === 'HEAD' ? 'GET' : exchange.method)
    if (name === undefined) return respond(exchange)
    return respond(exchange).then((response) => {
      observers.report((observer) => observer.answered?.(name, outcomeOf(response)))
      return response
    })
  }
}

/** Builds the document on the first request. */
function documentOf(groups: readonly RouteGroup[], description: DescriptionOptions): Handler {
  let document: HttpResponse | undefined
  const isServed = (name: OperationName | ProbeName) => groups.some(({ handlers }) => handlers[name] !== undefined)
  return () => {
    const names = [...operationNames, ...probeNames].filter(isServed)
    return Promise.resolve((document ??= json(200, openApiDocument({ operations: names, ...description }))))
  }
}

/**
 * Finds the pattern that matches a path. Patterns without `:names` are looked up directly; the others are compared segment
 * by segment. Paths are matched as sent. A percent-encoded segment does not match a fixed segment, and a path with a dot segment (`.` or
 * `..`, encoded or not) does not match any pattern. A trailing slash is optional. A `:name` never matches an empty segment.
 */
function pathMatcher<T>(table: ReadonlyMap<string, T>): (path: string) => Match<T> | undefined {
  const exact = new Map<string, Match<T>>()
  const patterns: { readonly segments: readonly string[]; readonly value: T }[] = []
  for (const [pattern, value] of table) {
    if (pattern.includes('/:')) patterns.push({ segments: pattern.split('/'), value })
    else exact.set(pattern, { value, params: {} })
  }

  return (path) => {
    const bare = path.endsWith('/') ? path.slice(0, -1) : path
    const found = exact.get(bare)
    if (found !== undefined) return found
    const parts = bare.split('/')
    for (const { segments, value } of patterns) {
      const params = paramsOf(segments, parts)
      if (params !== undefined) return { value, params }
    }
    return undefined
  }
}

function paramsOf(segments: readonly string[], parts: readonly string[]): Params | undefined {
  if (segments.length !== parts.length) return undefined
  const params: Record<string, string> = {}
  for (const [i, segment] of segments.entries()) {
    const part = parts[i] ?? ''
    if (!segment.startsWith(':')) {
      if (part !== segment) return undefined
      continue
    }
    const value = decoded(part)
    if (value === '' || value === '.' || value === '..') return undefined
    params[segment.slice(1)] = value
  }
  return params
}

/** Returns a segment with invalid percent-encoding unchanged: no resource can have that name. */
function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
