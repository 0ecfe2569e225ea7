import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { watchCollection } from '../../../../adapters/kubernetes/client/watch.js'
import { type Clock, systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const path = '/api/v1/namespaces/games/pods'

/** A collection whose lists and watches the test controls. */
async function scene(
  options: { readonly stallMs?: number; readonly tokens?: readonly string[]; readonly clock?: Clock } = {},
) {
  const { clock = systemClock } = options
  const watches: { readonly from: string; readonly url: URL; readonly response: ServerResponse }[] = []
  const events: string[] = []
  const counts = { broken: 0, followed: 0 }
  let revision = 100
  /** Watches are rejected with this status. */
  let refuses: number | undefined
  const server = await fakeApiServer((request, response, url) => {
    if (options.tokens && request.headers.authorization !== `Bearer ${options.tokens.at(-1)}`) {
      return respond(response, 401, statusOf(401, 'Unauthorized'))
    }
    if (!url.searchParams.has('watch')) {
      const items = [{ metadata: { name: `at-${revision}`, resourceVersion: String(revision) } }]
      return respond(response, 200, { metadata: { resourceVersion: String(revision) }, items })
    }
    if (refuses !== undefined) return respond(response, refuses, statusOf(refuses, 'Timeout'))
    response.writeHead(200)
    response.flushHeaders()
    watches.push({ from: url.searchParams.get('resourceVersion') ?? '', url, response })
  })
  const api = apiOf(configFor(server.url, options.tokens), { clock })
  const parts = { api, clock, logger: silentLogger, what: 'pods', path }
  const stop = watchCollection(
    { ...parts, ...(options.stallMs !== undefined && { stallMs: options.stallMs }) },
    {
      listed: (objects) => events.push(`listed ${objects.map(({ metadata }) => metadata.name).join()}`),
      changed: ({ metadata }) => events.push(`changed ${metadata.name}`),
      deleted: ({ metadata }) => events.push(`deleted ${metadata.name}`),
      restored: () => events.push('restored'),
      broken: () => counts.broken++,
      followed: () => counts.followed++,
    },
  )
  onTestFinished(stop)
  const send = (n: number, type: string, name: string, at: number) =>
    watches[n]?.response.write(
      `${JSON.stringify({ type, object: { metadata: { name, resourceVersion: `${at}` } } })}\n`,
    )
  const opened = (count: number) => until(`watch ${count} is open`, () => watches.length >= count, 20_000)
  /** Also waits until the client has noticed. */
  const followed = (count: number) => until(`watch ${count} is followed`, () => counts.followed === count, 20_000)
  const broken = (count: number) => until(`${count} failures are noticed`, () => counts.broken === count, 20_000)
  const lists = () => server.requests.filter((line) => !/watch=true|limit=1/.test(line)).length
  const setRevision = (next: number) => void (revision = next)
  const setRefuses = (code: number | undefined) => void (refuses = code)
  return { server, watches, events, counts, opened, followed, broken, send, lists, stop, setRevision, setRefuses }
}

describe('a watch', () => {
  it('lists once, then reports every change, no matter how the stream is split into chunks', async () => {
    const { watches, events, opened, lists } = await scene()
    await opened(1)
    const event = (type: string, name: string) => ({ type, object: { metadata: { name, resourceVersion: '101' } } })
    const text = `${JSON.stringify(event('ADDED', 'ä'))}\n${JSON.stringify(event('DELETED', 'b'))}\n`
    for (const byte of Buffer.from(text)) watches[0]?.response.write(Buffer.from([byte]))
    await until('both are reported', () => events.length === 3)
    expect(events).toEqual(['listed at-100', 'changed ä', 'deleted b'])
    expect([lists(), watches[0]?.from]).toEqual([1, '100'])
    const query = watches[0]?.url.searchParams
    expect(query?.get('allowWatchBookmarks')).toBe('true')
    expect(Number(query?.get('timeoutSeconds'))).toBeGreaterThanOrEqual(300)
  })

  it('when ended by the server, resumes from the last event or bookmark without a relist', async () => {
    const { watches, events, send, opened, lists, setRevision } = await scene()
    await opened(1)
    setRevision(110)
    send(0, 'MODIFIED', 'a', 105)
    send(0, 'BOOKMARK', '', 110)
    watches[0]?.response.end()
    await opened(2)
    send(1, 'MODIFIED', 'c', 111)
    await until('it is reported', () => events.includes('changed c'))
    expect([lists(), watches[1]?.from]).toEqual([1, '110'])
  })

  it('reconnects after repeated failures, with a pause and without a relist', async () => {
    const { server, opened, lists } = await scene()
    const begun = performance.now()
    for (const count of [1, 2, 3]) {
      await opened(count)
      server.cutAll()
    }
    await opened(4)
    expect(lists()).toBe(1)
    expect(performance.now() - begun).toBeGreaterThan(700)
  })

  it('reads changes from lists while every watch ends at once', async () => {
    const clock = virtualClock()
    const { watches, events, followed, broken, setRevision } = await scene({ clock })
    for (let count = 1; count <= 4; count++) {
      await followed(count)
      watches.at(-1)?.response.end()
      await broken(count)
      setRevision(100 + count)
      await clock.advance(500 * 2 ** (count - 1))
    }
    await followed(5)
    expect(events).toEqual(['listed at-100', 'listed at-104'])
  })

  it('relists when its revision has expired', async () => {
    const { watches, events, opened, lists, setRevision } = await scene()
    await opened(1)
    setRevision(200)
    watches[0]?.response.end(`${JSON.stringify({ type: 'ERROR', object: statusOf(410, 'Expired') })}\n`)
    await opened(2)
    expect(events).toEqual(['listed at-100', 'listed at-200'])
    expect([lists(), watches[1]?.from]).toEqual([2, '200'])
  })

  it('reconnects when it stalls', async () => {
    const { watches, send, opened, lists, events } = await scene({ stallMs: 300 })
    await opened(2)
    // The next one may have stalled, too.
    await until('it is reported', () => {
      send(watches.length - 1, 'ADDED', 'a', 101)
      return events.includes('changed a')
    })
    expect(watches[0]?.response.destroyed || watches[0]?.response.socket?.destroyed).toBe(true)
    expect(lists()).toBe(1)
  })

  it('reconnects without a pause after a quiet period, which does not count as a failure', async () => {
    const clock = virtualClock()
    const { counts, followed, lists } = await scene({ stallMs: 100, clock })
    for (let count = 1; count <= 15; count++) {
      await followed(count)
      // No other time passes.
      await clock.advance(100)
    }
    expect([counts.broken, lists()]).toEqual([0, 1])
  })

  it('resets its back-off once the connection has been stable', async () => {
    const clock = virtualClock()
    const [stallMs, firstPauseMs] = [700, 500]
    const { server, followed, broken } = await scene({ stallMs, clock })
    for (let count = 1; count <= 4; count++) {
      await followed(count)
      server.cutAll()
      await broken(count)
      await clock.advance(firstPauseMs * 2 ** (count - 1))
    }
    // The fifth connection is stable, is reopened, and breaks.
    await followed(5)
    await clock.advance(stallMs)
    await followed(6)
    server.cutAll()
    await broken(5)
    await clock.advance(firstPauseMs)
    await followed(7)
  })

  it.each([
    ['accepts the watch but stays silent', undefined],
    ['rejects the watch', 504],
  ] as const)('lists again after the cluster was restored from a backup and %s', async (_, code) => {
    const { server, watches, events, opened, setRevision, setRefuses, lists } = await scene()
    await opened(1)
    setRevision(40)
    setRefuses(code)
    server.cutAll()
    await until('it is listed', () => events.includes('listed at-40'))
    expect(events).toEqual(['listed at-100', 'restored', 'listed at-40'])
    setRefuses(undefined)
    await until('it is watched from there', () => watches.at(-1)?.from === '40')
    expect(lists()).toBe(2)
  })

  it('does not check the revision twice when the connection breaks during the check', async () => {
    const { server, watches, opened } = await scene()
    const { answer } = server
    server.answer = (request, response, url) => {
      if (url.searchParams.get('limit') !== '1') answer(request, response, url)
    }
    for (const count of [1, 2, 3]) {
      await opened(count)
      watches[count - 1]?.response.destroy()
    }
    await opened(4)
    expect(server.requests.filter((line) => line.includes('limit=1'))).toHaveLength(1)
  })

  it('continues with new credentials when the old ones have expired', async () => {
    const { events, opened, send } = await scene({ tokens: ['old', 'new'] })
    await opened(1)
    send(0, 'ADDED', 'a', 101)
    await until('it is reported', () => events.includes('changed a'))
  })

  it('reports nothing and sends no requests once stopped', async () => {
    const { server, watches, events, opened, send, stop } = await scene()
    await opened(1)
    stop()
    await until('its connection is closed', () => watches[0]?.response.socket?.destroyed !== false)
    send(0, 'ADDED', 'a', 101)
    expect([events, server.requests.length]).toEqual([['listed at-100'], 2])
  })
})
