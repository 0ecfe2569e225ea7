/**
 * A NestJS app that serves a fleet's routes under a path, on Express or, with PLATFORM=fastify, on Fastify. Run it with
 * `node --import tsx <this file>`.
 */
import 'reflect-metadata'
import { type INestApplication, Module, type BeforeApplicationShutdown } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { createFleet, systemClock } from 'gamekeeper'
import { bearerTokens, fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

// Simulated servers in memory, for a first try. To start real ones, use processBackend() from gamekeeper/process.
const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }) })
const token = process.env['FLEET_TOKEN'] ?? 'a-token-to-try-it-out'
// NestJS guards protect only controllers, so the routes check tokens themselves.
const routes = fleetRoutes(fleet, { authorize: bearerTokens([{ token, roles: ['allocate', 'manage'] }]) })

class FleetModule implements BeforeApplicationShutdown {
  async beforeApplicationShutdown(): Promise<void> {
    // Callers that wait for a game server get an answer now; otherwise the app would wait for them.
    routes.close()
    await fleet.close()
  }
}
Module({})(FleetModule)

const adapter = process.env['PLATFORM'] === 'fastify' ? new FastifyAdapter() : new ExpressAdapter()
const app: INestApplication = await NestFactory.create(FleetModule, adapter, { logger: ['error', 'warn'] })
app.use('/fleet', routes.nodeHandler)
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
console.log(app.getHttpServer().address())
