/** Calls of one build that get no answer, for example because of an admission webhook, do not hold up other builds. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type LimitedCall, RateLimiter } from '../../../../adapters/kubernetes/client/rate-limiter.js'
import type { InstanceSpec } from '../../../../src/contracts/backend.js'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'
import { specOf } from '../support/support.js'

/** A backend whose cluster answers changes to the pods of build `bad` with `answerBad`. */
async function scene(answerBad: (response: ServerResponse) => void) {
  let bad = 0
  let revision = 10
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (request.method === 'GET') return respond(response, 200, { metadata: { resourceVersion: '10' }, items: [] })
    if (!pathname.endsWith('/pods')) return respond(response, 201, { metadata: { name: 'its-secret' } })
    void bodyOf(request).then((pod) => {
      if (Object.values(pod.metadata.labels).includes('bad')) {
        bad++
        return answerBad(response)
      }
      respond(response, 201, { ...pod, metadata: { ...pod.metadata, uid: 'p', resourceVersion: String(++revision) } })
    })
  })
  const backend = kubernetesBackend({
    ...{ kubeConfig: configFor(server.url), namespaces: ['games'], portRange: '10000-10999' },
    ...{ connections: 8, callTimeoutMs: 60_000 },
  })
  const aborters: AbortController[] = []
  onTestFinished(async () => {
    for (const aborter of aborters) aborter.abort()
    await backend.close()
  })
  const create = (build: string) => {
    const aborter = new AbortController()
    aborters.push(aborter)
    const { build: ref, ...spec } = specOf('games', 'true', { ports: [7777] })
    return backend.create({ ...spec, build: { ...ref, name: build } } satisfies InstanceSpec, {
      signal: aborter.signal,
    })
  }
  return { create, badRequests: () => bad }
}

async function bodyOf(request: IncomingMessage) {
  const pod: { readonly metadata: { readonly labels: Readonly<Record<string, string>> } } = JSON.parse(
    await text(request),
  )
  return pod
}

describe('creations of one build', () => {
  it.each([
    ['hang', () => {}],
    [
      'are throttled',
      (response: ServerResponse) => {
        response.setHeader('retry-after', '30')
        respond(response, 429, statusOf(429, 'TooManyRequests'))
      },
    ],
  ])('%s, and another build gets its pods at once', async (_, answerBad) => {
    const { create, badRequests } = await scene(answerBad)
    void Promise.allSettled(Array.from({ length: 30 }, () => create('bad')))
    await until('some of them are sent', () => badRequests() > 0)
    const before = performance.now()
    await Promise.all(Array.from({ length: 30 }, () => create('good')))
    expect(performance.now() - before).toBeLessThan(15_000)
  })
})

describe('the rate limiter', () => {
  function limiterOf(maxConcurrent: number, perSecond = 1_000) {
    const clock = virtualClock()
    const limiter = new RateLimiter(clock, { maxConcurrent, perSecond })
    /** Starts as many calls as possible. */
    const fill = (call: LimitedCall) => {
      let count = 0
      while (limiter.tryStart(call)) count++
      return count
    }
    return { clock, limiter, fill }
  }

  it('leaves room for other groups, for calls without a group, and for priority calls', () => {
    const { fill } = limiterOf(64)
    expect(fill({ group: 'a' })).toBe(21)
    expect(fill({ group: 'b' })).toBe(11)
    expect(fill({ group: 'c' })).toBe(5)
    expect(fill({ group: 'd' })).toBe(3)
    expect(fill({})).toBe(16)
    expect(fill({ priority: true, group: 'a' })).toBe(8)
  })

  it.each([1, 2])('runs every call even if only %i may run at once', (maxConcurrent) => {
    for (const call of [{}, { group: 'a' }, { priority: true }]) {
      expect(limiterOf(maxConcurrent).limiter.tryStart(call)).toBe(true)
    }
  })

  it('starts waiting calls in order of arrival, except those of a group without room', () => {
    const { limiter, fill } = limiterOf(8)
    const started: string[] = []
    expect(fill({ group: 'a' })).toBe(3)
    expect(fill({})).toBe(4)
    for (const [name, call] of [
      ['a4', { group: 'a' }],
      ['b1', { group: 'b' }],
      ['x', {}],
      ['b2', { group: 'b' }],
    ] as const) {
      limiter.enqueue(call, () => started.push(name))
    }
    const drop = limiter.enqueue({}, () => started.push('dropped'))
    drop()
    limiter.done({})
    limiter.done({})
    expect(started).toEqual(['b1', 'x'])
    limiter.done({ group: 'a' })
    limiter.done({ group: 'a' })
    expect(started).toEqual(['b1', 'x', 'a4', 'b2'])
  })

  it('lets no call overtake one that waits for the rate limit', async () => {
    const { clock, limiter, fill } = limiterOf(8, 2)
    expect(fill({})).toBe(2)
    const started: string[] = []
    limiter.enqueue({ group: 'a' }, () => started.push('a'))
    expect(limiter.tryStart({})).toBe(false)
    await clock.advance(500)
    expect(started).toEqual(['a'])
  })
})
