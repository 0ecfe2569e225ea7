/** Lists read in pages over HTTP, directly and with the client, from a real fleet over real sockets. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fleetClient } from '../../src/client/index.js'
import { fleetRoutes } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, type Listener, listening } from './client.js'
import { build, memoryFleet, standingBy } from './fleet.js'

let fleet: Fleet
let server: Listener
beforeAll(async () => {
  fleet = await memoryFleet()
  server = await listening(fleetRoutes(fleet).nodeHandler)
  await fleet.builds.create(build({ standingBy: 5, max: 5 }))
  for (const name of ['b', 'c', 'd']) await fleet.builds.create(build({ buildID: name, standingBy: 1 }, name))
  await standingBy(fleet, 5)
  for (const name of ['b', 'c', 'd']) await standingBy(fleet, 1, name)
})
afterAll(async () => {
  await server.close()
  await fleet.close()
})

interface Item {
  readonly metadata: { readonly name: string }
}

async function get(path: string, query = '') {
  const { status, headers, text } = await call('GET', `${server.url}/api/v1/${path}${query}`)
  const json: readonly Item[] & { readonly error?: string } = JSON.parse(text)
  return { status, json, names: Array.isArray(json) ? json.map(({ metadata }) => metadata.name) : [], headers }
}

const lists = ['gameserverbuilds', 'gameservers', 'gameserverbuilds/default/arena/gameservers']

describe.each(lists)('GET /api/v1/%s', (path) => {
  it('without a query returns the whole list, with no token', async () => {
    const { names, headers } = await get(path)
    expect(names.length).toBeGreaterThan(3)
    expect(headers).not.toHaveProperty('gamekeeper-continue')
  })

  it('with `limit` and `continue` returns the list in pages of the same shape, the token in a header', async () => {
    const all = await get(path)
    const seen: string[] = []
    // A loop in a script: the token of the first request is empty, as is the one after the last page.
    let token = ''
    do {
      const page = await get(path, `?limit=2&continue=${token}`)
      expect(page.names.length).toBeLessThanOrEqual(2)
      seen.push(...page.names)
      token = String(page.headers['gamekeeper-continue'] ?? '')
    } while (token !== '')
    expect(seen).toHaveLength(all.names.length)
    expect(new Set(seen)).toEqual(new Set(all.names))
  })

  it('with only `continue` returns the next page of the default size', async () => {
    const all = await get(path)
    const first = await get(path, '?limit=1')
    const rest = await get(path, `?continue=${String(first.headers['gamekeeper-continue'])}`)
    expect(new Set([...first.names, ...rest.names])).toEqual(new Set(all.names))
  })

  it.each([
    ['?limit=0', /^limit must be an integer from 1 to 10000, but is 0$/],
    ['?limit=10001', /^limit must be an integer from 1 to 10000, but is 10001$/],
    ['?limit=', /^limit must be an integer ≥ 1, but is ""$/],
    ['?limit=-1', /^limit must be an integer ≥ 1, but is "-1"$/],
    ['?limit=1e2', /^limit must be an integer ≥ 1, but is "1e2"$/],
    ['?limit=2&continue=x', /^continue must be what the page before returned, but is "x"/],
    ['?continue=%00%ff', /^continue must be/],
  ])('with %s responds 400 and names the parameter', async (query, message) => {
    const { status, json } = await get(path, query)
    expect([status, json]).toEqual([400, { error: expect.stringMatching(message), code: 'invalid' }])
  })

  it('refuses the tokens of the other lists', async () => {
    for (const other of lists.filter((one) => one !== path)) {
      const { headers } = await get(other, '?limit=1')
      const { status, json } = await get(path, `?continue=${String(headers['gamekeeper-continue'])}`)
      expect([status, json]).toEqual([
        400,
        { error: expect.stringMatching(/^continue is from a list of/), code: 'invalid' },
      ])
    }
  })
})

it('a page of the servers of a build that does not exist is 404', async () => {
  expect((await get('gameserverbuilds/default/nothing/gameservers', '?limit=1')).status).toBe(404)
})

it('HEAD responds with the token too', async () => {
  const { headers } = await call('HEAD', `${server.url}/api/v1/gameservers?limit=1`, { validate: false })
  expect(headers['gamekeeper-continue']).toMatch(/^[\w-]+$/)
})

it('pages from other origins may read the token', async () => {
  const routes = fleetRoutes(fleet, { allowedOrigins: ['https://console.example'] })
  const response = await routes.fetch(
    new Request('http://a/api/v1/gameservers?limit=1', { headers: { Origin: 'https://console.example' } }),
  )
  expect(response.headers.get('Access-Control-Expose-Headers')).toContain('Gamekeeper-Continue')
})

it('in a compatibility format the body keeps its shape, and the token is in the header', async () => {
  const routes = fleetRoutes(fleet, { compat: 'thundernetes' })
  const response = await routes.fetch(new Request('http://a/api/v1/gameserverbuilds?limit=1'))
  expect(await response.json()).toEqual({ metadata: {}, items: [expect.objectContaining({ kind: 'GameServerBuild' })] })
  expect(response.headers.get('Gamekeeper-Continue')).toMatch(/^[\w-]+$/)
})

describe('the client', () => {
  const client = () => fleetClient({ url: server.url, retries: 0 })

  it('reads the same pages as the fleet', async () => {
    const first = await client().builds.page({ limit: 3 })
    expect(first).toEqual(await fleet.builds.page({ limit: 3 }))
    const rest = await client().builds.page({ continue: first.continue })
    expect(rest).toEqual(await fleet.builds.page({ continue: first.continue }))
    expect(await client().servers.page()).toEqual(await fleet.servers.page())
    expect(await client().servers.page({ build: 'arena', limit: 2 })).toEqual(
      await fleet.servers.page({ build: 'arena', limit: 2 }),
    )
  })

  it('yields the items of all pages', async () => {
    const names: string[] = []
    for await (const { metadata } of client().servers.all({ limit: 2 })) names.push(metadata.name)
    expect(names).toEqual((await fleet.servers.page()).items.map(({ metadata }) => metadata.name))
    let ofArena = 0
    for await (const { metadata } of client().servers.all({ build: 'arena', limit: 1 })) {
      expect(metadata.name).toMatch(/^arena-/)
      ofArena++
    }
    expect(ofArena).toBe(5)
    let builds = 0
    for await (const { kind } of client().builds.all()) builds += kind === 'GameServerBuild' ? 1 : 0
    expect(builds).toBe(4)
  })

  it('fails with the same messages as the fleet', async () => {
    const wrong = { limit: 0 }
    const error = await fleet.servers.page(wrong).catch((failure: unknown) => failure)
    await expect(client().servers.page(wrong)).rejects.toEqual(error)
    await expect(client().servers.all(wrong).next()).rejects.toEqual(error)
    expect(() => client().servers.all({ limits: 1 } as object)).toThrow('servers.all: unknown option limits')
  })
})
