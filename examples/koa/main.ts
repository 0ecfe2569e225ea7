/** A Koa app that has the routes of a fleet below a path. Run it with `node --import tsx <this file>`. */
import { createFleet, systemClock } from 'gamekeeper'
import { closeRoutes, fleetRoutes, koaMiddleware } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'

// An app as it may be: with a body parser, and with its own way to know who is calling.
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
const app = new Koa()
app.use(bodyParser())
app.use(async (ctx, next) => {
  if (ctx.get('authorization') === `Bearer ${token}`) await next()
  else ctx.throw(401, 'who are you?')
})

// Servers in memory, to try it out: processBackend() of gamekeeper/process starts real ones.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const routes = fleetRoutes(fleet)
app.use(koaMiddleware(routes, { prefix: '/fleet' }))

const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => {
  // Who waits for a server is sent away at once, or the server would wait for them.
  closeRoutes(routes)
  // Servers in memory live in this process, and would keep it.
  server.close(() => void fleet.close().then(() => process.exit()))
})
