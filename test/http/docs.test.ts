/** Compares docs/reference/http-api.md with the routes: its curl lines work; its operations, statuses and limits are complete. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allocationStatuses, managementStatuses } from '../../src/http/core/responses.js'
import {
  defaultServeLimits,
  fleetRoutes,
  managementRoutes,
  observationRoutes,
  type OpenApiDocument,
  operations,
  serve,
  type Served,
} from '../../src/http/index.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call } from './client.js'
import { build, buildID, noLines, sessionID, standingBy } from './fleet.js'

const text = await readFile(fileURLToPath(new URL('../../docs/reference/http-api.md', import.meta.url)), 'utf8')

interface CurlLine {
  readonly method: string
  readonly url: string
  readonly body?: string
}

/** The curl lines of the shell blocks: `curl [-X METHOD] URL [-H …] [-d BODY]`. */
const curlLines = [...text.matchAll(/```sh\n([^]*?)```/g)].flatMap(([, block = '']): CurlLine[] =>
  block
    .replaceAll('\\\n', ' ')
    .split(/^(?=curl )/m)
    .filter((line) => line.startsWith('curl '))
    .map((line) => {
      const body = /-d '([^']*)'/.exec(line)?.[1]
      return {
        method: /-X (\w+)/.exec(line)?.[1] ?? 'GET',
        url: /http:[^\s']+/.exec(line)?.[0] ?? '',
        ...(body !== undefined && { body }),
      }
    }),
)

const section = (title: string) => text.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? ''
const statusesIn = (part: string) => new Set([...part.matchAll(/^\| (\d{3}) \|/gm)].map(([, status]) => Number(status)))

describe('docs/reference/http-api.md', () => {
  let fleet: Fleet
  let served: Served
  beforeAll(async () => {
    fleet = await createFleet({
      backend: { ...memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }), logs: noLines },
    })
    served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
  })
  afterAll(async () => {
    await served.close()
    await fleet.close()
  })

  it('has curl lines', () => expect(curlLines.length).toBeGreaterThan(10))

  it.each(curlLines)('$method $url works', async ({ method, url, body }) => {
    const creates = method === 'POST' && url.endsWith('/gameserverbuilds/')
    if (!creates && !(await fleet.builds.list()).length) await fleet.builds.create(build({ max: 10 }))
    if (creates) for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
    else await standingBy(fleet, 2)
    if (/\/(sessions|players)\//.test(url)) {
      await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { waitMs: 60_000 })
    }
    const servers = await fleet.servers.list()
    const name = servers.find((server) => server.status.state === 'StandingBy')?.metadata.name ?? ''
    const real = url
      .replace('http://127.0.0.1:5000', served.allocationUrl)
      .replace('http://127.0.0.1:5001', served.managementUrl)
      .replace('arena-x7k2p', name)
      .replace('nodes/laptop', 'nodes/memory')
    // The event stream does not end.
    const sent = body
      ?.replace('arena-x7k2p', name)
      .replace(/"at": "[^"]*"/, `"at": "${new Date(Date.now() + 3_600_000).toISOString()}"`)
    const asked = url.includes('/events') ? 'HEAD' : method
    expect(await call(asked, real, { body: sent })).toMatchObject({ status: 200 })
    if (url.endsWith('/reservation')) await fleet.servers.release(name)
    if (url.endsWith('/arena/drain')) await fleet.builds.resume('arena')
    if (method === 'PATCH') await fleet.builds.patch('arena', { standingBy: 2 })
  })

  it('lists every operation with its methods', async () => {
    const operations = [...section('Management').matchAll(/^\| [^|]+ \| `(\w+) (\S+)` \|/gm)]
    expect(operations).toHaveLength(45)
    const methods = new Map<string, string[]>()
    for (const [, method = '', path = ''] of operations) methods.set(path, [...(methods.get(path) ?? []), method])
    const routes = managementRoutes(fleet)
    for (const [path, documented] of methods) {
      const { headers } = await routes.fetch(new Request(`http://a${path}`, { method: 'OPTIONS' }))
      const allow = headers.get('allow')?.split(', ') ?? []
      expect(allow.filter((method) => method !== 'HEAD' && method !== 'OPTIONS').toSorted()).toEqual(
        documented.toSorted(),
      )
    }
    const served = await routes.fetch(new Request('http://a/openapi.json'))
    const { paths } = (await served.json()) as OpenApiDocument
    const shape = (path: string) => path.replace(/\/$/, '').replace(/:\w+|\{\w+\}/g, ':')
    expect(new Set([...methods.keys()].map(shape))).toEqual(
      new Set([...Object.keys(paths), '/openapi.json'].map(shape)),
    )
  })

  it('misses no operation of the table: each has a handler', async () => {
    const metrics = { contentType: 'text/plain', text: () => Promise.resolve('') }
    const documents = [fleetRoutes(fleet, { compat: 'agones' }), observationRoutes(fleet, { metrics })].map(
      async (routes) => {
        const response = await routes.fetch(new Request('http://a/openapi.json'))
        const { paths } = (await response.json()) as OpenApiDocument
        const described = Object.values(paths).flatMap((item) => Object.values(item))
        return described.map((one) => String(Object(one).operationId)).filter((name) => name !== 'undefined')
      },
    )
    const served = (await Promise.all(documents)).flat()
    expect(new Set(served)).toEqual(new Set([...Object.keys(operations), 'checkHealth', 'checkReadiness']))
  })

  it('lists every limit with its default', () => {
    const rows = [...text.matchAll(/^\| `(\w+)` \| ([\d,]+) \|/gm)]
    const listed = rows.map(([, name, value = '']) => [name, Number(value.replaceAll(',', ''))])
    expect(Object.fromEntries(listed)).toEqual(defaultServeLimits)
  })

  it('lists every status', () => {
    const always = [200, 405, 413]
    expect(statusesIn(section('Allocation'))).toEqual(new Set([...always, ...Object.values(allocationStatuses)]))
    expect(statusesIn(section('Management'))).toEqual(new Set([...always, ...Object.values(managementStatuses)]))
    expect(statusesIn(section('Agent'))).toEqual(new Set([...always, 400, 404]))
  })
})

describe('docs/guides/securing.md', () => {
  it('lists every operation with its role', async () => {
    const page = await readFile(fileURLToPath(new URL('../../docs/guides/securing.md', import.meta.url)), 'utf8')
    const rows = [...page.matchAll(/^\| `(\w+)` \| (\w+) \|$/gm)]
    const roles = Object.entries(operations).map(([name, { role }]) => [name, role])
    expect(Object.fromEntries(rows.map(([, name, role]) => [name, role]))).toEqual(Object.fromEntries(roles))
  })
})
