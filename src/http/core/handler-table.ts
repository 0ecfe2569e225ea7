/**
 * Builds a table with one handler per path. A handler never rejects, and responds with 405 to methods that the path does not
 * support. Adds `/openapi.json`, which describes all paths.
 */
import type { ObserverReports } from '../../contracts/observer.js'
import { type Cors, crossOrigin } from '../access/cors.js'
import type { Guard } from '../access/guard.js'
import { type Operation, type OperationName, operations, type ProbeName } from '../api/operations.js'
import { openApiDocument } from '../openapi/document.js'
import type { DescriptionOptions } from '../openapi/operation-docs.js'
import type { Handler } from './exchange.js'
import { HttpError, json, outcomeOf, type HttpResponse } from './http-response.js'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The handler for one method of a path. */
export interface Endpoint {
  /** The operation that `authorize` receives. Absent if every caller is allowed. */
  readonly operation?: Operation
  /**
   * Name of a probe endpoint in the OpenAPI document. An endpoint with neither `operation` nor `probe` is not in the
   * document.
   */
  readonly probe?: ProbeName
  readonly handle: Handler
}

export type Endpoints = { readonly [M in Method]?: Endpoint }

export function operation(name: OperationName, handle: Handler): Endpoint {
  return { operation: { name, role: operations[name] }, handle }
}

/** Paths that share a guard and error responses. */
export interface RouteGroup {
  readonly paths: Readonly<Record<string, Endpoints>>
  readonly errorResponse: (error: unknown) => HttpResponse
  readonly guard: Guard
  /** Wraps the handlers of operations that only the leader can carry out. Absent if this host carries out all of them itself. */
  readonly forward?: ((operation: Operation, handle: Handler) => Handler) | undefined
  /** Get the outcome of each operation. */
  readonly observers?: ObserverReports | undefined
}

export interface HandlerTableOptions extends DescriptionOptions {
  readonly cors: Cors | undefined
}

export function handlerTable(
  groups: readonly RouteGroup[],
  { cors, ...description }: HandlerTableOptions,
): ReadonlyMap<string, Handler> {
  const table = new Map<string, Handler>()
  const add = (path: string, endpoints: Endpoints, group: RouteGroup) => {
    const handle = withErrorResponses(byMethod(endpoints, group), endpoints, group)
    table.set(path, cors === undefined ? handle : crossOrigin(cors, Object.keys(endpoints), handle))
  }
  for (const group of groups) for (const [path, endpoints] of Object.entries(group.paths)) add(path, endpoints, group)
  const [first] = groups
  if (first) add('/openapi.json', { GET: { handle: documentOf(groups, description) } }, first)
  return table
}

/**
 * Counts the request towards the concurrency limit, and converts every error to a response. Every request comes here, so it
 * creates no function for each, unless it is measured.
 */
function withErrorResponses(handle: Handler, endpoints: Endpoints, group: RouteGroup): Handler {
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
  const operations = new Map(Object.entries(endpoints).map(([method, { operation }]) => [method, operation?.name]))
  return (exchange) => {
    const operation = operations.get(exchange.method === 'HEAD' ? 'GET' : exchange.method)
    if (observers.isEmpty || operation === undefined) return respond(exchange)
    return respond(exchange).then((response) => {
      observers.report((observer) => observer.answered?.(operation, outcomeOf(response)))
      return response
    })
  }
}

function byMethod(endpoints: Endpoints, { guard, forward, errorResponse }: RouteGroup): Handler {
  const allowed = Object.keys(endpoints).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  const allow = { Allow: [...allowed, 'OPTIONS'].join(', ') }
  const handlers = new Map<string, Handler>()
  for (const [method, { operation, handle }] of Object.entries(endpoints)) {
    handlers.set(
      method,
      operation === undefined ? handle : guard.before(operation, forward?.(operation, handle) ?? handle),
    )
  }
  const get = handlers.get('GET')
  if (get) handlers.set('HEAD', get)
  handlers.set('OPTIONS', () => Promise.resolve({ status: 204, headers: allow }))
  return (exchange) => {
    const { method } = exchange
    const handle = handlers.get(method)
    if (handle !== undefined) return handle(exchange)
    const message = `${method} is not allowed here, only ${allow.Allow}`
    return Promise.resolve(errorResponse(new HttpError(405, 'unsupported', message, allow)))
  }
}

/** Builds the document on the first request. */
function documentOf(groups: readonly RouteGroup[], description: DescriptionOptions): Handler {
  let document: HttpResponse | undefined
  return () => {
    const endpoints = groups.flatMap(({ paths }) => Object.values(paths)).flatMap((path) => Object.values(path))
    const names = endpoints.flatMap(({ operation, probe }) => operation?.name ?? probe ?? [])
    return Promise.resolve((document ??= json(200, openApiDocument({ operations: names, ...description }))))
  }
}
