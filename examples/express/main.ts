/** An Express app that has the routes of a fleet below a path. Run it with `node --import tsx <this file>`. */
import express from 'express'
import { createFleet, systemClock } from 'gamekeeper'
import { closeRoutes, fleetRoutes, nodeHandler } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// An app as it may be: with a body parser, and with its own way to know who is calling.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = express()
app.use(express.json())
app.use((request, response, next) => {
  if (request.header('authorization') === `Bearer ${token}`) next()
  else response.status(401).json({ error: 'who are you?' })
})

// Servers in memory, to try it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const routes = fleetRoutes(fleet)
app.use('/fleet', nodeHandler(routes))

const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Who waits for a server is sent away at once, or the server would wait for them.
  closeRoutes(routes)
  // Servers in memory live in this process, and would keep it.
  server.close(() => void fleet.close().then(() => process.exit()))
})
