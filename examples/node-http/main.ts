/** A server of plain `node:http` that has the routes of a fleet below a path. Run it with `node --import tsx <this file>`. */
import { createServer } from 'node:http'
import { createFleet, systemClock } from 'gamekeeper'
import { bearerTokens, closeRoutes, fleetRoutes, nodeHandler } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// Servers in memory, to try it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const routes = fleetRoutes(fleet, { authorize: bearerTokens([{ token, roles: ['allocate', 'manage'] }]) })
const handle = nodeHandler(routes)

const server = createServer((request, response) => {
  if (!request.url?.startsWith('/fleet/')) return response.writeHead(404).end('not here')
  request.url = request.url.slice('/fleet'.length)
  return handle(request, response)
})
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Who waits for a server is sent away at once, or the server would wait for them.
  closeRoutes(routes)
  // Servers in memory live in this process, and would keep it.
  server.close(() => void fleet.close().then(() => process.exit()))
})
