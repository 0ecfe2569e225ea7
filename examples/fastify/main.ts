/** A Fastify app that has the routes of a fleet below a path. Run it with `node --import tsx <this file>`. */
import Fastify from 'fastify'
import { createFleet, systemClock } from 'gamekeeper'
import { fastifyPlugin, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// An app as it may be: with its own way to know who is calling.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = Fastify()
app.addHook('onRequest', async (request, reply) => {
  if (request.headers.authorization !== `Bearer ${token}`) await reply.code(401).send({ error: 'who are you?' })
})

// Servers in memory, to try it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
await app.register(fastifyPlugin(fleetRoutes(fleet)), { prefix: '/fleet' })
app.addHook('onClose', () => fleet.close())

await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })
console.log(app.server.address())

// Who waits for a server is sent away at once: the plugin sees to that. Servers in memory would keep this process.
process.once('SIGTERM', () => void app.close().then(() => process.exit()))
