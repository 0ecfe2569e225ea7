/** Webhooks to a real receiver: signed, delivered at least once and in order for each server, and reported if lost. */
import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { type StreamedEvent, verifyWebhook, webhook, type Webhook, type WebhookOptions } from '../../src/http/index.js'
import { createFleet, type EventOf, type FleetEvent, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { fleetMetrics } from '../../src/metrics/index.js'
import { virtualClock } from '../../src/testing/virtual-clock.js'
import { until } from './client.js'
import { build, memoryFleet, standingBy } from './fleet.js'

const secret = '0123456789abcdef'

interface Got {
  readonly event: StreamedEvent
  readonly id: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

let fleet: Fleet
let hook: Webhook | undefined
let url: string
let got: Got[]
/** What the receiver does with an event. Default: accepts it. */
let answer: (event: StreamedEvent, response: ServerResponse, times: number) => void
let stop: () => Promise<void>

beforeEach(async () => {
  fleet = await memoryFleet()
  hook = undefined
  got = []
  answer = (_, response) => response.end()
  const seen = new Map<number, number>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      const event = verifyWebhook({ headers: request.headers, body, secret })
      got.push({ event, id: String(request.headers['webhook-id']), headers: request.headers, body })
      const times = (seen.get(event.seq) ?? 0) + 1
      seen.set(event.seq, times)
      answer(event, response, times)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/hidden?key=hidden`
  stop = () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
})
afterEach(async () => {
  await hook?.close({ graceMs: 1 })
  await stop()
  await fleet.close()
})

const start = (options: Partial<WebhookOptions> = {}, of = fleet) => {
  hook = webhook(of, { url, secret, backoffInitialMs: 5, backoffMaxMs: 20, ...options })
}
const refuse = (status: number) => (_: StreamedEvent, response: ServerResponse) => {
  response.statusCode = status
  response.end()
}
const serverOf = (event: StreamedEvent) => ('server' in event ? event.server.name : '')
const numbers = () => got.map(({ event }) => event.seq)

describe('a webhook', () => {
  it('delivers each event as it happens, signed as Standard Webhooks specifies', async () => {
    const told: FleetEvent[] = []
    fleet.on('*', (event) => {
      if (event.seq > 0) told.push(event)
    })
    start({ headers: { 'X-Api-Key': 'k' } })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await until(() => got.length === told.length)
    expect(got.map(({ event }) => event).toSorted((a, b) => a.seq - b.seq)).toEqual(told)
    expect(new Set(got.map(({ id }) => id)).size).toBe(got.length)
    const [first] = got
    const { headers = {}, body = '', id = '' } = first ?? {}
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-api-key': 'k' })
    const signed = createHmac('sha256', secret).update(`${id}.${String(headers['webhook-timestamp'])}.${body}`)
    expect(headers['webhook-signature']).toBe(`v1,${signed.digest('base64')}`)
  })

  it('delivers events from the log, filtered by type', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    start({ from: 1, types: ['BuildCreated', 'BuildDeleted'] })
    await fleet.builds.delete('arena')
    await until(() => got.length === 2)
    expect(got.map(({ event }) => event.type)).toEqual(['BuildCreated', 'BuildDeleted'])
  })

  it('retries with the same ID after an error status, a redirect, a dropped connection, and a timeout', async () => {
    answer = (_, response, times) => {
      if (times === 1) refuse(500)(_, response)
      else if (times === 2) {
        response.writeHead(302, { Location: url })
        response.end()
      } else if (times === 3) response.destroy()
      else if (times > 4) response.end()
    }
    start({ timeoutMs: 100, types: ['BuildCreated'] })
    await fleet.builds.create(build())
    await until(() => got.length >= 5 && hook?.queued === 0)
    expect(new Set(got.map(({ id }) => id)).size).toBe(1)
  })

  it('honours Retry-After', async () => {
    const at: number[] = []
    answer = (_, response, times) => {
      at.push(performance.now())
      if (times > 1) return response.end()
      response.writeHead(429, { 'Retry-After': '1' })
      return response.end()
    }
    start({ types: ['BuildCreated'] })
    await fleet.builds.create(build())
    await until(() => at.length === 2)
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThan(950)
  })

  it('delivers WebhookFailed events of other webhooks if listed, but never its own', async () => {
    answer = (event, response) => (event.type === 'BuildCreated' ? refuse(404)(event, response) : response.end())
    start({ types: ['WebhookFailed', 'BuildCreated'], attempts: 1 })
    const nowhere = webhook(fleet, { url: 'http://127.0.0.1:1/hook', secret, types: ['BuildCreated'], attempts: 1 })
    await fleet.builds.create(build())
    await until(() => got.some(({ event }) => event.type === 'WebhookFailed') && hook?.queued === 0)
    await nowhere.close()
    await until(() => hook?.queued === 0)
    const failures = got.flatMap(({ event }) => (event.type === 'WebhookFailed' ? [event.url] : []))
    expect(failures).toEqual(['http://127.0.0.1:1'])
  })

  it('delivers WebhookFailed events of another webhook with the same host, but never its own', async () => {
    answer = (event, response) => (event.type === 'BuildCreated' ? refuse(404)(event, response) : response.end())
    start({ types: ['WebhookFailed', 'BuildCreated'], attempts: 1 })
    const other = webhook(fleet, { url: `${url}2`, secret, types: ['BuildCreated'], attempts: 1 })
    await fleet.builds.create(build())
    await until(() => got.some(({ event }) => event.type === 'WebhookFailed') && hook?.queued === 0)
    await other.close()
    await until(() => hook?.queued === 0)
    expect(got.filter(({ event }) => event.type === 'WebhookFailed')).toHaveLength(1)
  })

  it('shows only the scheme and host of its URL in logs, events, errors and metrics: the path can be a secret', async () => {
    const shown: unknown[] = []
    const note = (...line: unknown[]) => shown.push(...line)
    fleet.on('*', note)
    const metrics = fleetMetrics(fleet)
    const logger = { debug: note, info: note, warn: note, error: note }
    answer = refuse(404)
    start({ attempts: 2, types: ['BuildCreated'], logger, onDeadLetter: note })
    const nowhere = webhook(fleet, {
      url: 'http://127.0.0.1:1/hidden',
      secret,
      attempts: 1,
      logger,
      onDeadLetter: note,
    })
    await fleet.builds.create(build())
    await until(() => shown.filter((line) => line === 'webhook event not delivered; giving up').length >= 2)
    await nowhere.close({ graceMs: 1 })
    const text = inspect(shown, { depth: 9, maxStringLength: null, maxArrayLength: null }) + (await metrics.text())
    expect(text).toContain('http://127.0.0.1:1')
    expect(text).not.toContain('hidden')
  })

  it('preserves event order per server, and a blocked server does not delay others', async () => {
    let stuck: string | undefined
    answer = (event, response) => {
      stuck ??= serverOf(event) || undefined
      if (stuck !== undefined && serverOf(event) === stuck) refuse(503)(event, response)
      else response.end()
    }
    start({ types: ['ServerCreated', 'ServerStateChanged'] })
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const others = () => got.filter(({ event }) => serverOf(event) !== stuck)
    await until(() => others().length === 3)
    const ofStuck = () => got.filter(({ event }) => serverOf(event) === stuck).map(({ event }) => event.seq)
    expect(new Set(ofStuck()).size).toBe(1)
    answer = (_, response) => response.end()
    await until(() => hook?.queued === 0)
    for (const name of new Set(got.map(({ event }) => serverOf(event)))) {
      const order = got.filter(({ event }) => serverOf(event) === name).map(({ event }) => event.seq)
      expect(order).toEqual(order.toSorted((a, b) => a - b))
    }
    expect(new Set(numbers()).size).toBe(6)
  })

  it('reports undeliverable events to the fleet, onDeadLetter, and the logger', async () => {
    const letters: unknown[] = []
    const errors: string[] = []
    const failed: EventOf<'WebhookFailed'>[] = []
    fleet.on('WebhookFailed', (event) => failed.push(event))
    const nothing = () => {}
    answer = (event, response) => (event.type === 'BuildCreated' ? refuse(404)(event, response) : response.end())
    start({
      attempts: 3,
      onDeadLetter(event, reason) {
        letters.push([event.type, reason])
        throw new Error('of the host')
      },
      logger: { debug: nothing, info: nothing, warn: nothing, error: (_, message) => errors.push(message) },
    })
    await fleet.builds.create(build())
    await until(() => failed.length === 1)
    const lost = got.filter(({ event }) => event.type === 'BuildCreated')
    expect(lost).toHaveLength(3)
    expect(failed[0]).toMatchObject({
      url: new URL(url).origin,
      eventSeq: lost[0]?.event.seq,
      reason: 'the receiver answered with 404',
    })
    expect(failed[0]?.seq).toBeGreaterThan(0)
    expect(letters).toEqual([['BuildCreated', 'the receiver answered with 404']])
    expect(errors).toContain('webhook event not delivered; giving up')
    expect(failed[0]?.message).toMatch(/^event \d+ \(BuildCreated\) was not delivered to http/)
    // Later events are delivered, except its own WebhookFailed.
    await fleet.builds.delete('arena')
    await until(() => got.some(({ event }) => event.type === 'BuildDeleted') && hook?.queued === 0)
    expect(got.some(({ event }) => event.type === 'WebhookFailed')).toBe(false)
  })

  it('queues at most maxQueued events, and delivers EventsDropped for events that the log drops in the meantime', async () => {
    const small = await createFleet({
      backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }),
      limits: { eventLogSize: 5 },
    })
    const held: ServerResponse[] = []
    answer = (_, response) => held.push(response)
    start({ maxQueued: 2, timeoutMs: 10_000 }, small)
    await small.builds.create(build())
    await standingBy(small, 2)
    await until(() => held.length > 0)
    await small.builds.delete('arena')
    await until(async () => (await small.servers.list()).length === 0)
    expect(hook?.queued).toBe(2)
    answer = (_, response) => response.end()
    for (const response of held) response.end()
    await until(() => hook?.queued === 0 && got.some(({ event }) => event.type === 'EventsDropped'))
    await hook?.close()
    await small.close()
  })

  it('delivers queued events before it closes', async () => {
    answer = (_, response, times) => (times > 1 ? response.end() : refuse(500)(_, response))
    start()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await until(() => got.length > 0)
    await hook?.close()
    expect(hook?.queued).toBe(0)
    const sent = got.length
    await fleet.builds.delete('arena')
    expect(got).toHaveLength(sent)
  })

  it('can be spread into another object and closed through it', async () => {
    const copy = { ...webhook(fleet, { url, secret }) }
    await copy.close()
    await fleet.builds.create(build())
    expect(got).toEqual([])
  })

  it('can be closed twice concurrently', async () => {
    answer = () => {}
    start({ timeoutMs: 10_000 })
    await fleet.builds.create(build())
    await until(() => got.length > 0)
    const both = Promise.all([hook?.close({ graceMs: 50 }), hook?.close({ graceMs: 50 })])
    await both
    expect(hook?.queued).toBe(0)
  })

  it('drops undelivered events at the end of the grace period when closing', async () => {
    const clock = virtualClock()
    const letters: StreamedEvent[] = []
    await stop()
    start({
      ...{ clock, types: ['BuildCreated'], backoffInitialMs: 60_000, backoffMaxMs: 60_000 },
      onDeadLetter: (event) => letters.push(event),
    })
    await fleet.builds.create(build())
    // The event is being delivered, or waits for its next attempt.
    await until(() => hook?.queued === 1 && clock.pending === 1)
    const closed = hook?.close({ graceMs: 50 })
    await until(() => clock.pending === 2)
    await clock.advance(49)
    expect([hook?.queued, letters]).toEqual([1, []])
    await clock.advance(1)
    await closed
    expect([hook?.queued, letters]).toEqual([0, [expect.objectContaining({ type: 'BuildCreated' })]])
  })

  it.each([
    [{ url: 'ftp://a' }, /url must be an absolute/],
    [{ url: 'hooks.example/hidden' }, /^(?!.*hidden).*url must be an absolute/],
    [{ url: 'https://user:hidden@a/hook' }, /^(?!.*hidden).*must not contain credentials/],
    [{ headers: { 'X-Key': 'a\nb' } }, /headers: one of X-Key has/],
    [{ secret: 'short' }, /secret must have at least 16 bytes/],
    [{ secret: 'whsec_c2hvcnQ=' }, /secret must have at least 16 bytes/],
    [{ attempts: 0 }, /attempts must be an integer ≥ 1, but is 0/],
  ])('rejects %j', (options, message) => {
    expect(() => start(options)).toThrow(
      expect.objectContaining({ code: 'invalid', message: expect.stringMatching(message) }),
    )
  })
})

describe('verifyWebhook', () => {
  const event = { type: 'BuildDeleted', seq: 7, at: 1, build: { namespace: 'default', name: 'arena' }, message: 'gone' }
  const body = JSON.stringify(event)
  const now = 1_700_000_000_000
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const signed = (timestamp = now / 1000, text = body) => ({
    'webhook-id': 'a-7',
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${createHmac('sha256', key).update(`a-7.${timestamp}.${text}`).digest('base64')}`,
  })
  const good = { body, secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', now }

  it('returns the event if any secret matches any signature, given bytes or text and Headers or Node headers', () => {
    expect(verifyWebhook({ ...good, headers: signed() })).toEqual(event)
    expect(verifyWebhook({ ...good, headers: new Headers(signed()), body: Buffer.from(body) })).toEqual(event)
    expect(verifyWebhook({ ...good, headers: signed(), secret: [secret, good.secret] })).toEqual(event)
    for (const text of ['', '{', 'hello'])
      expect(() => verifyWebhook({ ...good, body: text, headers: signed(now / 1000, text) })).toThrow(
        expect.objectContaining({
          code: 'invalid',
          message: expect.stringMatching(/^the body of this webhook is signed, but is not JSON: /),
        }),
      )
    const both = { ...signed(), 'webhook-signature': `v1,AAAA ${signed()['webhook-signature']}` }
    expect(verifyWebhook({ ...good, headers: both })).toEqual(event)
  })

  it('rejects a parsed body', () => {
    const parsed: never = event as never
    expect(() => verifyWebhook({ ...good, headers: signed(), body: parsed })).toThrow(
      expect.objectContaining({ code: 'invalid', message: expect.stringContaining('raw text or bytes') }),
    )
  })

  it.each([
    ['another body', { headers: signed(), body: body.replace('7', '8') }],
    ['another secret', { headers: signed(), secret }],
    ['another id', { headers: { ...signed(), 'webhook-id': 'a-8' } }],
    ['another time', { headers: { ...signed(), 'webhook-timestamp': String(now / 1000 + 1) } }],
    ['an old one', { headers: signed(now / 1000 - 301) }],
    ['one of the future', { headers: signed(now / 1000 + 301) }],
    ['no time', { headers: { ...signed(), 'webhook-timestamp': undefined } }],
    ['no signature', { headers: { ...signed(), 'webhook-signature': undefined } }],
    ['no headers', { headers: {} }],
  ])('refuses %s', (_, options) => {
    expect(() => verifyWebhook({ ...good, ...options })).toThrow(expect.objectContaining({ code: 'unauthenticated' }))
  })
})
