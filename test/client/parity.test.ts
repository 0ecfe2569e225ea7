/** The client has every operation of a fleet, with the same effect, so that tools and other hosts can do what a host app can. */
import { createServer } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { type FleetClient, fleetClient, FleetError } from '../../src/client/index.js'
import { fleetRoutes } from '../../src/http/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { build, buildID, noServers, sessionID, standingBy } from '../http/fleet.js'
import { type Listener, listening, until } from '../http/client.js'

/** What concerns only the host that runs the fleet. */
const onlyHere = {
  agentAddress: 'where this host listens',
  heartbeat: 'for an agent in this process',
  knowsServer: 'for an agent in this process',
  parkHeartbeat: 'for an agent in this process',
  updateOwnData: 'for an agent in this process',
  allocateOwnServer: 'for an agent in this process',
  on: 'calls a function in this process; a client reads `events`',
  observe: 'calls functions in this process; a client reads /metrics',
  store: 'writes to a directory of this host',
  close: 'stops this host',
} as const

const lines = ['one', '', 'three\rand a half']
let isEnded = true
const memory = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 })
const backend = {
  ...memory,
  async *logs(
    ref: { readonly name: string },
    { follow = false, tail = Infinity, signal = new AbortController().signal } = {},
  ) {
    if (ref.name === 'nobody') throw new FleetError('not-found', 'there are no logs of default/nobody')
    yield* lines.slice(Math.max(0, lines.length - tail))
    if (!follow) return
    isEnded = false
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    isEnded = true
  },
}
const consoleBuild = build({
  standingBy: 1,
  max: 1,
  template: { spec: { containers: [{ name: 'game', stdin: true }] } },
})
let fleet: Fleet
let server: Listener
let client: FleetClient
beforeAll(async () => {
  fleet = await createFleet({ backend })
  server = await listening(fleetRoutes(fleet).nodeHandler)
  client = fleetClient({ url: server.url, retries: 0 })
})
afterAll(async () => {
  await server.close()
  await fleet.close()
})
afterEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

async function all(texts: AsyncIterable<string>): Promise<readonly string[]> {
  const read: string[] = []
  for await (const text of texts) read.push(text)
  return read
}

const namesOf = (object: object) => Object.keys(object).toSorted()

it('allocates a batch, with the error of each session that got no server', async () => {
  await fleet.builds.create(build())
  await standingBy(fleet, 2)
  const requests = [
    { buildID, sessionID },
    { buildID: 'none', sessionID: 'other' },
  ]
  const [first, second] = await client.allocateMany(requests)
  expect(first?.allocation?.server).toEqual((await fleet.allocate({ buildID, sessionID })).server)
  expect(first?.allocation?.port()).toBe((await fleet.allocate({ buildID, sessionID })).port())
  expect(second?.error).toMatchObject({ code: 'not-found', message: 'no build has the buildID "none"' })
  expect(await client.allocateMany(requests, { atomic: true }).catch((error: unknown) => error)).toMatchObject({
    code: 'not-found',
    message: expect.stringContaining('no session of the batch got a server'),
  })
})

