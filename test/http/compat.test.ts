/** `compat: 'thundernetes'`: each row of its table in docs/reference/http-api.md, and the calls of the Thundernetes web console. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { allocationRoutes, managementRoutes } from '../../src/http/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { call, type Listener, listening } from './client.js'
import { build, buildID, noServers, sessionID, standingBy } from './fleet.js'
import { validator } from './validated.js'

const apiVersion = 'mps.playfab.com/v1alpha1'
const origin = 'https://console.example'
const validate = validator({ compat: 'thundernetes' })

let fleet: Fleet
let server: Listener

beforeAll(async () => {
  fleet = await createFleet({
    backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }),
    apiGroup: 'mps.playfab.com',
  })
  const routes = managementRoutes(fleet, { compat: 'thundernetes', allowedOrigins: [origin] })
  server = await listening(routes.nodeHandler)
})
afterAll(async () => {
  await server.close()
  await fleet.close()
})
beforeEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

const ask = async (method: string, path: string, body?: unknown) => {
  const headers = { Origin: origin, 'Content-Type': 'application/json' }
  const reply = await call(method, `${server.url}/api/v1/${path}`, { body, headers, validate })
  return { ...reply, json: reply.text === '' ? undefined : (JSON.parse(reply.text) as unknown) }
}

/** From a Thundernetes sample. */
const manifest = {
  apiVersion,
  kind: 'GameServerBuild',
  ...build({
    titleID: '1E03',
    buildMetadata: [
      { key: 'map', value: 'dust' },
      { key: 'mode', value: 'ranked' },
    ],
  }),
}

