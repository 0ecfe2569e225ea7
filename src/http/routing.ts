/**
 * Puts operations on paths: one Hono handler a path, so that the methods it lacks are answered too. Handlers return
 * answers and throw errors; nothing that they throw gets past here.
 */
import { type Context, Hono } from 'hono'
import { type Answer, failure, send } from './exchange.js'

export type Handler = (c: Context) => Promise<Answer>
export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'
export type Methods = { readonly [M in Method]?: Handler }

/** `toAnswer` makes the answer of what a handler threw. */
export function routes(paths: Readonly<Record<string, Methods>>, toAnswer: (error: unknown) => Answer): Hono {
  const app = new Hono()
  for (const [path, methods] of Object.entries(paths)) {
    const handle = handlerOf(methods)
    const handler = async (c: Context) => {
      let answer: Answer
      try {
        answer = await handle(c)
      } catch (error) {
        answer = toAnswer(error)
      }
      return send(c, answer)
    }
    // Both are named, since Hono's `strict: false` ends where a host mounts these routes into its own app.
    app.all(path, handler)
    app.all(`${path}/`, handler)
  }
  app.notFound((c) => send(c, failure(404, `nothing is served at ${c.req.path}`)))
  ownApps.add(app)
  return app
}

/** Apps whose answers no middleware sees: under Node they may write them by themselves. */
const ownApps = new WeakSet<object>()

export function isOwnApp(app: object): boolean {
  return ownApps.has(app)
}

function handlerOf(methods: Methods): Handler {
  const allowed = Object.keys(methods).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  const allow = { Allow: [...allowed, 'OPTIONS'].join(', ') }
  const byName = new Map<string, Handler>(Object.entries(methods))
  if (methods.GET) byName.set('HEAD', methods.GET)
  byName.set('OPTIONS', () => Promise.resolve({ status: 204, headers: allow }))
  return (c) => {
    const { method } = c.req
    const handler = byName.get(method)
    return handler === undefined
      ? Promise.resolve(failure(405, `${method} is not allowed here, only ${allow.Allow}`, allow))
      : handler(c)
  }
}
