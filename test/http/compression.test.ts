/** Large JSON answers are compressed for callers who accept gzip; all others are sent as before. */
import { request, type IncomingMessage } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import { jsonInSlices } from '../../src/http/core/responses.js'
import { negotiated } from '../../src/http/core/content-encoding.js'
import { managementRoutes } from '../../src/http/index.js'
import { until } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, memoryFleet } from './fleet.js'
import { hosts } from './forwarding/hosts.js'

async function ask(url: string, headers: Record<string, string>, method = 'GET') {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { method, agent: false, headers }, resolve).on('error', reject).end()
  })
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { headers: response.headers, bytes: Buffer.concat(chunks) }
}

const gzip = { 'Accept-Encoding': 'br;q=0, gzip' }
const page = { Origin: 'https://console.example' }

/** A host with 3,000 builds, whose list is large. */
async function largeFleet() {
  const fleet = await memoryFleet()
  onTestFinished(() => fleet.close())
  const one = await fleet.builds.create(build({ standingBy: 0 }))
  const all = Array.from({ length: 3_000 }, (_, i) => ({ ...one, metadata: { ...one.metadata, name: `build-${i}` } }))
  return { fleet: { ...fleet, builds: { ...fleet.builds, list: () => Promise.resolve(all) } }, all }
}

it.each(entryPoints)('$name compresses a large answer for a caller who accepts gzip', async (entryPoint) => {
  const { fleet, all } = await largeFleet()
  const { url, close } = await entryPoint.open(managementRoutes(fleet, { allowedOrigins: ['https://console.example'] }))
  onTestFinished(close)
  const builds = `${url}/api/v1/gameserverbuilds`

  const compressed = await ask(builds, gzip)
  expect(compressed.headers).toMatchObject({ 'content-encoding': 'gzip', 'content-type': 'application/json' })
  expect(JSON.parse(gunzipSync(compressed.bytes).toString())).toEqual(JSON.parse(JSON.stringify(all)))
  const plain = await ask(builds, {})
  expect(plain.headers).not.toHaveProperty('content-encoding')
  expect(JSON.parse(plain.bytes.toString())).toEqual(JSON.parse(JSON.stringify(all)))
  expect(compressed.bytes.length).toBeLessThan(plain.bytes.length / 8)
  // What a cache keeps of one caller is not what it answers another with.
  expect(compressed.headers.vary).toBe('Origin, Accept-Encoding')
  expect(plain.headers.vary).toBe('Origin, Accept-Encoding')
  expect((await ask(builds, { 'Accept-Encoding': 'gzip;q=0' })).headers).not.toHaveProperty('content-encoding')
  expect((await ask(builds, { ...gzip, ...page })).headers['access-control-allow-origin']).toBe(page.Origin)

  const head = await ask(builds, gzip, 'HEAD')
  expect(head.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Origin, Accept-Encoding' })
  expect(head.bytes).toHaveLength(0)
})

it.each(entryPoints)('$name sends small answers and event streams as they are', async (entryPoint) => {
  const { fleet } = await largeFleet()
  const { url, close } = await entryPoint.open(managementRoutes(fleet))
  onTestFinished(close)
  const small = await ask(`${url}/api/v1/gameserverbuilds/default/arena`, gzip)
  expect(small.headers).not.toHaveProperty('content-encoding')
  expect(small.headers).not.toHaveProperty('vary')
  expect(Number(small.headers['content-length'])).toBe(small.bytes.length)
  const events = await ask(`${url}/api/v1/events?from=1`, gzip, 'HEAD')
  expect(events.headers).not.toHaveProperty('content-encoding')
})

it('a large answer that another host gives is compressed by the host that forwards it', async () => {
  const { open } = hosts()
  const [leader, other] = [await open(), await open()]
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  const containers = [{ name: 'game', command: ['game', ...Array.from({ length: 40 }, () => 'x'.repeat(1_000))] }]
  await leader.fleet.builds.create(build({ standingBy: 0, template: { spec: { containers } } }))
  const compressed = await ask(`${other.manage}/gameserverbuilds`, gzip)
  expect(compressed.headers['content-encoding']).toBe('gzip')
  expect(JSON.parse(gunzipSync(compressed.bytes).toString())).toMatchObject([{ metadata: { name: 'arena' } }])
  expect(compressed.headers.vary).toBe('Accept-Encoding')
})

it('whoever stops to read a compressed answer ends its source, and a source that fails does not end it in order', async () => {
  let hasEnded = false
  async function* endless() {
    try {
      for (let n = 0; ; n++) yield String(Math.sin(n)).repeat(1_000)
    } finally {
      hasEnded = true
    }
  }
  const { stream = [] } = negotiated({ status: 200, stream: endless(), isCompressible: true }, 'gzip')
  for await (const chunk of stream) {
    expect(chunk.length).toBeGreaterThan(0)
    break
  }
  await until(() => hasEnded)

  async function* failing() {
    yield 'some'
    throw new Error('the store is away')
  }
  const failed = negotiated({ status: 200, stream: failing(), isCompressible: true }, 'gzip')
  const read = async () => {
    for await (const _ of failed.stream ?? []);
  }
  await expect(read()).rejects.toThrow('the store is away')
})

it('the header Vary of the host app is kept', () => {
  const large = jsonInSlices(
    200,
    'x'
      .repeat(10)
      .split('')
      .flatMap(() => Array.from({ length: 4_000 }, (_, i) => i)),
  )
  expect(negotiated(large, undefined, 'Cookie').headers).toMatchObject({ Vary: 'Cookie, Accept-Encoding' })
  expect(negotiated({ ...large, headers: { vary: '*' } }, undefined).headers).toEqual({ vary: '*' })
})
