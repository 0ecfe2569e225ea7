/** A Fastify app that serves a fleet's routes under a path. Run it with `node --import tsx <this file>`. */
import Fastify from 'fastify'
import { createFleet, systemClock } from 'gamekeeper'
import { fastifyPlugin, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// The app has its own authentication.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = Fastify()
app.addHook('onRequest', async (request, reply) => {
  if (request.headers.authorization !== `Bearer ${token}`) await reply.code(401).send({ error: 'invalid token' })
})

// Simulated servers in memory, for a first try. To start real ones, use processBackend() from gamekeeper/process.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
await app.register(fastifyPlugin(fleetRoutes(fleet)), { prefix: '/fleet' })
app.addHook('onClose', () => fleet.close())

await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })
console.log(app.server.address())

// On close, the plugin answers callers that wait for a game server. Simulated servers keep this process alive, so exit
// explicitly.
process.once('SIGTERM', () => void app.close().then(() => process.exit()))
