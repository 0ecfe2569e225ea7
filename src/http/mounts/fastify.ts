/** Lends the routes to Fastify, as a plugin. Knows Fastify by its shape only. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Hono } from 'hono'
import { discardRest } from '../../platform/http-server.js'
import { findBelow } from './mounted-route.js'
import { jsonType } from '../core/exchange.js'
import { closeAfter } from '../core/node-exchange.js'
import { closeRoutes, notOurs, tableOf } from '../core/routing.js'

interface FastifyRequest {
  readonly raw: IncomingMessage
}

interface FastifyReply {
  readonly raw: ServerResponse
  code(status: number): unknown
  headers(headers: Record<string, string>): unknown
  getHeaders(): Record<string, number | string | string[] | undefined>
  send(body?: string): unknown
  hijack(): unknown
  callNotFound(): unknown
}

/** What is used of Fastify's instance. */
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
 * `app.register(fastifyPlugin(fleetRoutes(fleet)), { prefix: '/fleet' })`. Hooks of the app run around the calls, other
 * paths get its own 404, and `app.close()` ends what waits. Bodies are read by the routes, whatever parsers the app has.
 * Throws `invalid` for an app that none of the factories here has made.
 */
export function fastifyPlugin(
  routes: Pick<Hono, 'fetch'>,
): (host: FastifyHost, options: object, done: () => void) => void {
  const table = tableOf(routes)
  if (table === undefined) throw notOurs('fastifyPlugin')
  return (host, _options, done) => {
    host.removeAllContentTypeParsers()
    host.addContentTypeParser('*', (_request, _payload, read) => read(null))
    host.addHook('preClose', (closed) => {
      closeRoutes(routes)
      closed()
    })
    host.all('/*', async (request, reply) => {
      const found = findBelow(host.prefix, table.find, request.raw, reply.raw)
      if (found === undefined) return reply.callNotFound()
      const { body, headers, status, stream, isLast = false, ...rest } = await found.answer()
      if (stream !== undefined) {
        // A stream is sent at its reader's pace, which Fastify leaves to who takes the answer over.
        const own = Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)])
        reply.hijack()
        await found.exchange.answer({ ...rest, status, stream, headers: { ...Object.fromEntries(own), ...headers } })
        return reply
      }
      if (isLast) closeAfter(reply.raw)
      reply.code(status)
      reply.headers({ ...(body !== undefined && { 'Content-Type': jsonType }), ...headers })
      reply.send(body)
      discardRest(request.raw)
      return reply
    })
    done()
  }
}
