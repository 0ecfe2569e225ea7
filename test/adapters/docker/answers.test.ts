/** Rare engine responses, from a fake client. */
import { Readable } from 'node:stream'
import { afterEach, expect, it, vi } from 'vitest'
import { endpointOf } from '../../../adapters/docker/docker-client.js'
import { Containers } from '../../../adapters/docker/containers/containers.js'
import { EngineApi } from '../../../adapters/docker/engine-api.js'
import { dockerBackend, type DockerBackendOptions } from '../../../adapters/docker/index.js'
import { containerLogs } from '../../../adapters/docker/containers/logs.js'
import type { Instance } from '../../../src/contracts/backend.js'
import { type Clock, systemClock } from '../../../src/contracts/clock.js'
import { silentLogger } from '../../../src/contracts/logger.js'
import { Creations } from '../../../adapters/shared/in-flight.js'
import { Listeners } from '../../../adapters/shared/backend-lifecycle.js'
import { cleanUp, freshDirectory, onCleanUp, specOf } from './support.js'

afterEach(cleanUp)

type Client = NonNullable<DockerBackendOptions['docker']>
type Answer = (call: { readonly method: string; readonly path: string; readonly query: object }) => unknown

class HttpError extends Error {
  constructor(
    readonly statusCode: number,
    message: string,
  ) {
    super(`(HTTP code ${statusCode}) unexpected - ${message} `)
  }
}

function clientOf(answer: Answer): Client {
  return {
    modem: {
      host: 'engine.example.com',
      port: 2375,
      dial({ method, path, options, abortSignal }, callback) {
        let value: unknown
        try {
          value = answer({ method, path: path.replace(/\?$/, ''), query: options._query })
        } catch (error) {
          setImmediate(callback, error, null)
          return
        }
        if (value instanceof Readable) abortSignal.addEventListener('abort', () => void value.destroy())
        setImmediate(callback, null, value)
      },
    },
  }
}

function apiOf(answer: Answer): EngineApi {
  const api = new EngineApi({
    ...{ client: clientOf(answer), clock: systemClock, readTimeoutMs: 5_000, changeTimeoutMs: 5_000 },
    onTimeout: () => {},
  })
  onCleanUp(() => api.close())
  return api
}

const id = 'a'.repeat(64)
const labels = {
  'gamekeeper.fleet': 'f',
  'gamekeeper.namespace': 'default',
  'gamekeeper.server': 'arena-1',
  'gamekeeper.uid': 'u',
  'gamekeeper.address': '127.0.0.1',
  'gamekeeper.ports': '',
  'gamekeeper.instance-number': '0',
}

it('a container that stopped with its engine counts as interrupted, even before the event stream reconnects', async () => {
  let startedAt = '2026-01-01T00:00:00Z'
  let status = 'running'
  const state = () => ({ Status: status, ExitCode: 137, FinishedAt: '2026-02-01T00:00:00Z', Error: '' })
  const api = apiOf(({ path }) => {
    if (path === '/networks/bridge') return { Created: startedAt }
    if (path === '/containers/json') return [{ Id: id, Labels: labels, State: status, Status: 'Exited (137) 1s ago' }]
    return { Id: id, Config: { Labels: labels }, State: state() }
  })
  const listeners = new Listeners('docker', silentLogger)
  const containers = new Containers({
    ...{ api, fleet: 'f', machine: { node: 'box' }, listeners, clock: systemClock, logger: silentLogger },
    creations: new Creations(listeners),
  })
  await containers.readEngineStart()
  expect(await containers.list({})).toMatchObject([{ phase: 'running' }])
  status = 'exited'
  startedAt = '2026-02-01T00:00:05Z'
  const lost = { phase: 'exited', interrupted: true, reason: 'the Docker engine went down' }
  expect(await containers.list({})).toMatchObject([lost])
})

// After a start that a shutdown of the engine cut off, the engine or the fleet removes the container.
it('a container that is being removed before it ever ran has not exited', async () => {
  const api = apiOf(({ path }) => {
    if (path === '/networks/bridge') return { Created: '2026-01-01T00:00:00Z' }
    if (path === '/containers/json')
      return [{ Id: id, Labels: labels, State: 'removing', Status: 'Removal In Progress' }]
    const state = { Status: 'removing', ExitCode: 0, FinishedAt: '0001-01-01T00:00:00Z', Error: '' }
    return { Id: id, Config: { Labels: labels }, State: state }
  })
  const listeners = new Listeners('docker', silentLogger)
  const containers = new Containers({
    ...{ api, fleet: 'f', machine: { node: 'box' }, listeners, clock: systemClock, logger: silentLogger },
    creations: new Creations(listeners),
  })
  expect(await containers.list({})).toEqual([])
})

it('a list frees the ports of a container that was removed without an event, even of the newest one', async () => {
  let listed: readonly object[] = ['a', 'b'].map((name, i) => ({
    Id: name.repeat(64),
    Labels: { ...labels, 'gamekeeper.server': `arena-${name}`, 'gamekeeper.ports': `7777:${20_000 + i}` },
    ...{ State: 'running', Status: 'Up 1 second' },
  }))
  const listeners = new Listeners('docker', silentLogger)
  const containers = new Containers({
    ...{
      api: apiOf(() => listed),
      fleet: 'f',
      machine: { node: 'box' },
      listeners,
      clock: systemClock,
      logger: silentLogger,
    },
    creations: new Creations(listeners),
  })
  await containers.list({})
  expect([...containers.takenPorts()]).toEqual([20_000, 20_001])
  listed = listed.slice(0, 1)
  await containers.list({})
  expect([...containers.takenPorts()]).toEqual([20_000])
})

