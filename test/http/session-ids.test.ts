/** Which sessionIDs the allocation API accepts, and what a compatibility format leaves out. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allocationRoutes, fleetRoutes, type Routes, serve } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, type Listener, listening } from './client.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
const listeners: Listener[] = []

beforeAll(async () => {
  fleet = await memoryFleet()
  await fleet.builds.create(build({ standingBy: 20, max: 20 }))
  await standingBy(fleet, 20)
})
afterAll(async () => {
  for (const listener of listeners) await listener.close()
  await fleet.close()
})

async function allocate(routes: Routes, id: unknown) {
  const listener = await listening(routes.nodeHandler)
  listeners.push(listener)
  const reply = await call('POST', `${listener.url}/api/v1/allocate`, { body: { buildID, sessionID: id } })
  return { status: reply.status, json: JSON.parse(reply.text) as Record<string, unknown> }
}

describe('sessionIDs', () => {
  it('may be anything visible by default', async () => {
    const id = 'ranked/eu 7 "試合" 🎮'
    expect(await allocate(allocationRoutes(fleet), id)).toMatchObject({ status: 200, json: { SessionID: id } })
  })

  it.each([
    ['allocationRoutes', () => allocationRoutes(fleet, { sessionIDs: 'guid' })],
    ['allocationRoutes with compat', () => allocationRoutes(fleet, { compat: 'thundernetes' })],
    ['fleetRoutes', () => fleetRoutes(fleet, { sessionIDs: 'guid' })],
    ['fleetRoutes with compat', () => fleetRoutes(fleet, { compat: 'thundernetes' })],
  ])("must be GUIDs for %s with 'guid'", async (_, routes) => {
    const refused = {
      status: 400,
      json: { error: expect.stringMatching(/^sessionID must be a GUID, but is "match 7"; with SESSION_IDS=any /) },
    }
    expect(await allocate(routes(), 'match 7')).toMatchObject(refused)
    expect(await allocate(routes(), undefined)).toMatchObject({
      json: { error: expect.stringMatching(/GUID.*absent/) },
    })
    expect(await allocate(routes(), sessionID.toUpperCase())).toMatchObject({ status: 200 })
  })

  it("may be anything with compat and 'any'", async () => {
    const routes = allocationRoutes(fleet, { compat: 'thundernetes', sessionIDs: 'any' })
    expect(await allocate(routes, 'match 8')).toMatchObject({ status: 200 })
  })

  it('are the same for serve', async () => {
    const served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, sessionIDs: 'guid' })
    const reply = await call('POST', `${served.allocationUrl}/api/v1/allocate`, { body: { buildID, sessionID: 'x' } })
    await served.close()
    expect(reply.status).toBe(400)
  })

  it('are described in the OpenAPI document', async () => {
    const listener = await listening(allocationRoutes(fleet, { sessionIDs: 'guid' }).nodeHandler)
    listeners.push(listener)
    const { components } = JSON.parse((await call('GET', `${listener.url}/openapi.json`)).text)
    expect(components.schemas.AllocationRequest.properties.sessionID.pattern).toMatch(/0-9a-fA-F/)
  })

  it('has no mistyped option', () => {
    expect(() => allocationRoutes(fleet, { sessionIDs: 'guids' as never })).toThrow(
      `allocationRoutes: sessionIDs must be 'guid' or 'any', but is "guids"`,
    )
  })
})

describe('a compatibility format', () => {
  it('returns the three fields of the service description and nothing else', async () => {
    const { json } = await allocate(allocationRoutes(fleet, { compat: 'thundernetes' }), sessionID)
    expect(Object.keys(json)).toEqual(['IPV4Address', 'Ports', 'SessionID'])
  })
})