describe('compat: thundernetes', () => {
  it('returns 201 for a manifest with fields that only Thundernetes has', async () => {
    const { status, json } = await ask('POST', 'gameserverbuilds', manifest)
    expect(status).toBe(201)
    const { titleID: _titleID, ...spec } = { titleID: '', ...manifest.spec }
    expect(json).toMatchObject({ apiVersion, kind: 'GameServerBuild', spec: { ...spec, crashesToMarkUnhealthy: 5 } })
    expect(json).not.toHaveProperty('spec.titleID')
    expect((await fleet.builds.get('arena')).spec.buildMetadata).toEqual({ map: 'dust', mode: 'ranked' })
  })

  it('takes the names of fields in any case, as Go does', async () => {
    const { titleID: _titleID, ...spec } = manifest.spec as Readonly<Record<string, unknown>>
    const upper = Object.fromEntries(Object.entries(spec).map(([name, value]) => [name.toUpperCase(), value]))
    const sent = { Metadata: { Name: 'arena', NAMESPACE: 'default' }, Spec: upper }
    const headers = { 'Content-Type': 'application/json' }
    const created = await call('POST', `${server.url}/api/v1/gameserverbuilds`, { body: sent, headers, validate })
    expect(created.status).toBe(201)
    await standingBy(fleet, 2)
    const routes = allocationRoutes(fleet, { compat: 'thundernetes' })
    const allocating = await listening(routes.nodeHandler)
    const body = { BuildId: buildID, SESSIONid: sessionID, sessioncookie: 'c', InitialPlayers: null }
    const allocated = await call('POST', `${allocating.url}/api/v1/allocate`, { body, headers, validate: false })
    await allocating.close()
    expect([allocated.status, JSON.parse(allocated.text)]).toMatchObject([200, { SessionID: sessionID }])
  })

  it('accepts a build in the form in which it returns one', async () => {
    const { json } = await ask('POST', 'gameserverbuilds', manifest)
    await ask('DELETE', 'gameserverbuilds/default/arena')
    const again = await ask('POST', 'gameserverbuilds', json)
    expect(again.status).toBe(201)
    expect(again.json).toMatchObject({ spec: (json as { spec: object }).spec })
  })

  it.each([
    ['an invalid spec', { metadata: { name: 'arena' }, spec: 1 }, 'spec must be an object'],
    ['invalid buildMetadata', build({ buildMetadata: ['x'] }), 'spec.buildMetadata'],
    ['no buildID', build({ buildID: undefined }), 'spec.buildID'],
  ])('refuses to create a build with %s', async (_, body, message) => {
    const { status, text } = await ask('POST', 'gameserverbuilds', body)
    expect(status).toBe(400)
    expect(text).toContain(message)
  })

  it('returns lists as objects with items', async () => {
    await ask('POST', 'gameserverbuilds', manifest)
    await standingBy(fleet, 2)
    const builds = await ask('GET', 'gameserverbuilds')
    expect(builds.json).toEqual({
      metadata: {},
      items: [expect.objectContaining({ kind: 'GameServerBuild', apiVersion })],
    })
    const one = expect.objectContaining({ kind: 'GameServer', apiVersion })
    for (const path of ['gameservers', 'gameserverbuilds/default/arena/gameservers']) {
      expect((await ask('GET', path)).json).toEqual({ metadata: {}, items: [one, one] })
    }
  })

  it('returns a build’s details as a list, and a server’s details as one object', async () => {
    await ask('POST', 'gameserverbuilds', manifest)
    await standingBy(fleet, 2)
    await fleet.allocate({ buildID, sessionID })
    const server = (await fleet.servers.list()).find(({ status }) => status.state === 'Active')
    const one = await ask('GET', `gameserverdetails/default/${server?.metadata.name}`)
    expect(one.json).toMatchObject({
      kind: 'GameServerDetail',
      spec: { connectedPlayersCount: 0, connectedPlayers: [] },
    })
    const all = await ask('GET', 'gameserverbuilds/default/arena/gameserverdetails')
    expect(all.json).toMatchObject({ items: expect.arrayContaining([one.json]) })
  })

  it('returns 404 for a missing build, but empty lists for its servers and details', async () => {
    for (const list of ['gameservers', 'gameserverdetails']) {
      const { status, json } = await ask('GET', `gameserverbuilds/default/nothing/${list}`)
      expect([status, json]).toEqual([200, { metadata: {}, items: [] }])
    }
    expect((await ask('GET', 'gameserverbuilds/default/nothing')).status).toBe(404)
  })

  it('ignores unknown fields and query parameters of an allocation', async () => {
    await ask('POST', 'gameserverbuilds', manifest)
    await standingBy(fleet, 2)
    const own = await listening(allocationRoutes(fleet, { compat: 'thundernetes' }).nodeHandler)
    const body = { buildID, sessionID, region: 'eu', waitMs: 5, players: ['amie'] }
    const reply = await call('POST', `${own.url}/api/v1/allocate?waitMs=5`, { body, validate })
    await own.close()
    expect([reply.status, JSON.parse(reply.text)]).toEqual([200, expect.objectContaining({ SessionID: sessionID })])
  })

  it.each([
    ['GET', 'gameserverbuilds/default/nothing', 404],
    ['PUT', 'gameserverbuilds', 405],
    ['POST', 'gameserverbuilds', 413],
  ])('answers %s %s with %i and only the field error', async (method, path, status) => {
    const body = status === 413 ? { text: 'x'.repeat(1_100_000) } : undefined
    const reply = await ask(method, path, body)
    expect([reply.status, reply.json]).toEqual([status, { error: expect.any(String) }])
  })

  it('ignores unknown fields in a patch', async () => {
    await ask('POST', 'gameserverbuilds', manifest)
    const { status, json } = await ask('PATCH', 'gameserverbuilds/default/arena', { standingBy: 1, max: 2, by: 'me' })
    expect(status).toBe(200)
    expect(json).toMatchObject({ spec: { standingBy: 1, max: 2 } })
  })
})

describe('allowedOrigins', () => {
  it('answers CORS preflights without authorization', async () => {
    const { status, headers } = await call('OPTIONS', `${server.url}/api/v1/gameserverbuilds/default/arena`, {
      headers: {
        Origin: origin,
        'Access-Control-Request-Method': 'PATCH',
        'Access-Control-Request-Headers': 'content-type',
      },
    })
    expect(status).toBe(204)
    expect(headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'GET, PUT, PATCH, DELETE',
      'access-control-allow-headers': expect.stringContaining('Content-Type'),
      vary: 'Origin',
    })
  })

  it('exposes responses, including errors, only to allowed origins', async () => {
    const from = (Origin: string) =>
      call('GET', `${server.url}/api/v1/gameserverbuilds/default/nothing`, { headers: { Origin }, validate })
    expect((await from(origin)).headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-expose-headers': expect.stringContaining('Gamekeeper-Error'),
    })
    expect((await from('https://elsewhere.example')).headers).not.toHaveProperty('access-control-allow-origin')
  })

  it('allows no origin by default, and any origin with *', async () => {
    for (const [allowedOrigins, allowed] of [
      [[], undefined],
      [['*'], 'https://any.example'],
    ] as const) {
      const reply = await managementRoutes(fleet, { allowedOrigins }).fetch(
        new Request('http://a/api/v1/gameservers', { headers: { Origin: 'https://any.example' } }),
      )
      expect(reply.headers.get('access-control-allow-origin') ?? undefined).toBe(allowed)
    }
  })
})
