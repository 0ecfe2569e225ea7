/** The routes as a Koa middleware. Describes Koa with structural types, so that the package need not be installed. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetError } from '../../contracts/errors.js'
import { aString, checkArgument, checkOptions } from '../../contracts/option-checks.js'
import { discardRest } from '../../platform/http-server.js'
import { shown } from '../../rules/validation/problem.js'
import { jsonType } from '../core/responses.js'
import { closeConnection } from '../core/node.js'
import { type Routes, routesArgument } from '../routes/routes.js'

/** The part of Koa's context that the middleware uses. */
export interface KoaContext {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly request: object
  status: number
  body: unknown
  respond?: boolean
  set(headers: { [name: string]: string }): void
}

export interface KoaOptions {
  /** Path under which the routes are mounted, such as `/fleet`. Default: the root. */
  readonly prefix?: string
}

/**
 * `app.use(koaMiddleware(fleetRoutes(fleet), { prefix: '/fleet' }))`. Works before or after a body parser. Passes other
 * paths to the next middleware. Throws `invalid` if `prefix` does not start with a slash.
 */
export function koaMiddleware(
  routes: Routes,
  options: KoaOptions = {},
): (ctx: KoaContext, next: () => Promise<unknown>) => Promise<void> {
  checkArgument('koaMiddleware', routes, routesArgument)
  checkOptions('koaMiddleware', options, { prefix: aString })
  const { prefix = '' } = options
  if (prefix !== '' && !prefix.startsWith('/')) {
    throw new FleetError('invalid', `koaMiddleware: prefix must begin with a slash, but is ${shown(prefix)}`)
  }
  return async (ctx, next) => {
    const matched = routes.match(ctx.req, ctx.res, prefix)
    if (matched === undefined) {
      await next()
      return
    }
    keepParsedBody(ctx)
    const response = await matched.respond()
    if (response.stream !== undefined) {
      // Bypass Koa for streams, since it has no timeout for stalled readers.
      ctx.respond = false
      await matched.send(response)
      return
    }
    if (response.closesConnection === true) closeConnection(ctx.res)
    ctx.status = response.status
    ctx.set({ ...(response.body !== undefined && { 'Content-Type': jsonType }), ...response.headers })
    // With a body of null or undefined, Koa would change the status to 204.
    ctx.body = response.body ?? ''
    discardRest(ctx.req)
  }
}

/** Koa's body parsers set the body on `ctx.request`, but the routes expect it on Node's request. */
function keepParsedBody({ req, request }: KoaContext): void {
  if (req.readableDidRead && 'body' in request && !('body' in req)) Object.assign(req, { body: request.body })
}
