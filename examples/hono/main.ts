/** A Hono app that has the routes of a fleet below a path. Run it with `node --import tsx <this file>`. */
import { serve } from '@hono/node-server'
import { createFleet, systemClock } from 'gamekeeper'
import { closeRoutes, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'

// Servers in memory, to try it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const routes = fleetRoutes(fleet)

const app = new Hono()
app.use('/fleet/*', bearerAuth({ token }))
app.route('/fleet', routes)

const port = Number(process.env['PORT'] ?? 3000)
const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, (address) => console.log(address))

process.once('SIGTERM', () => {
  // Who waits for a server is sent away at once, or the server would wait for them.
  closeRoutes(routes)
  // Servers in memory live in this process, and would keep it.
  server.close(() => void fleet.close().then(() => process.exit()))
})
