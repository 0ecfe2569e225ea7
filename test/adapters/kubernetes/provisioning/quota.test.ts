/** A 409 that is caused by a concurrent quota update and does not mean that the name is taken. */
import { expect, it, onTestFinished } from 'vitest'
import { NodePorts } from '../../../../adapters/kubernetes/nodes/node-ports.js'
import { PodCache } from '../../../../adapters/kubernetes/pods/pod-cache.js'
import { namesOf } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { PodCreation } from '../../../../adapters/kubernetes/provisioning/pod-creation.js'
import { BuildCollection } from '../../../../adapters/kubernetes/store/build-collection.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { FleetHome } from '../../../../adapters/kubernetes/store/fleet-home.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { apiOf, configFor, fakeApiServer, respond } from '../support/fake-api-server.js'
import { specOf } from '../support/support.js'

const group = 'mps.gamekeeper.com'
const message = 'Operation cannot be fulfilled on resourcequotas "games": the object has been modified'

async function busyApi() {
  const server = await fakeApiServer((request, response, { searchParams }) => {
    if (request.method === 'POST')
      return respond(response, 409, { kind: 'Status', code: 409, reason: 'Conflict', message })
    if (searchParams.has('watch')) response.writeHead(200).flushHeaders()
    else respond(response, 200, { metadata: { resourceVersion: '10' }, items: [] })
  })
  return apiOf(configFor(server.url))
}

it('creating a pod during a quota update fails with a retryable error that names the cause', async () => {
  const api = await busyApi()
  const pods = new PodCache({
    ...{ api, clock: systemClock, logger: silentLogger, names: namesOf(group), namespaces: ['games'] },
    ...{ publicAddress: undefined, onChange() {}, onGone() {} },
  })
  onTestFinished(() => pods.stop())
  await pods.start()
  const ports = new NodePorts({ first: 10_000, last: 10_009 }, systemClock, () => pods.takenPorts())
  const deps = { api, pods, ports, group, scheduling: 'packed', platform: {}, secrets: { provide() {} } } as const
  const creation = new PodCreation(
    { ...deps, incompletePods: { removed: async () => {} }, instanceOf: ({ instance }) => instance },
    { spec: specOf('games', ''), secret: 's', owner: undefined, signal: undefined },
  )
  const expected = { code: 'unavailable', retryable: true, message: expect.stringContaining(message) }
  await expect(creation.run()).rejects.toMatchObject(expected)
})

it('creating a build during a quota update does not report the build as existing', async () => {
  const api = await busyApi()
  const home = new FleetHome({ api, logger: silentLogger, home: 'games', annotation: 'home' })
  const parts = { api, clock: systemClock, namespaces: ['games'], home, throwIfClosed() {} }
  const builds = new BuildCollection(parts, fleetResources(group))
  const build = {
    ...{ namespace: 'games', name: 'arena', uid: 'u', createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] },
    spec: { buildID: 'arena-1', standingBy: 1, max: 2, portsToExpose: [], template: {} },
  }
  const expected = { code: 'unavailable', message: expect.stringContaining(message) }
  await expect(builds.create(build)).rejects.toMatchObject(expected)
})
