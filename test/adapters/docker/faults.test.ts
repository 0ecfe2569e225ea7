/** An engine that hangs, disconnects or is down: every call has a timeout, and no event is missed once it is back. */
import { Readable } from 'node:stream'
import Docker from 'dockerode'
import { afterEach, expect, it, vi } from 'vitest'
import { createFleet, FleetError, memoryStore } from 'gamekeeper'
import { findAgentEndpoint } from '../../../adapters/docker/agent-address.js'
import { dockerBackend } from '../../../adapters/docker/index.js'
import type { BackendListener } from '../../../src/contracts/backend.js'
import { describeOnEngine } from './describe-on-engine.js'
import { engineSocket } from './engine.js'
import { type Proxy, proxyTo } from './proxy.js'
import { cleanUp, containerOf, containersOf, freshDirectory, linesOf, onCleanUp, open, specOf } from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const waitOptions = { timeout: 60_000, interval: 50 }

async function proxy(): Promise<Proxy> {
  const made = await proxyTo(engineSocket)
  onCleanUp(() => made.close())
  return made
}

function counting(): BackendListener & { readonly counts: { changed: number; gone: string[]; resyncs: number } } {
  const counts = { changed: 0, gone: [] as string[], resyncs: 0 }
  return {
    counts,
    changed: () => void counts.changed++,
    gone: (_, uid) => void counts.gone.push(uid),
    resync: () => void counts.resyncs++,
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1000 }),
  }
}

describeOnEngine('an engine that hangs', () => {
  it('makes each call fail at its timeout, and later calls succeed once it responds again', async () => {
    const between = await proxy()
    const backend = await open({ docker: between.docker, readTimeoutMs: 20_700, changeTimeoutMs: 20_900 })
    const spec = specOf('sleep 600', { ports: [7777] })
    const running = await backend.create(spec)
    const listener = counting()
    backend.watch(listener)
    await vi.waitFor(() => expect(listener.counts.resyncs).toBeGreaterThan(0), waitOptions)
    between.mode = 'stall'
    const other = specOf('sleep 600', { ports: [7777] })
    const calls = [
      backend.list(),
      backend.create(other),
      backend.destroy(spec.ref, spec.uid, { graceMs: 100 }),
      Promise.resolve(backend.prepare?.(specOf('true', { image: 'no-such-image' }))),
    ]
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'unavailable',
          retryable: true,
          message: expect.stringMatching(/did not .* within 20\.[79] s$/),
        },
      })
    }
    between.mode = 'pass'
    expect(await backend.list()).toEqual([running])
    expect(await backend.create(other)).toMatchObject({ phase: 'running' })
    // The event stream was silently dead and has reconnected.
    await (await containerOf(backend.fleet, spec)).remove({ force: true })
    await vi.waitFor(() => expect(listener.counts.gone).toContain(spec.uid), waitOptions)
    expect(await containersOf(backend.fleet)).toHaveLength(1)
  })

  it('does not create a second container when its response to create is lost', async () => {
    const between = await proxy()
    const backend = await open({ docker: between.docker, readTimeoutMs: 20_700, changeTimeoutMs: 20_900 })
    await backend.list()
    const spec = specOf('sleep 600', { ports: [7777] })
    const created = backend.create(spec)
    // The engine has received the call; its response is lost.
    await vi.waitFor(() => expect(between.requests().join()).toContain('/containers/create'), {
      timeout: 60_000,
      interval: 1,
    })
    between.mode = 'stall'
    await expect(created).rejects.toMatchObject({ code: 'unavailable' })
    between.mode = 'pass'
    await vi.waitFor(async () => expect(await backend.create(spec)).toMatchObject({ phase: 'running' }), waitOptions)
    expect(await containersOf(backend.fleet)).toHaveLength(1)
  })
})

describeOnEngine('a broken connection', () => {
  it('is reconnected, and listeners get a resync', async () => {
    const between = await proxy()
    const backend = await open({ docker: between.docker })
    const spec = specOf('sleep 600')
    await backend.create(spec)
    const listener = counting()
    backend.watch(listener)
    await vi.waitFor(() => expect(listener.counts.resyncs).toBeGreaterThan(0), waitOptions)
    const before = listener.counts.resyncs
    between.mode = 'refuse'
    await expect(backend.list()).rejects.toMatchObject({ code: 'unavailable' })
    // No listener gets this event.
    await (await containerOf(backend.fleet, spec)).remove({ force: true })
    between.mode = 'pass'
    await vi.waitFor(() => expect(listener.counts.resyncs).toBeGreaterThan(before), waitOptions)
    expect(await backend.list()).toEqual([])
  })
})

