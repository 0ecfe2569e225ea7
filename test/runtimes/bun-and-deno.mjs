/** Run by Bun and by Deno (`.ci/runtimes`): a fleet on the memory backend, its routes on the runtime's own server, and the client. */
import assert from 'node:assert/strict'
import { createFleet } from 'gamekeeper'
import { fleetClient } from 'gamekeeper/client'
import { fleetRoutes } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'

const fleet = await createFleet({ backend: memoryBackend() })
const routes = fleetRoutes(fleet)
const server = listen((request) => routes.fetch(request))
const client = fleetClient({ url: `http://127.0.0.1:${server.port}` })

const template = { spec: { containers: [{ name: 'game' }] } }
await fleet.builds.create({
  metadata: { name: 'arena' },
  spec: { buildID: 'arena-1', standingBy: 1, max: 2, portsToExpose: [7777], template },
})
const sessionID = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11'
const allocation = await client.allocate({ buildID: 'arena-1', sessionID }, { waitMs: 10_000 })
assert.equal(allocation.SessionID, sessionID)
assert.equal((await client.builds.list()).length, 1)
const other = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a12'
await assert.rejects(client.allocate({ buildID: 'none', sessionID: other }), { code: 'not-found' })

routes.close()
await fleet.close()
await server.stop()
console.log('ok')

/** @param {(request: Request) => Promise<Response>} fetch */
function listen(fetch) {
  const options = { port: 0, hostname: '127.0.0.1' }
  const { Bun, Deno } = /** @type {Runtime} */ (/** @type {unknown} */ (globalThis))
  if (Bun !== undefined) {
    const bun = Bun.serve({ ...options, fetch })
    return { port: bun.port, stop: async () => bun.stop(true) }
  }
  if (Deno === undefined) throw new Error('run this with Bun or Deno')
  const deno = Deno.serve({ ...options, onListen() {} }, fetch)
  return { port: deno.addr.port, stop: () => deno.shutdown() }
}

/**
 * @typedef {object} Runtime
 * @property {{ serve(options: object): { readonly port: number, stop(now: boolean): void } }} [Bun]
 * @property {{ serve(options: object, fetch: object): { readonly addr: { readonly port: number }, shutdown(): Promise<void> } }} [Deno]
 */
