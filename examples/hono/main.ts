/** A Hono app that serves a fleet's routes under a path. Run it with `node --import tsx <this file>`. */
import { serve } from '@hono/node-server'
import { createFleet, systemClock } from 'gamekeeper'
import { fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { mount } from 'hono/mount'

// Simulated servers in memory, for a first try. To start real ones, use processBackend() from gamekeeper/process.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const routes = fleetRoutes(fleet)

const app = new Hono()
app.use('/fleet/*', bearerAuth({ token }))
app.all('/fleet/*', mount(routes.fetch))

const port = Number(process.env['PORT'] ?? 3000)
const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, (address) => console.log(address))

process.once('SIGTERM', () => {
  // Callers that wait for a game server get an answer now; otherwise `server.close` would wait for them.
  routes.close()
  // Simulated servers keep this process alive, so exit explicitly.
  server.close(() => void fleet.close().then(() => process.exit()))
})
