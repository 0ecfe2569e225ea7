/** A Koa app that serves a fleet's routes under a path. Run it with `node --import tsx <this file>`. */
import { createFleet, systemClock } from 'gamekeeper'
import { fleetRoutes, koaMiddleware } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'

// The app has a body parser and its own authentication.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = new Koa()
app.use(bodyParser())
app.use(async (ctx, next) => {
  if (ctx.get('authorization') === `Bearer ${token}`) await next()
  else ctx.throw(401, 'invalid token')
})

// Simulated servers in memory, for a first try. To start real ones, use processBackend() from gamekeeper/process.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const routes = fleetRoutes(fleet)
app.use(koaMiddleware(routes, { prefix: '/fleet' }))

const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Callers that wait for a game server get an answer now; otherwise `server.close` would wait for them.
  routes.close()
  // Simulated servers keep this process alive, so exit explicitly.
  server.close(() => void fleet.close().then(() => process.exit()))
})
