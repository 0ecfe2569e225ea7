/** A Fastify app that serves the routes of a fleet under a path. Run it with `node --import tsx <this file>`. */
import Fastify from 'fastify'
import { createFleet, systemClock } from 'gamekeeper'
import { fastifyPlugin, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// An app with its own authentication.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = Fastify()
app.addHook('onRequest', async (request, reply) => {
  if (request.headers.authorization !== `Bearer ${token}`) await reply.code(401).send({ error: 'invalid token' })
})

// In-memory servers, for trying it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
await app.register(fastifyPlugin(fleetRoutes(fleet)), { prefix: '/fleet' })
app.addHook('onClose', () => fleet.close())

await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })
console.log(app.server.address())

// The plugin answers callers that wait for a game server. Servers in memory keep this process alive.
process.once('SIGTERM', () => void app.close().then(() => process.exit()))
