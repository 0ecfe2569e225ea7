/** A Koa app that serves the routes of a fleet under a path. Run it with `node --import tsx <this file>`. */
import { createFleet, systemClock } from 'gamekeeper'
import { fleetRoutes, koaMiddleware } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'

// An app with a body parser and its own authentication.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = new Koa()
app.use(bodyParser())
app.use(async (ctx, next) => {
  if (ctx.get('authorization') === `Bearer ${token}`) await next()
  else ctx.throw(401, 'invalid token')
})

// In-memory servers, for trying it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const routes = fleetRoutes(fleet)
app.use(koaMiddleware(routes, { prefix: '/fleet' }))

const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Answers callers that wait for a game server; otherwise `server.close` would wait for them.
  routes.close()
  // Servers in memory keep this process alive.
  server.close(() => void fleet.close().then(() => process.exit()))
})
