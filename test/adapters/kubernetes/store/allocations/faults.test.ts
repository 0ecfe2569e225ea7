/** GameServerAllocations on an API server that fails, or that does not know them. */
import { expect, it, onTestFinished } from 'vitest'
import { CustomObjects, fleetResources } from '../../../../../adapters/kubernetes/store/custom-collection.js'
import {
  readAllocation,
  RequestedAllocations,
  writeOutcome,
} from '../../../../../adapters/kubernetes/store/requested-allocations.js'
import { systemClock } from '../../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../../src/contracts/logger.js'
import { until } from '../../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond } from '../../support/fake-api-server.js'

const resource = fleetResources().allocations

function objectAt(resourceVersion: string, status: object = {}, uid = 'u') {
  return { metadata: { namespace: 'games', name: 'match', uid, resourceVersion }, spec: { buildID: 'x' }, status }
}

/** An API server that has the object as given, and refuses status writes that are based on another revision. */
async function scene(stored: ReturnType<typeof objectAt> | undefined, failures = 0) {
  let left = failures
  const bodies: { metadata: { resourceVersion: string }; status: object }[] = []
  const server = await fakeApiServer((request, response) => {
    if (stored === undefined)
      return respond(response, 404, { kind: 'Status', reason: 'NotFound', code: 404, details: { name: 'match' } })
    if (request.method === 'GET') return respond(response, 200, stored)
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => (text += part))
    request.on('end', () => {
      const body: (typeof bodies)[number] = JSON.parse(text)
      if (left-- > 0) return respond(response, 500, { code: 500 })
      if (body.metadata.resourceVersion !== stored.metadata.resourceVersion)
        return respond(response, 409, { code: 409 })
      bodies.push(body)
      respond(response, 200, objectAt('99', body.status))
    })
  })
  const api = apiOf(configFor(server.url))
  const objects = new CustomObjects({ api, namespaces: ['games'], throwIfClosed() {} }, resource)
  const outcome = { state: 'Allocated' }
  const write = (signal = new AbortController().signal) =>
    writeOutcome({ api, objects, logger: silentLogger }, readAllocation(objectAt('1')), outcome, signal)
  return { write, bodies, api, objects, server }
}

it.each([
  ['is at the revision that was read', objectAt('1'), 0],
  ['has changed since it was read', objectAt('7'), 0],
  ['could not be written at first', objectAt('1'), 2],
])('an outcome is written once where the object %s', async (_, stored, failures) => {
  const { write, bodies } = await scene(stored, failures)
  expect(await write()).toBe('99')
  expect(bodies.map(({ status }) => status)).toEqual([{ state: 'Allocated' }])
})

it.each([
  ['was deleted', undefined],
  ['is another one of its name', objectAt('7', {}, 'another')],
  ['was finished by another host', objectAt('7', { state: 'Allocated' })],
])('an outcome is not written where the object %s', async (_, stored) => {
  const { write, bodies } = await scene(stored)
  expect(await write()).toBeUndefined()
  expect(bodies).toEqual([])
})

it('a cluster without the definition is explained in one line, and asked again', async () => {
  const { api, objects, server } = await scene(undefined)
  const lines: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void lines.push(message) }
  const event = () => {}
  const requested = new RequestedAllocations({ api, clock: systemClock, logger, resource, objects, event }, () =>
    Promise.reject(new Error('nothing is requested')),
  )
  onTestFinished(() => requested.stop())
  await until('it is asked again', () => server.requests.length >= 3)
  expect(lines).toEqual(['GameServerAllocations are not carried out: apply the definitions of this version'])
})