it.each([
  ['comes after its exit', true, 'it was killed for using more memory than its limit of 64 MiB'],
  ['does not come', false, undefined],
])('a container whose out-of-memory event %s is reported once, with what is known', async (_, comes, reason) => {
  const api = apiOf(({ path }) => {
    if (path === '/networks/bridge') return { Created: '2026-01-01T00:00:00Z' }
    if (path === '/containers/json') return [{ Id: id, Labels: labels, State: 'exited', Status: 'Exited (137) 1s ago' }]
    const state = { Status: 'exited', ExitCode: 137, OOMKilled: false, FinishedAt: '2026-02-01T00:00:00Z', Error: '' }
    return { Id: id, Config: { Labels: labels }, State: state, HostConfig: { Memory: 64 * 2 ** 20 } }
  })
  const listeners = new Listeners('docker', silentLogger)
  const changed: Instance[] = []
  listeners.add({
    changed: (instance) => changed.push(instance),
    ...{ gone: () => {}, resync: () => {} },
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
  })
  let giveUp: (() => void) | undefined
  const clock: Clock = {
    ...systemClock,
    after(_ms, callback) {
      giveUp = callback
      return () => {}
    },
  }
  const containers = new Containers({
    ...{ api, fleet: 'f', machine: { node: 'box' }, listeners, clock, logger: silentLogger },
    creations: new Creations(listeners),
  })
  const [seen] = await containers.list({})
  expect(seen).toMatchObject({ phase: 'exited', exitCode: 137 })
  expect(seen).not.toHaveProperty('reason')
  const container = await containers.inspect(id)
  if (!container) throw new Error('the container is not there')
  const event = { id, identity: container.identity }
  containers.onEvent({ ...event, action: 'changed' })
  await vi.waitFor(() => expect(giveUp).toBeDefined(), { timeout: 30_000 })
  expect(changed).toEqual([])
  if (comes) containers.onEvent({ ...event, action: 'oom' })
  else giveUp?.()
  await vi.waitFor(() => expect(changed.length).toBeGreaterThan(0), { timeout: 30_000 })
  expect(changed[0]?.reason).toBe(reason)
  expect((await containers.list({}))[0]?.reason).toBe(reason)
})

it('an error response without a message is reported with its status and the engine’s endpoint', async () => {
  const api = apiOf(() => {
    throw new HttpError(502, '')
  })
  await expect(api.start(id)).rejects.toMatchObject({
    code: 'unavailable',
    message: 'the Docker engine could not start container aaaaaaaaaaaa: HTTP 502 from tcp://engine.example.com:2375',
  })
})

it.each([
  ['//./pipe/docker_engine', 'npipe:////./pipe/docker_engine'],
  ['/run/docker.sock', 'unix:///run/docker.sock'],
])('the endpoint of an engine at %s is reported as %s', (socketPath, place) => {
  expect(endpointOf({ modem: { dial() {}, socketPath } })).toBe(place)
})

it.each([
  ['a name conflict without a container', 409, 'the name is already in use'],
  ['an image that disappears', 404, 'No such image: node:20-slim'],
])('create gives up after repeated failures because of %s', async (_, statusCode, message) => {
  const docker = clientOf(({ method, path }) => {
    if (path === '/info') return { Name: 'box', OSType: 'linux', LoggingDriver: 'json-file' }
    if (path === '/containers/create') throw new HttpError(statusCode, message)
    if (path === '/containers/json') return []
    if (path === '/events') return new Readable({ read() {} })
    if (method === 'GET' && path.startsWith('/containers/')) throw new HttpError(404, 'No such container')
    return {}
  })
  const backend = dockerBackend({ docker, fleet: 'f', directory: await freshDirectory() })
  onCleanUp(() => backend.close())
  await expect(backend.create(specOf('true', { ports: [7777] }))).rejects.toMatchObject({
    code: 'unavailable',
    message: `the Docker engine did not create the container in 20 attempts: ${message}`,
  })
})

/** A log frame as the engine sends it. */
function frame(text: string): Buffer {
  const head = Buffer.alloc(8)
  head[0] = 1
  head.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([head, Buffer.from(text)])
}

it('a followed log whose stream ends at once reconnects with back-off, and continues after the last complete line', async () => {
  const queries: object[] = []
  const streams = [
    [],
    [frame('2026-01-02T03:04:05.000000001Z one\n'), frame('2026-01-02T03:04:05.000000002Z cut')],
    [],
    [],
  ]
  const api = apiOf(({ query }) => {
    queries.push(query)
    return Readable.from(streams.shift() ?? [])
  })
  const since = performance.now()
  const source = { api, id, tty: false, isRunning: async () => streams.length > 0 }
  const lines: string[] = []
  for await (const line of containerLogs(source, { follow: true, tail: 5 })) lines.push(line)
  expect(lines).toEqual(['one', 'cut'])
  expect(queries).toMatchObject([
    { tail: 5 },
    { tail: 5 },
    { tail: 'all', since: '1767323045.000000001' },
    { tail: 'all', since: '1767323045.000000001' },
  ])
  expect(performance.now() - since).toBeGreaterThan(350)
})
