/** `GET /api/v1/events`: server-sent events over real sockets. */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { managementRoutes, serve, type StreamedEvent } from '../../src/http/index.js'
import { createFleet, type FleetEvent, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { call, type Listener, rawConnection, until } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
let listener: Listener

type Options = NonNullable<Parameters<typeof managementRoutes>[1]>
beforeEach(async () => {
  fleet = await memoryFleet()
})
afterEach(async () => {
  await listener.close()
  await fleet.close()
})

interface Reading {
  readonly response: IncomingMessage
  text(): string
  events(): readonly (StreamedEvent & { readonly id: string; readonly event: string })[]
  ended(): boolean
  stop(): void
}

function read(path = '', headers: Readonly<Record<string, string>> = {}, at = listener.url): Promise<Reading> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${at}/api/v1/events${path}`, { agent: false, headers }, (response) => {
      let text = ''
      let ended = false
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('error', () => {})
      response.on('close', () => (ended = true))
      resolve({
        response,
        text: () => text,
        ended: () => ended,
        events: () =>
          [...text.matchAll(/^id: (.*)\nevent: (.*)\ndata: (.*)\n\n/gm)].map(([, id = '', event = '', data = '']) => ({
            ...(JSON.parse(data) as StreamedEvent),
            id,
            event,
          })),
        stop: () => request.destroy(),
      })
    })
    request.on('error', reject)
    request.end()
  })
}

const has = (reading: Reading, type: string) => () => reading.events().some((event) => event.type === type)

describe.each(entryPoints)('events through $name', (entryPoint) => {
  const open = async (options?: Options) => {
    listener = await entryPoint.open(managementRoutes(fleet, options))
  }

  it('are sent as they happen, with ID, type, and data', async () => {
    await open()
    const reading = await read()
    expect(reading.response).toMatchObject({
      statusCode: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    })
    await until(() => /^retry: 1000\nid: [\w-]{12}-\d+\n\n/.test(reading.text()))
    const told: FleetEvent[] = []
    fleet.on('*', (event) => {
      if (event.seq > 0) told.push(event)
    })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await until(() => reading.events().length >= told.length)
    const seen = reading.events().map(({ id, ...event }) => ({ ...event, id: Number(id.split('-').at(-1)) }))
    expect(seen).toEqual(told.map((event) => ({ ...event, id: event.seq, event: event.type })))
    expect(has(reading, 'BuildCreated')()).toBe(true)
    reading.stop()
  })

  it('have the latest players of each server on request, without an ID', async () => {
    const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 })
    await fleet.close()
    fleet = await createFleet({ backend })
    await open()
    await fleet.builds.create(build({ max: 2 }))
    await standingBy(fleet, 2)
    const { server } = await fleet.allocate({ buildID, sessionID, initialPlayers: [] }, { confirm: true })
    const [withPlayers, without] = await Promise.all([read('?from=1&players=true'), read('?from=1')])
    await until(has(withPlayers, 'Allocated'))
    const lists = () =>
      [...withPlayers.text().matchAll(/\n\nevent: PlayersChanged\ndata: (.*)/g)].map(
        ([, data = '']) => (JSON.parse(data) as { readonly players: unknown }).players,
      )
    backend.server(server).players(['amie', 'bo'])
    await until(() => lists().length > 0)
    backend.server(server).players(['bo'])
    // The log goes on meanwhile, in its order, and ends the stream's wait for players.
    await fleet.builds.patch('arena', { max: 3 })
    await until(has(withPlayers, 'BuildPatched'))
    await until(() => lists().length > 1)
    expect(lists()).toEqual([['amie', 'bo'], ['bo']])
    const numbers = withPlayers.events().map(({ seq }) => seq)
    expect(numbers).toEqual(numbers.map((_, index) => index + 1))
    await until(has(without, 'BuildPatched'))
    expect(without.text()).not.toContain('PlayersChanged')
    const resumed = await read('?players=true', { 'Last-Event-ID': withPlayers.events().at(-1)?.id ?? '' })
    await until(() => resumed.text() !== '')
    expect(resumed.events()).toEqual([])
    for (const reading of [withPlayers, without, resumed]) reading.stop()
    expect((await call('GET', `${listener.url}/api/v1/events?players=some`)).status).toBe(400)
  })

  it('resume after Last-Event-ID without loss or duplicates', async () => {
    await open()
    const first = await read('?from=1')
    await fleet.builds.create(build())
    await until(has(first, 'ServerCreated'))
    first.stop()
    const seen = first.events()
    const last = seen.at(-1)?.id ?? ''
    await standingBy(fleet, 2)
    const second = await read('', { 'Last-Event-ID': last })
    await fleet.builds.delete('arena')
    await until(has(second, 'BuildDeleted'))
    const numbers = [...seen, ...second.events()].map(({ seq }) => seq)
    expect(numbers).toEqual(numbers.map((_, index) => index + 1))
    second.stop()
  })

  it('begin with an ID before any event, wherever they start', async () => {
    await open()
    const next = await read()
    await until(() => /^retry: 1000\nid: .+\n\n/.test(next.text()))
    next.stop()
    const [, last = ''] = /^id: (.+)$/m.exec(next.text()) ?? []
    const resumed = await read('', { 'Last-Event-ID': last })
    await until(() => resumed.text() === `retry: 1000\nid: ${last}\n\n`)
    resumed.stop()
    const all = await read('?from=1')
    await until(() => all.text().startsWith(`retry: 1000\nid: ${last.replace(/\d+$/, '0')}\n\n`))
    all.stop()
  })

  it('start over for an ID issued before a host restart', async () => {
    await open()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const own = await read('?from=1')
    await until(() => own.events().length > 2)
    const [, second] = own.events()
    expect(second?.id).toMatch(/^[\w-]{12}-2$/)
    own.stop()
    const firstOf = async (id: string) => {
      const reading = await read('', { 'Last-Event-ID': id })
      await until(() => reading.events().length > 0)
      reading.stop()
      return reading.events()[0]?.seq
    }
    expect(await firstOf(second?.id ?? '')).toBe(3)
    expect(await firstOf('2')).toBe(3)
    // This is what a browser sends after a host restart.
    expect(await firstOf('-another-log-2')).toBe(1)
  })

  it('resume from the start of the stream if the reader disconnected before the first event', async () => {
    await open({ events: { heartbeatMs: 10 } })
    await fleet.builds.create(build({ standingBy: 0 }))
    const first = await read()
    await until(() => first.text().includes(':\n\n'))
    first.stop()
    expect(first.events()).toEqual([])
    const id = /^id: (.*)$/m.exec(first.text())?.[1] ?? ''
    await fleet.builds.patch('arena', { max: 2 })
    const second = await read('', { 'Last-Event-ID': id })
    await until(has(second, 'BuildPatched'))
    second.stop()
  })

  it.each([
    ['?from=x', {}],
    ['?from=-1', {}],
    ['?last=some', {}],
    ['?to=-1', {}],
    ['?types=BuildCreated,Some', {}],
    ['?types=PlayersChanged', {}],
    ['', { 'Last-Event-ID': '1.5' }],
    ['', { 'Last-Event-ID': '9'.repeat(20) }],
    ['', { 'Last-Event-ID': 'log-' }],
  ])('get 400 for an invalid event number: %s %j', async (path, headers) => {
    await open()
    expect((await call('GET', `${listener.url}/api/v1/events${path}`, { headers })).status).toBe(400)
  })

  it('begin with the newest ones, and end with the last one that was asked for', async () => {
    await open()
    await until(async () => (await fleet.health()).leads)
    await fleet.builds.create(build({ standingBy: 0 }))
    for (let max = 4; max < 9; max++) await fleet.builds.patch('arena', { max })
    const whole = await read('?from=1&to=7')
    await until(whole.ended)
    expect(whole.events().map(({ type }) => type)).toEqual([
      ...['LeadershipChanged', 'BuildCreated'],
      ...Array.from({ length: 5 }, () => 'BuildPatched'),
    ])
    const part = await read('?from=2&to=4&players=true')
    await until(part.ended)
    expect(part.events()).toEqual(whole.events().slice(1, 4))
    const last = whole.events().at(-1)
    const newest = await read('?last=2&to=7')
    await until(newest.ended)
    expect(newest.events()).toEqual(whole.events().slice(-2))
    // The reader knows which log this is, and resumes after what it has read.
    const id = (seq: number) => `${last?.id.slice(0, last.id.lastIndexOf('-'))}-${seq}`
    expect(newest.text()).toContain(`retry: 1000\nid: ${id(5)}\n\n`)
    // Of some types: it says up to where it has read, also if the last events are of others.
    const some = await read('?from=1&to=7&types=BuildCreated,LeadershipChanged')
    await until(some.ended)
    expect(some.events()).toEqual(whole.events().slice(0, 2))
    expect(some.text()).toMatch(new RegExp(`\nid: ${id(7)}\n\n$`))
    const more = await read('?last=500')
    await fleet.builds.patch('arena', { max: 11 })
    await until(has(more, 'BuildPatched'))
    await until(() => more.events().length === 8)
    const resumed = await read('?last=500', { 'Last-Event-ID': id(7) })
    await until(() => resumed.events().length === 1)
    for (const reading of [more, resumed]) reading.stop()
  })

  it('are interleaved with heartbeat comments while idle', async () => {
    await open({ events: { heartbeatMs: 10 } })
    const reading = await read()
    await until(() => reading.text().endsWith(':\n\n:\n\n:\n\n'))
    await fleet.builds.create(build())
    await until(has(reading, 'BuildCreated'))
    reading.stop()
  })

  it('include EventsDropped if the log no longer contains the requested events', async () => {
    const small = await createFleet({
      backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }),
      limits: { eventLogSize: 5 },
    })
    await small.builds.create(build())
    await standingBy(small, 2)
    listener = await entryPoint.open(managementRoutes(small))
    // What was asked for is gone as a whole.
    const part = await read('?from=1&to=2')
    await until(part.ended)
    expect(part.events()).toMatchObject([{ type: 'EventsDropped', from: 1, seq: 2 }])
    const newest = await read('?last=500')
    await until(() => newest.events().length >= 5)
    expect(has(newest, 'EventsDropped')()).toBe(false)
    newest.stop()
    const reading = await read('?from=1')
    await until(() => reading.events().length >= 6)
    const [dropped, next] = reading.events()
    expect(dropped).toMatchObject({ type: 'EventsDropped', event: 'EventsDropped', from: 1 })
    expect(next?.seq).toBe((dropped?.seq ?? 0) + 1)
    reading.stop()
    await small.close()
  })

  it('are sent to at most maxReaders readers; a disconnect frees a place', async () => {
    await open({ events: { maxReaders: 1, heartbeatMs: 10 } })
    const reading = await read()
    await until(() => reading.text().includes(':\n\n'))
    const refused = await call('GET', `${listener.url}/api/v1/events`)
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    reading.stop()
    await until(async () => {
      const again = await read()
      again.stop()
      return again.response.statusCode === 200
    })
  })

  it('are not streamed for HEAD, and end when the routes close', async () => {
    const routes = managementRoutes(fleet, { events: { maxReaders: 1 } })
    listener = await entryPoint.open(routes)
    const head = await call('HEAD', `${listener.url}/api/v1/events`)
    expect(head).toMatchObject({ status: 200, text: '', headers: { 'content-type': 'text/event-stream' } })
    const reading = await read()
    await until(() => reading.text() !== '')
    routes.close()
    await until(reading.ended)
    expect(reading.response.complete).toBe(true)
  })

  it('require the role read', async () => {
    const asked: unknown[] = []
    await open({
      authorize(request, operation) {
        asked.push(operation)
        return request.header('x-who') === 'me'
      },
    })
    expect((await call('GET', `${listener.url}/api/v1/events`)).status).toBe(403)
    const reading = await read('', { 'X-Who': 'me' })
    expect(reading.response.statusCode).toBe(200)
    expect(asked[0]).toEqual({ name: 'readEvents', role: 'read' })
    reading.stop()
  })

  it('are not buffered for a stalled reader, which is disconnected without affecting others and can resume', async () => {
    const large = flood()
    listener = await entryPoint.open(managementRoutes({ ...fleet, events: large.events }, { events: { stallMs: 200 } }))
    const before = process.memoryUsage().rss
    const slow = rawConnection(listener.url, 'GET /api/v1/events?from=1 HTTP/1.1\r\nHost: a\r\n\r\n')
    await slow.until(/^HTTP\/1\.1 200 /)
    slow.socket.pause()
    const quick = await read('?from=1')
    await until(() => quick.events().length > 50)
    quick.stop()
    // The stream has ended.
    await until(() => large.reading() === 0)
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 ** 2)
    slow.socket.resume()
    const received = await slow.closed()
    const numbers = [...received.matchAll(/^id: .*-(\d+)\nevent: .*\ndata: .*\n\n/gm)].map(([, seq]) => Number(seq))
    const last = numbers.at(-1) ?? 0
    expect(last).toBeGreaterThan(0)
    const again = await read('', { 'Last-Event-ID': String(last) })
    await until(() => again.events().length > 0)
    expect(again.events()[0]?.seq).toBe(last + 1)
    again.stop()
    await until(() => large.reading() === 0)
  })
})

it('serve ends event streams when it closes', async () => {
  const served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
  listener = { url: served.managementUrl, close: () => served.close() }
  const reading = await read()
  await until(() => reading.text() !== '')
  await served.close()
  await until(reading.ended)
  // If the connection had been cut, the response would be incomplete.
  expect(reading.response.complete).toBe(true)
})

it('readers count from their admission, and a place is free when a reader leaves before it has read anything', async () => {
  const routes = managementRoutes(fleet, { events: { maxReaders: 1 } })
  listener = { url: '', close: () => Promise.resolve(routes.close()) }
  const admit = (signal?: AbortSignal) =>
    routes.fetch(new Request('http://localhost/api/v1/events', { signal: signal ?? null }))
  const gone = new AbortController()
  const [first, second] = await Promise.all([admit(gone.signal), admit(gone.signal)])
  expect([first.status, second.status]).toEqual([200, 503])
  gone.abort()
  for (let i = 0; i < 2; i++) {
    const next = await admit()
    expect(next.status).toBe(200)
    await next.body?.cancel()
  }
})

/** An endless source of 10 kB events that counts its readers. */
function flood() {
  let reading = 0
  const events: Fleet['events'] = ({ from = 1, signal } = {}) =>
    (async function* () {
      reading++
      try {
        for (let seq = from; signal?.aborted !== true; seq++) {
          yield { type: 'BuildCreated', seq, at: 0, build: { namespace: 'n', name: 'b' }, message: 'x'.repeat(10_000) }
        }
      } finally {
        reading--
      }
    })()
  return { events, reading: () => reading }
}
