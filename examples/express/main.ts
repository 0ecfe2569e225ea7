/** An Express app that serves the routes of a fleet under a path. Run it with `node --import tsx <this file>`. */
import express from 'express'
import { createFleet, systemClock } from 'gamekeeper'
import { fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// An app with a body parser and its own authentication.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = express()
app.use(express.json())
app.use((request, response, next) => {
  if (request.header('authorization') === `Bearer ${token}`) next()
  else response.status(401).json({ error: 'invalid token' })
})

// In-memory servers, for trying it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const routes = fleetRoutes(fleet)
app.use('/fleet', routes.nodeHandler)

const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Answers callers that wait for a game server; otherwise `server.close` would wait for them.
  routes.close()
  // Servers in memory keep this process alive.
  server.close(() => void fleet.close().then(() => process.exit()))
})