describe('the client', () => {
  it('has every operation of a fleet but those that only concern its host, and no other', () => {
    const there = Object.keys(fleet).filter((name) => !(name in onlyHere))
    expect(namesOf(client)).toEqual(there.toSorted())
    const groups = there.filter((name) => typeof Reflect.get(fleet, name) === 'object')
    expect(groups).toEqual(expect.arrayContaining(['builds', 'servers', 'details']))
    for (const group of groups) {
      expect(namesOf(Reflect.get(client, group)), group).toEqual(namesOf(Reflect.get(fleet, group)))
    }
    expect(Object.keys(onlyHere).filter((name) => !(name in fleet))).toEqual([])
  })

  it('applies a build and says what that did', async () => {
    const first = await client.builds.apply(build({ standingBy: 0 }))
    expect(first).toEqual({ result: 'created', build: await fleet.builds.get('arena') })
    expect((await client.builds.apply(build({ standingBy: 0 }))).result).toBe('unchanged')
    expect((await client.builds.apply(build({ standingBy: 0, max: 7 }))).result).toBe('updated')
  })

  it('updates any field of a spec, and removes one that is undefined', async () => {
    await fleet.builds.create(build({ standingBy: 0 }))
    const updated = await client.builds.update('arena', { crashesToMarkUnhealthy: 3, buildMetadata: { map: 'dust' } })
    expect(updated.spec).toMatchObject({ crashesToMarkUnhealthy: 3, buildMetadata: { map: 'dust' } })
    const { spec } = await client.builds.update('arena', { crashesToMarkUnhealthy: undefined })
    expect(spec).toEqual({ ...build({ standingBy: 0 }).spec, buildMetadata: { map: 'dust' } })
  })

  it('drains a build for as long as that takes, and resumes it', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    await fleet.allocate({ buildID, sessionID })
    expect(await client.builds.drain('arena', { deadlineMs: 0 })).toEqual({ remaining: 1 })
    let isOver = false
    const drained = client.builds.drain('arena').finally(() => (isOver = true))
    // Longer than the host waits before it starts to answer.
    await until(() => isOver, 1_500).catch(() => undefined)
    expect(isOver).toBe(false)
    const [playing] = await fleet.servers.list()
    memory.server(playing?.metadata ?? { name: '' }).exit(0)
    expect(await drained).toEqual({ remaining: 0 })
    const resumed = await client.builds.resume('arena')
    expect(resumed.status.conditions ?? []).toEqual([])
    await standingBy(fleet, 1)
  })

  it('drains a server', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    const [idle] = await fleet.servers.list()
    expect(await client.servers.drain(idle?.metadata ?? { name: '' })).toEqual({ remaining: 0 })
    await standingBy(fleet, 1)
  })

  it('stops waiting for a drain when its signal fires, and says if the connection was lost', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    await fleet.allocate({ buildID, sessionID })
    const gone = new AbortController()
    const waiting = client.builds.drain('arena', { signal: gone.signal })
    await until(async () => (await fleet.builds.get('arena')).status.conditions?.[0]?.type === 'Draining')
    gone.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    const broken = createServer((_, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json' }).write('\n', () => response.destroy())
    })
    await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve))
    const address = broken.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const { drain } = fleetClient({ url: `http://127.0.0.1:${port}` })
    await expect(drain()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('the connection was lost; the drain continues'),
    })
    await new Promise((resolve) => broken.close(resolve))
  })

  it('reads the logs of a server, all of them or the last, and follows them until its signal fires', async () => {
    expect(await all(client.servers.logs('arena-x7k2p'))).toEqual(lines)
    expect(await all(client.servers.logs('arena-x7k2p', { tail: 1 }))).toEqual(lines.slice(-1))
    const gone = new AbortController()
    const read: string[] = []
    for await (const line of client.servers.logs('arena-x7k2p', { follow: true, signal: gone.signal })) {
      read.push(line)
      if (read.length === lines.length) gone.abort()
    }
    expect(read).toEqual(lines)
    await until(() => isEnded)
    await expect(all(client.servers.logs('nobody'))).rejects.toMatchObject({ code: 'not-found' })
  })

  it('sends lines to the standard input of a server, and is told why that is not possible', async () => {
    await fleet.builds.create(consoleBuild)
    await standingBy(fleet, 1)
    const [idle] = await fleet.servers.list()
    const ref = idle?.metadata ?? { name: '' }
    await client.servers.writeStdin(ref, 'say hello')
    await fleet.servers.writeStdin(ref, 'stop\r\n')
    expect(backend.server(ref).stdin).toEqual(['say hello', 'stop'])
  })

  it('reads the logs as plain text, for people', async () => {
    const response = await fetch(`${server.url}/api/v1/gameservers/default/arena-x7k2p/logs?tail=2`)
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(await response.text()).toBe('\nthree\rand a half\n')
  })

  it('ends the backend’s log when the reader leaves', async () => {
    const gone = new AbortController()
    const url = `${server.url}/api/v1/gameservers/default/arena-x7k2p/logs?follow=true`
    const { body } = await fetch(url, { signal: gone.signal })
    await body?.getReader().read()
    await until(() => !isEnded)
    gone.abort()
    await until(() => isEnded)
  })

  it('explains a server, and reports statistics and health', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    const [idle] = await fleet.servers.list()
    const ref = idle?.metadata ?? { name: '' }
    expect(await client.explain(ref)).toEqual(await fleet.explain(ref))
    const { heartbeats: _, ...stats } = await client.stats()
    expect({ ...fleet.stats(), ...stats }).toEqual(fleet.stats())
    expect(await client.health()).toEqual(await fleet.health())
  })

  it('drains the whole fleet of a host', async () => {
    const other = await createFleet({ backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }) })
    const host = await listening(fleetRoutes(other).nodeHandler)
    const { drain } = fleetClient({ url: host.url })
    expect(await drain()).toEqual({ remaining: 0 })
    expect((await other.health()).problems).toEqual(['the fleet is draining'])
    await host.close()
    await other.close()
  })

  it('fails with the same codes and messages as the fleet', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const plain = (value: unknown) => value as never
    const calls: readonly ((on: FleetClient | Fleet) => Promise<unknown>)[] = [
      (on) => on.builds.apply(build({ max: -1 })),
      (on) => on.builds.apply(build({ buildID: 'other' })),
      (on) => on.builds.apply(build({}, 'other')),
      (on) => on.builds.update('arena', plain({ standingby: 1 })),
      (on) => on.builds.update('arena', { standingBy: 9 }),
      (on) => on.builds.update('nothing', {}),
      (on) => on.builds.drain('nothing'),
      (on) => on.builds.drain('arena', plain({ deadline: 5 })),
      (on) => on.builds.resume('nothing'),
      (on) => on.servers.drain('nothing'),
      (on) => on.explain('nothing'),
      (on) => on.builds.get(plain(undefined)),
      (on) => on.servers.writeStdin('nobody', 'stop'),
      (on) => on.servers.writeStdin('nobody', 'say a\nstop'),
      (on) => on.servers.writeStdin('nobody', 'x'.repeat(4_096)),
      (on) => on.servers.writeStdin('nobody', plain(7)),
      (on) => on.servers.writeStdin('nobody', plain(undefined)),
      (on) => all(on.servers.logs('nobody')),
      (on) => all(on.servers.logs('arena-x7k2p', plain({ follows: true }))),
    ]
    for (const ask of calls) {
      const [there, here] = await Promise.all(
        [client, fleet].map((on) => (async () => ask(on))().catch((error: unknown) => error)),
      )
      if (!FleetError.is(there) || !FleetError.is(here)) throw new Error(`${String(there)}, ${String(here)}`)
      expect({ code: there.code, message: there.message }).toEqual({ code: here.code, message: here.message })
    }
  })
})
