/** The client of scaling webhooks, and a fleet with one, over real sockets: whatever the receiver does, there is an answer or a reason in time. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import type { WebhookBody } from '../../src/contracts/scaling-demand.js'
import { webhookClient } from '../../src/fleet/scaling-webhooks.js'
import { createFleet } from '../../src/index.js'
import { virtualClock, type VirtualClock } from '../../src/testing/virtual-clock.js'
import { build } from './fleet.js'

const demand: WebhookBody = {
  build: { namespace: 'default', name: 'arena' },
  counts: { pending: 0, initializing: 0, standingBy: 1, active: 2, terminating: 0, inUse: 2 },
  waiting: 3,
  standingBy: 1,
  max: 20,
  now: '2026-01-05T17:30:00.000Z',
}

let clock: VirtualClock
let receiver: Server
let origin: string
let requests: { readonly request: IncomingMessage; readonly body: string }[]
let answer: (response: ServerResponse) => void

beforeEach(async () => {
  clock = virtualClock()
  requests = []
  answer = (response) => response.end('{"standingBy":4}')
  receiver = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      requests.push({ request, body: Buffer.concat(chunks).toString() })
      answer(response)
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
})
afterEach(stop)

async function stop(): Promise<void> {
  if (!receiver.listening) return
  const closed = new Promise<void>((resolve) => receiver.close(() => resolve()))
  receiver.closeAllConnections()
  await closed
}

function asked(signal = new AbortController().signal): Promise<unknown> {
  return webhookClient(clock)({ url: `${origin}/arena`, body: demand, timeoutMs: 5_000, signal })
}

describe('the client of scaling webhooks', () => {
  it('posts the demand as JSON, and resolves with the JSON of the answer', async () => {
    expect(await asked()).toEqual({ standingBy: 4 })
    const [{ request, body } = { request: undefined, body: '' }] = requests
    expect([request?.method, request?.url, request?.headers['content-type']]).toEqual([
      'POST',
      '/arena',
      'application/json',
    ])
    expect(JSON.parse(body)).toEqual(demand)
    expect(clock.pending).toBe(0)
  })

  it.each<[string, (response: ServerResponse) => void, string]>([
    ['an error', (response) => response.writeHead(500).end('{"standingBy":4}'), 'it answered with status 500'],
    ['no content', (response) => response.writeHead(204).end(), 'it answered with status 204'],
    ['text', (response) => response.end('four'), 'the answer must be JSON, but is "four"'],
    ['nothing', (response) => response.end(), 'the answer must be JSON, but is ""'],
    [
      'more than 64 KiB',
      (response) => response.end(JSON.stringify({ standingBy: 4, more: 'x'.repeat(70_000) })),
      'the answer has more than 64 KiB',
    ],
    [
      'a redirect',
      (response) => response.writeHead(307, { location: `${origin}/elsewhere` }).end(),
      'it answered with status 307',
    ],
    ['a broken connection', (response) => response.destroy(), 'other side closed'],
  ])('rejects %s, and says why', async (_, broken, message) => {
    answer = broken
    await expect(asked()).rejects.toMatchObject({ code: 'unavailable', message })
    expect(requests).toHaveLength(1)
    expect(clock.pending).toBe(0)
  })

  it('does not read on after 64 KiB of an answer without an end', async () => {
    answer = (response) => {
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(16_384)));
      }
      response.on('drain', more)
      more()
    }
    await expect(asked()).rejects.toMatchObject({ message: 'the answer has more than 64 KiB' })
  })

  it.each<[string, (response: ServerResponse) => void]>([
    ['does not come', () => {}],
    ['does not end', (response) => void response.write('{"standingBy":')],
  ])('rejects an answer that %s in time', async (_, late) => {
    let hasAnswered = false
    answer = (response) => {
      late(response)
      hasAnswered = true
    }
    const rejected = expect(asked()).rejects.toMatchObject({ message: 'no answer within 5 s' })
    await vi.waitFor(() => expect(hasAnswered).toBe(true))
    await clock.advance(5_000)
    await rejected
  })

  it('rejects when the receiver is away', async () => {
    await stop()
    await expect(asked()).rejects.toMatchObject({ message: expect.stringContaining('ECONNREFUSED') })
  })

  it('ends the request when its signal fires', async () => {
    answer = () => {}
    const closing = new AbortController()
    const rejected = expect(asked(closing.signal)).rejects.toMatchObject({ code: 'unavailable' })
    await vi.waitFor(() => expect(requests).toHaveLength(1))
    closing.abort(new Error('the host closes'))
    await rejected
  })
})

describe('a fleet with a webhook', () => {
  it('keeps as many servers ready as the receiver says, and closes while a request is in progress', async () => {
    const fleet = await createFleet({
      backend: memoryBackend({ clock }),
      clock,
      logger: false,
      scalingWebhooks: [origin],
    })
    const scaling = { webhook: { url: `${origin}/arena` } }
    await fleet.builds.create({ ...build(), spec: { ...build().spec, standingBy: 1, max: 10, scaling } })
    const decider = async () => (await fleet.builds.list())[0]?.status.scaling?.decider
    await clock.settle()
    await expect.poll(decider).toBe('webhook')
    await clock.advance(10_000)
    expect((await fleet.builds.list())[0]?.status.currentStandingBy).toBe(4)
    answer = () => {}
    await clock.advance(20_000)
    await vi.waitFor(() => expect(requests).toHaveLength(2))
    await fleet.close()
  })
})
