/** The routes as a Fastify plugin. Describes Fastify with structural types, so that the package need not be installed. */
import { checkArgument } from '../../contracts/option-checks.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { discardRest } from '../../platform/http-server.js'
import { jsonType } from '../core/responses.js'
import { closeConnection } from '../core/node.js'
import { type Routes, routesArgument } from '../routes/routes.js'

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
