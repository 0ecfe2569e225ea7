/** A plain `node:http` server that serves a fleet's routes under a path. Run it with `node --import tsx <this file>`. */
import { createServer } from 'node:http'
import { createFleet, systemClock } from 'gamekeeper'
import { bearerTokens, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// Simulated servers in memory, for a first try. To start real ones, use processBackend() from gamekeeper/process.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const routes = fleetRoutes(fleet, { authorize: bearerTokens([{ token, roles: ['allocate', 'manage'] }]) })

const server = createServer((request, response) => {
  if (!request.url?.startsWith('/fleet/')) return response.writeHead(404).end('not found')
  request.url = request.url.slice('/fleet'.length)
  return routes.nodeHandler(request, response)
})
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Callers that wait for a game server get an answer now; otherwise `server.close` would wait for them.
  routes.close()
  // Simulated servers keep this process alive, so exit explicitly.
  server.close(() => void fleet.close().then(() => process.exit()))
})
