/** The keys by which hosts prove themselves to each other: each fleet has its own, although several may share the Secret. */
import { expect, it, onTestFinished } from 'vitest'
import { openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { apiOf, configFor, fakeApiServer, respond, respondWithKey, statusOf } from '../support/fake-api-server.js'

it('fleets with the same Secret derive different keys', async () => {
  const fake = await fakeApiServer((_, response, { pathname, searchParams }) => {
    if (pathname.includes('/secrets/')) return respondWithKey(response)
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (/\/gameserver[a-z]*\/./.test(pathname)) return respond(response, 404, statusOf(404, 'NotFound', 'x'))
    respond(response, 200, { metadata: { resourceVersion: '10' }, items: [] })
  })
  const api = apiOf(configFor(fake.url))
  const keyOf = async (group: string, namespaces: readonly string[] | undefined, purpose = 'forwarding') => {
    const place = { group, systemNamespace: 'system', namespaces }
    const store = await openKubernetesStore({ api, clock: systemClock, logger: silentLogger, ...place })
    onTestFinished(() => store.close())
    const key = store.deriveKey(purpose)
    return key && Buffer.from(key).toString('hex')
  }
  const keys = [
    await keyOf('one.example.com', ['games', 'arena']),
    await keyOf('one.example.com', ['games']),
    await keyOf('one.example.com', undefined),
    await keyOf('two.example.com', ['games']),
    await keyOf('one.example.com', ['games'], 'another purpose'),
  ]
  expect(keys[0]).toMatch(/^[0-9a-f]{64}$/)
  expect(new Set(keys).size).toBe(keys.length)
  expect(await keyOf('one.example.com', ['arena', 'games'])).toBe(keys[0])
})