describeOnEngine('a followed log', () => {
  const read = async (lines: AsyncIterable<string> | undefined, into: string[]) => {
    for await (const line of lines ?? Readable.from([])) into.push(line)
  }

  it.each([{ tail: 1 }, { tail: 0 }])('continues after the engine was unreachable, with %j', async ({ tail }) => {
    const between = await proxy()
    const backend = await open({ docker: between.docker })
    const spec = specOf(
      'echo old; sleep 1; i=0; until [ -e /gamekeeper/GameLogs/end ]; do echo $((i=i+1)); sleep 0.1; done',
    )
    await backend.create(spec)
    const lines: string[] = []
    const followed = read(backend.logs?.(spec.ref, { follow: true, tail }), lines)
    await vi.waitFor(() => expect(lines.length).toBeGreaterThan(3), waitOptions)
    between.mode = 'refuse'
    const container = await containerOf(backend.fleet, spec)
    const written = async () => (await container.logs({ stdout: true })).toString('latin1').split('\n').length
    const sofar = await written()
    await vi.waitFor(async () => expect(await written()).toBeGreaterThan(sofar + 10), waitOptions)
    const before = lines.length
    between.mode = 'pass'
    await vi.waitFor(() => expect(lines.length).toBeGreaterThan(before + 10), waitOptions)
    await (await container.exec({ Cmd: ['touch', '/gamekeeper/GameLogs/end'] })).start({})
    await followed
    // No line is missing or repeated.
    const numbers = lines.filter((line) => line !== 'old').map(Number)
    expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] ?? 0) + i))
  })

  it('with tail 0, starts with the lines written while the engine was unreachable', async () => {
    const between = await proxy()
    const backend = await open({ docker: between.docker })
    const spec = specOf('echo old; until [ -e /gamekeeper/GameLogs/end ]; do sleep 0.1; done; echo new')
    await backend.create(spec)
    await vi.waitFor(async () => {
      const lines: string[] = []
      await read(backend.logs?.(spec.ref), lines)
      expect(lines).toEqual(['old'])
    }, waitOptions)
    const lines: string[] = []
    between.requests()
    const followed = read(backend.logs?.(spec.ref, { follow: true, tail: 0 }), lines)
    await vi.waitFor(() => expect(between.requests().join()).toContain('/logs'), { ...waitOptions, interval: 200 })
    between.mode = 'refuse'
    const container = await containerOf(backend.fleet, spec)
    await (await container.exec({ Cmd: ['touch', '/gamekeeper/GameLogs/end'] })).start({})
    await vi.waitFor(async () => expect((await container.inspect()).State.Running).toBe(false), waitOptions)
    between.mode = 'pass'
    await followed
    expect(lines).toEqual(['new'])
  })
})

it('createFleet without an engine rejects with a clear message', async () => {
  const directory = await freshDirectory()
  const backend = dockerBackend({ docker: new Docker({ socketPath: `${directory}/docker.sock` }), directory })
  const failure: unknown = await createFleet({ backend, store: memoryStore() }).catch((error: unknown) => error)
  expect(FleetError.is(failure, 'unavailable') && failure.message).toBe(
    `cannot reach the Docker engine at unix://${directory}/docker.sock (connect ENOENT ${directory}/docker.sock): is it running?`,
  )
})

it('with a remote engine, the agent address must be configured', async () => {
  const place = findAgentEndpoint({ host: undefined, remoteHost: '203.0.113.7', isDesktop: false, bridge: undefined })
  await expect(place).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringMatching(/runs on 203\.0\.113\.7, .*: set agent: \{ host \} .* and agent: \{ address \}/),
  })
})

it('with Docker Desktop, the agent listens on loopback only', async () => {
  const place = await findAgentEndpoint({ host: undefined, remoteHost: undefined, isDesktop: true, bridge: undefined })
  expect(place).toEqual({ host: '127.0.0.1', advertisedHost: 'host.docker.internal' })
})

describeOnEngine('the agent', () => {
  it('listens only on an address that containers can reach', async () => {
    const backend = await open()
    const fleet = await createFleet({ backend, store: memoryStore(), agent: { port: 0 } })
    onCleanUp(() => fleet.close())
    const [host, port] = fleet.agentAddress?.split(':') ?? []
    expect(host).toBe('host.docker.internal')
    const call = `fetch('http://' + process.env.HEARTBEAT_ENDPOINT + '/v1/sessionHosts/unknown', { method: 'POST', body: '{}' })`
    const own = await open()
    const spec = specOf(`exec node -e "${call}.then(({ status }) => console.log(status))"`, {
      heartbeatEndpoint: fleet.agentAddress ?? '',
    })
    await own.create(spec)
    expect(await linesOf(own.logs?.(spec.ref, { follow: true }) ?? Readable.from([]))).toEqual(['200'])
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow('fetch failed')
  })

  it.each([
    [{ host: '127.0.0.1' }, /containers cannot reach an agent on 127\.0\.0\.1/],
    [{ host: 'localhost' }, /containers cannot reach/],
  ])('is rejected at %j, which containers cannot reach', async (agent, message) => {
    const backend = await open()
    await expect(createFleet({ backend, store: memoryStore(), agent: { ...agent, port: 0 } })).rejects.toThrow(message)
  })

  it('may listen anywhere when agent.address is set', async () => {
    const agent = { host: '127.0.0.1', address: 'agent.example.com:56001', port: 0 }
    const fleet = await createFleet({ backend: await open(), store: memoryStore(), agent })
    onCleanUp(() => fleet.close())
    expect(fleet.agentAddress).toBe('agent.example.com:56001')
  })
})
