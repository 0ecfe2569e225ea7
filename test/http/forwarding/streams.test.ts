/** Streams through a host that does not lead: events and logs flow, and end with their reader, their leader or the host between. */
import { get, type IncomingMessage } from 'node:http'
import type { Backend, LogsOptions } from 'gamekeeper'
import { expect, it, onTestFinished } from 'vitest'
import { build, standingBy } from '../fleet.js'
import { type HostOptions, hosts, until } from './hosts.js'

/** Reads a stream. `ended` resolves when it ends, whether or not in order. */
async function read(url: string) {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = get(url, { agent: false }, resolve)
    request.on('error', reject)
    onTestFinished(() => void request.destroy())
  })
  let text = ''
  response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  response.on('error', () => {})
  const ended = new Promise<void>((resolve) => response.on('close', () => resolve()))
  return {
    status: response.statusCode,
    headers: response.headers,
    text: () => text,
    ended,
    leave: () => response.destroy(),
  }
}

async function pair(options: HostOptions = {}, backend: Partial<Backend> = {}) {
  const { election, open } = hosts(backend)
  const [leader, other] = [await open(options), await open(options)]
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  await leader.fleet.builds.create(build())
  await standingBy(leader.fleet, 2)
  return { election, leader, other }
}

it('events flow, and end when another host leads', async () => {
  const { leader, other } = await pair()
  const events = await read(`${other.manage}/events?from=1`)
  expect(events.status).toBe(200)
  expect(events.headers['content-type']).toBe('text/event-stream')
  await until(() => events.text().includes('event: BuildCreated'))
  await leader.fleet.builds.create(build({ buildID: 'b2' }, 'second'))
  await until(() => events.text().includes('second'))
  const atLeader = await read(`${leader.manage}/events?from=1`)
  await until(() => atLeader.text().includes('event: BuildCreated'))
  other.lead()
  await Promise.all([events.ended, atLeader.ended])
  const next = await read(`${leader.manage}/events?from=1`)
  await until(() => next.text().includes('"leads":true'))
})

it('they go on if the address of the leader is lost for a moment', async () => {
  const { election, leader, other } = await pair()
  const events = await read(`${other.manage}/events?from=1`)
  await until(() => events.text().includes('event: BuildCreated'))
  election.pretend(undefined)
  election.pretend(leader.address)
  await leader.fleet.builds.create(build({ buildID: 'b2' }, 'second'))
  await until(() => events.text().includes('second'))
})

it('a reader that leaves ends its stream at the leader', async () => {
  const { other } = await pair({ serve: { events: { maxReaders: 1 } } })
  const first = await read(`${other.manage}/events?from=1`)
  await until(() => first.text().includes('event: BuildCreated'))
  expect((await read(`${other.manage}/events`)).status).toBe(503)
  first.leave()
  await until(async () => (await read(`${other.manage}/events`)).status === 200)
})

it('logs flow as they are written, and end with their reader', async () => {
  let end = () => {}
  let isRead = false
  async function* logs(_: unknown, { signal }: LogsOptions = {}) {
    yield 'grüße'
    isRead = true
    const left = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()))
    await Promise.race([left, new Promise<void>((resolve) => (end = resolve))])
    if (signal?.aborted) isRead = false
    else yield 'the last line'
  }
  const { leader, other } = await pair({}, { logs })
  const [server] = await leader.fleet.servers.list()
  const url = `${other.manage}/gameservers/default/${server?.metadata.name}/logs?follow=true`
  const log = await read(url)
  await until(() => log.text() === 'grüße\n')
  end()
  await log.ended
  expect(log.text()).toBe('grüße\nthe last line\n')
  isRead = false
  const left = await read(url)
  await until(() => isRead)
  left.leave()
  await until(() => !isRead)
})

it('a host that closes ends the streams that it forwards', async () => {
  const { other } = await pair()
  const stream = await read(`${other.manage}/events?from=1`)
  await until(() => stream.text().includes('event: BuildCreated'))
  await other.served.close()
  await stream.ended
})

it('a leader that is gone ends them, too', async () => {
  const { leader, other } = await pair()
  const stream = await read(`${other.manage}/events?from=1`)
  await until(() => stream.text().includes('event: BuildCreated'))
  await leader.proxy.close()
  await stream.ended
})
