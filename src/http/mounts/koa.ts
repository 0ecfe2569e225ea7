/** Lends the routes to Koa, as a middleware. Knows Koa by its shape only. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Hono } from 'hono'
import { FleetError } from '../../contracts/errors.js'
import { shown } from '../../rules/validation/problem.js'
import { discardRest } from '../../platform/http-server.js'
import { findBelow } from './mounted-route.js'
import { jsonType } from '../core/exchange.js'
import { closeAfter } from '../core/node-exchange.js'
import { keepParsedBody } from '../core/parsed-body.js'
import { notOurs, tableOf } from '../core/routing.js'

/** What is used of Koa's context. */
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
  /** Where the routes are: `/fleet`. Default: at the root. */
  readonly prefix?: string
}

/**
 * `app.use(koaMiddleware(fleetRoutes(fleet), { prefix: '/fleet' }))`, in front of a body parser or behind it. Other paths
 * go on to the next middleware, and the answers come past those before. Throws `invalid` for an app that none of the
 * factories here has made, and for a prefix without a slash.
 */
export function koaMiddleware(
  routes: Pick<Hono, 'fetch'>,
  { prefix = '' }: KoaOptions = {},
): (ctx: KoaContext, next: () => Promise<unknown>) => Promise<void> {
  const table = tableOf(routes)
  if (table === undefined) throw notOurs('koaMiddleware')
  if (prefix !== '' && !prefix.startsWith('/')) {
    throw new FleetError('invalid', `koaMiddleware: prefix must begin with a slash, but is ${shown(prefix)}`)
  }
  return async (ctx, next) => {
    const found = findBelow(prefix, table.find, ctx.req, ctx.res)
    if (found === undefined) {
      await next()
      return
    }
    keepParsedBody(ctx.req, ctx.request)
    const answer = await found.answer()
    if (answer.stream !== undefined) {
      // A stream is sent at its reader's pace, which Koa leaves to who asks for it.
      ctx.respond = false
      await found.exchange.answer(answer)
      return
    }
    if (answer.isLast === true) closeAfter(ctx.res)
    ctx.status = answer.status
    ctx.set({ ...(answer.body !== undefined && { 'Content-Type': jsonType }), ...answer.headers })
    // Koa takes null for 204, whatever the status is.
    ctx.body = answer.body ?? ''
    discardRest(ctx.req)
  }
}
