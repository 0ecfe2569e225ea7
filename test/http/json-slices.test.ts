import { fc, test } from '@fast-check/vitest'
import { expect, it } from 'vitest'
import { jsonInSlices, jsonParts } from '../../src/http/core/responses.js'
import { managementRoutes } from '../../src/http/index.js'
import { sliceChars } from '../../src/platform/turns.js'
import { callFake } from './client.js'
import { entryPoints } from './entry-points.js'
import { memoryFleet } from './fleet.js'

test.prop([fc.jsonValue()])('the parts of a value are its JSON', (value) => {
  expect([...jsonParts(value)].join('')).toBe(JSON.stringify(value))
})

it('fields that are undefined are left out, and items that are undefined are null', () => {
  const value = { a: undefined, b: [undefined, { c: undefined }], d: {} }
  expect([...jsonParts(value)].join('')).toBe(JSON.stringify(value))
})

it('a small answer is sent whole, and a large one in slices', async () => {
  expect(jsonInSlices(200, [{ a: 1 }])).toEqual({ status: 200, body: '[{"a":1}]' })
  const large = Array.from({ length: 5_000 }, (_, i) => ({ name: `server-${i}`, text: 'x'.repeat(100) }))
  const texts: string[] = []
  for await (const text of jsonInSlices(200, large).stream ?? []) texts.push(text)
  expect(texts.join('')).toBe(JSON.stringify(large))
  expect(Math.max(...texts.map((text) => text.length))).toBeLessThan(sliceChars + 200)
})

it.each(entryPoints)(
  'a list of 3,000 builds arrives complete through $name, and HEAD gets no body',
  async (entryPoint) => {
    const fleet = await memoryFleet()
    const [build] = [await fleet.builds.create(aBuild(0))]
    const all = Array.from({ length: 3_000 }, (_, i) => ({
      ...build,
      metadata: { ...build.metadata, name: `build-${i}` },
    }))
    const builds = { ...fleet.builds, list: () => Promise.resolve(all) }
    const listener = await entryPoint.open(managementRoutes({ ...fleet, builds }))
    const { status, headers, text } = await callFake('GET', `${listener.url}/api/v1/gameserverbuilds`)
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('application/json')
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(all)))
    const head = await callFake('HEAD', `${listener.url}/api/v1/gameserverbuilds`)
    expect(head).toMatchObject({ status: 200, text: '' })
    await listener.close()
    await fleet.close()
  },
)

function aBuild(standingBy: number) {
  const template = { spec: { containers: [{ name: 'game', command: ['game'] }] } }
  const spec = { buildID: '85ffe8da-c82f-4035-86c5-9d2b5f42d6f6', standingBy, max: 1, portsToExpose: [], template }
  return { metadata: { name: 'arena' }, spec }
}
