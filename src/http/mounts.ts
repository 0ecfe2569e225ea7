/** Mounts for Fastify and Koa. Uses structural types, so that neither is imported. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetError } from '../contracts/errors.js'
import { aString, checkArgument, checkOptions } from '../contracts/option-checks.js'
import { discardRest } from '../platform/http-server.js'
import { shown } from '../rules/validation/problem.js'
import { closeConnection } from './core/node.js'
import { jsonType } from './core/responses.js'
import { type Routes, routesArgument } from './route-binding.js'

interface FastifyRequest {
  readonly raw: IncomingMessage
}

interface FastifyReply {
  readonly raw: ServerResponse
  code(status: number): unknown
  headers(headers: Record<string, string>): unknown
  getHeaders(): Record<string, number | string | string[] | undefined>
  send(body?: string | Buffer): unknown
  hijack(): unknown
  callNotFound(): unknown
}

/** The part of Fastify's instance that the plugin uses. */
export interface FastifyHost {
  readonly prefix: string
  removeAllContentTypeParsers(): void
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: null) => void) => void,
  ): unknown
  addHook(name: 'preClose', hook: (done: () => void) => void): unknown
  all(path: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>): unknown
}

/**
 * `app.register(fastifyPlugin(fleetRoutes(fleet)), { prefix: '/fleet' })`. The app's hooks run for these routes, the app's
 * own 404 handler answers other paths, and `app.close()` calls `routes.close()`. The routes read bodies themselves, whether
 * or not the app has content type parsers.
 */
export function fastifyPlugin(routes: Routes): (host: FastifyHost, options: object, done: () => void) => void {
  checkArgument('fastifyPlugin', routes, routesArgument)
  return (host, _options, done) => {
    host.removeAllContentTypeParsers()
    host.addContentTypeParser('*', (_request, _payload, read) => read(null))
    host.addHook('preClose', (closed) => {
      routes.close()
      closed()
    })
    host.all('/*', async (request, reply) => {
      const matched = routes.match(request.raw, reply.raw, host.prefix)
      if (matched === undefined) return reply.callNotFound()
      const response = await matched.respond()
      const { status, body, headers } = response
      if (response.stream !== undefined) {
        // Bypass Fastify for streams, since it has no timeout for stalled readers. `hijack` drops headers set by the
        // app's hooks, so pass them on.
        const own = Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)])
        reply.hijack()
        await matched.send({ ...response, headers: { ...Object.fromEntries(own), ...headers } })
        return reply
      }
      if (response.closesConnection === true) closeConnection(reply.raw)
      reply.code(status)
      reply.headers({ ...(body !== undefined && { 'Content-Type': jsonType }), ...headers })
      reply.send(body)
      discardRest(request.raw)
      return reply
    })
    done()
  }
}

// The routes as a Koa middleware. Describes Koa with structural types, so that the package need not be installed.

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
