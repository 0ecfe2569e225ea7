/**
 * Puts operations on paths, with an answer for the methods that a path lacks. Handlers return answers and throw errors;
 * nothing that they throw gets past here. Hono has every path; plain requests under `node:http` find theirs without it.
 */
import { type Context, Hono } from 'hono'
import { FleetError } from '../../contracts/errors.js'
import type { Compat } from '../api/compat.js'
import { type Cors, crossOrigin } from '../access/cors.js'
import { type Answer, type Exchange, failure, type Handler, json } from './exchange.js'
import type { Guard } from '../access/guard.js'
import { type Match, matcher } from './matcher.js'
import { openApiDocument } from '../openapi/document.js'
import { type Operation, type OperationName, operations, type ProbeName } from '../api/operations.js'
import { responseOf, WebExchange } from './web-exchange.js'

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A handler, and what it is called where a host decides who may ask for it. */
export interface Served {
  /** Absent for what anybody may ask for. */
  readonly operation?: Operation
  /** What that is called in the document. Absent: it is not in there. */
  readonly probe?: ProbeName
  readonly handle: Handler
}

export type Methods = { readonly [M in Method]?: Served }

export function operation(name: OperationName, handle: Handler): Served {
  return { operation: { name, role: operations[name] }, handle }
}

/** What `closeRoutes` aborts, and what a host aborts by a signal of its own. */
export function closer(closing: AbortSignal | undefined): AbortController {
  const own = new AbortController()
  if (closing?.aborted) own.abort(closing.reason)
  closing?.addEventListener('abort', () => own.abort(closing.reason), { once: true })
  return own
}

/** Paths that are answered alike. */
export interface Part {
  readonly paths: Readonly<Record<string, Methods>>
  /** Makes the answer of what a handler threw. */
  readonly toAnswer: (error: unknown) => Answer
  /** Stands before every handler. */
  readonly guard: Guard
}

export interface RoutesOptions {
  /** Aborted by `closeRoutes`. */
  readonly closing: AbortController
  readonly cors: Cors | undefined
  readonly compat?: Compat | undefined
}

/** An app of all parts, with the document of them all at `/openapi.json`. */
export function routes(parts: readonly Part[], { closing, cors, compat }: RoutesOptions): Hono {
  const app = new Hono()
  const table = new Map<string, Handler>()
  const serve = (path: string, methods: Methods, { toAnswer, guard }: Part) => {
    const handle = handlerOf(methods, guard)
    const answer = async (exchange: Exchange) => {
      let leave: (() => void) | undefined
      try {
        leave = guard.enter()
        return await handle(exchange)
      } catch (error) {
        return toAnswer(error)
      } finally {
        leave?.()
      }
    }
    const answered = cors === undefined ? answer : crossOrigin(cors, Object.keys(methods), answer)
    const respond = (pattern: string) => async (c: Context) => {
      const exchange = new WebExchange(c, pattern)
      return responseOf(await answered(exchange), exchange.cut)
    }
    // Both are named, since Hono's `strict: false` ends where a host mounts these routes into its own app.
    for (const pattern of [path, `${path}/`]) app.all(pattern, respond(pattern))
    table.set(path, answered)
  }
  for (const part of parts) for (const [path, methods] of Object.entries(part.paths)) serve(path, methods, part)
  const [first] = parts
  if (first) serve('/openapi.json', { GET: { handle: documentOf(parts, compat) } }, first)

  app.notFound((c) => responseOf(failure(404, `nothing is served at ${c.req.path}`)))
  tables.set(app, { find: matcher(table), knows: (method, url) => knows(app, method, url), closing })
  return app
}

/** Made when it is first asked for. */
function documentOf(parts: readonly Part[], compat: Compat | undefined): Handler {
  let document: Answer | undefined
  return () => {
    const served = parts.flatMap(({ paths }) => Object.values(paths)).flatMap((methods) => Object.values(methods))
    const names = served.flatMap(({ operation, probe }) => operation?.name ?? probe ?? [])
    return Promise.resolve((document ??= json(200, openApiDocument({ operations: names, compat }))))
  }
}

/** Finds the handler of a plain path, which never rejects. */
export type Find = (path: string) => Match<Handler> | undefined

export interface Table {
  readonly find: Find
  /** Whether anything is served there: by the table, or by what a host has added. */
  knows(method: string, url: URL): boolean
  readonly closing: AbortController
}

const tables = new WeakMap<object, Table>()

/** Undefined for an app that `routes` has not made. What a host adds to one that it has made comes after its table. */
export function tableOf(app: object): Table | undefined {
  return tables.get(app)
}

function knows(app: Hono, method: string, url: URL): boolean {
  const [handlers] = app.router.match(method === 'HEAD' ? 'GET' : method, app.getPath(new Request(url)))
  return handlers.length > 0
}

/**
 * Before a host closes the server that these routes are in: who waits for a server is answered with 503 at once, and
 * streams of events end. Throws `invalid` for an app that none of the factories here has made.
 */
export function closeRoutes(app: Pick<Hono, 'fetch'>): void {
  const table = tables.get(app)
  if (table === undefined) throw notOurs('closeRoutes')
  table.closing.abort(new FleetError('closed', 'this host is closing'))
}

export function notOurs(caller: string): FleetError {
  return new FleetError('invalid', `${caller} takes what allocationRoutes, managementRoutes or fleetRoutes has made`)
}

function handlerOf(methods: Methods, guard: Guard): Handler {
  const allowed = Object.keys(methods).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  const allow = { Allow: [...allowed, 'OPTIONS'].join(', ') }
  const byName = new Map<string, Handler>()
  for (const [method, { operation, handle }] of Object.entries(methods)) {
    byName.set(method, operation === undefined ? handle : guard.before(operation, handle))
  }
  const get = byName.get('GET')
  if (get) byName.set('HEAD', get)
  byName.set('OPTIONS', () => Promise.resolve({ status: 204, headers: allow }))
  return (exchange) => {
    const { method } = exchange
    const handler = byName.get(method)
    return handler === undefined
      ? Promise.resolve(failure(405, `${method} is not allowed here, only ${allow.Allow}`, allow))
      : handler(exchange)
  }
}
