/** What many, slow or greedy readers of `GET /api/v1/events` cost the host, over real sockets. */
import { request as httpRequest, type ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { UnnumberedEvent } from '../../src/contracts/events.js'
import { EventLog } from '../../src/fleet/event-emitter.js'
import { managementRoutes } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { sliceChars } from '../../src/platform/turns.js'
import { type Listener, listening, rawConnection, until } from './client.js'
import { memoryFleet } from './fleet.js'

let fleet: Fleet
let listener: Listener
const closing: (() => void)[] = []

beforeEach(async () => {
  fleet = await memoryFleet()
})
afterEach(async () => {
  for (const close of closing.splice(0)) close()
  await listener.close()
  await fleet.close()
})

/** A log whose events count how often they are serialized. */
function countingLog(count: number, message: string) {
  const counts = { serialized: 0 }
  const log = new EventLog(count)
  const add = () => {
    const event: UnnumberedEvent = { type: 'BuildCreated', at: 0, build: { namespace: 'n', name: 'b' }, message }
    const toJSON = () => {
      counts.serialized++
      return { ...event, toJSON: undefined }
    }
    log.append(Object.assign(event, { toJSON }))
  }
  for (let i = 0; i < count; i++) add()
  return { log, counts, add }
}

/** Calls `read` whenever a reader takes an event from the log. */
function observed(log: EventLog, read: () => void): Fleet['events'] {
  return (options) => {
    const reader = log.read(options)
    return {
      take() {
        const event = reader.take?.()
        if (event) read()
        return event
      },
      async next() {
        const result = await reader.next()
        if (result.done !== true) read()
        return result
      },
      return: () => reader.return?.() ?? Promise.resolve({ done: true, value: undefined }),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }
}

/** Counts the events that one reader receives. */
function reader(query = '?from=1'): { readonly events: () => number } {
  let events = 0
  const request = httpRequest(`${listener.url}/api/v1/events${query}`, { agent: false }, (response) => {
    let rest = ''
    response.setEncoding('latin1').on('data', (text: string) => {
      const parts = (rest + text).split('\nevent: ')
      events += parts.length - 1
      rest = parts.at(-1)?.slice(-'\nevent: '.length) ?? ''
    })
    response.on('error', () => {})
  })
  request.on('error', () => {})
  request.end()
  closing.push(() => request.destroy())
  return { events: () => events }
}

it('100 readers from the first event: each event is serialized once, and a turn of the event loop has a bounded part of the work', async () => {
  const count = 1_500
  const { log, counts, add } = countingLog(count, 'x'.repeat(100))
  let thisTurn = 0
  let most = 0
  let isOver = false
  listener = await listening(managementRoutes({ ...fleet, events: observed(log, () => thisTurn++) }).nodeHandler)
  const watch = async () => {
    while (!isOver) {
      most = Math.max(most, thisTurn)
      thisTurn = 0
      await nextTurn()
    }
  }
  const watching = watch()
  const readers = Array.from({ length: 100 }, () => reader())
  await until(() => readers.every(({ events }) => events() === count))
  isOver = true
  await watching
  expect(counts.serialized).toBe(count)
  // At most two turns' slices, since two observations can lie on both sides of one, and each reader's first event.
  const perSlice = Math.ceil(sliceChars / 200) + 1
  expect(most).toBeLessThanOrEqual(2 * 8 * perSlice + readers.length)

  add()
  await until(() => readers.every(({ events }) => events() === count + 1))
  expect(counts.serialized).toBe(count + 1)
}, 90_000)

it('a reader that reads nothing costs a bounded buffer until it is disconnected', async () => {
  const { log } = countingLog(5_000, 'x'.repeat(10_000))
  let response: ServerResponse | undefined
  let most = 0
  const events = observed(log, () => (most = Math.max(most, response?.writableLength ?? 0)))
  const routes = managementRoutes({ ...fleet, events }, { events: { stallMs: 200 } })
  listener = await listening((incoming, outgoing) => {
    response = outgoing
    routes.nodeHandler(incoming, outgoing)
  })
  const slow = rawConnection(listener.url, 'GET /api/v1/events?from=1 HTTP/1.1\r\nHost: a\r\n\r\n')
  closing.push(() => slow.socket.destroy())
  await slow.until(/^HTTP\/1\.1 200 /)
  slow.socket.pause()
  await until(() => response?.destroyed === true)
  expect(most).toBeLessThanOrEqual(2 * sliceChars + 10_000)
})

it('a reader that falls behind the log while it is slow is told what it missed', async () => {
  const size = 100
  const { log, add } = countingLog(size, 'x'.repeat(10_000))
  let response: ServerResponse | undefined
  const routes = managementRoutes({ ...fleet, events: (options) => log.read(options) })
  listener = await listening((incoming, outgoing) => {
    response = outgoing
    routes.nodeHandler(incoming, outgoing)
  })
  const slow = rawConnection(listener.url, 'GET /api/v1/events?from=1 HTTP/1.1\r\nHost: a\r\n\r\n')
  closing.push(() => slow.socket.destroy())
  await slow.until(/^HTTP\/1\.1 200 /)
  slow.socket.pause()
  while (response?.writableNeedDrain !== true) {
    add()
    await nextTurn()
  }
  for (let i = 0; i < 3 * size; i++) add()
  const { last } = log
  slow.socket.resume()
  await until(() => slow.received().includes(`"seq":${last}}`))
  const [, missed = ''] = /event: EventsDropped\ndata: (.*)\n/.exec(slow.received()) ?? []
  const message = expect.stringMatching(new RegExp(`^events \\d+ to ${last - size} are no longer in the log$`))
  expect(JSON.parse(missed)).toMatchObject({ type: 'EventsDropped', seq: last - size, message })
})
