/**
 * Puts operations on paths, with an answer for the methods that a path lacks. Handlers return answers and throw errors;
 * nothing that they throw gets past here. Hono has every path; plain requests under `node:http` find theirs without it.
 */
import { type Context, Hono } from 'hono'
import { type Answer, type Exchange, failure, type Handler } from './exchange.js'
import type { Guard } from './guard.js'
import { type Match, matcher } from './matcher.js'
import { type Operation, type OperationName, operations } from './operations.js'
import { responseOf, WebExchange } from './web-exchange.js'

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A handler, and what it is called where a host decides who may ask for it. */
export interface Served {
  readonly operation: Operation
  readonly handle: Handler
}

export type Methods = { readonly [M in Method]?: Served }

export function operation(name: OperationName, handle: Handler): Served {
  return { operation: { name, role: operations[name] }, handle }
}

export interface RoutesOptions {
  /** Makes the answer of what a handler threw. */
  readonly toAnswer: (error: unknown) => Answer
  /** Stands before every handler. */
  readonly guard: Guard
}

export function routes(paths: Readonly<Record<string, Methods>>, { toAnswer, guard }: RoutesOptions): Hono {
  const app = new Hono()
  const table = new Map<string, Handler>()
  for (const [path, methods] of Object.entries(paths)) {
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
    const respond = async (c: Context) => responseOf(await answer(new WebExchange(c)))
    // Both are named, since Hono's `strict: false` ends where a host mounts these routes into its own app.
    app.all(path, respond)
    app.all(`${path}/`, respond)
    table.set(path, answer)
  }
  app.notFound((c) => responseOf(failure(404, `nothing is served at ${c.req.path}`)))
  tables.set(app, matcher(table))
  return app
}

/** Finds the handler of a plain path, which never rejects. */
export type Find = (path: string) => Match<Handler> | undefined

const tables = new WeakMap<object, Find>()

/** Undefined for an app that `routes` has not made. What a host adds to one that it has made comes after its table. */
export function tableOf(app: object): Find | undefined {
  return tables.get(app)
}

function handlerOf(methods: Methods, guard: Guard): Handler {
  const allowed = Object.keys(methods).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  const allow = { Allow: [...allowed, 'OPTIONS'].join(', ') }
  const byName = new Map<string, Handler>()
  for (const [method, { operation, handle }] of Object.entries(methods))
    byName.set(method, guard.before(operation, handle))
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
