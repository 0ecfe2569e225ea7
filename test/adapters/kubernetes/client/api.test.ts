import { describe, expect, it } from 'vitest'
import { reasonOf, statusOf as httpStatusOf } from '../../../../adapters/kubernetes/client/api-errors.js'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import { kubernetesBackend } from '../../../../adapters/kubernetes/index.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const get = { what: 'read it', method: 'GET', path: '/api/v1/namespaces/games/pods/a' } as const

async function failureOf(work: Promise<unknown>): Promise<FleetError> {
  const error: unknown = await work.then(
    () => undefined,
    (failure: unknown) => failure,
  )
  if (FleetError.is(error)) return error
  throw new Error('expected a FleetError', { cause: error })
}

describe('an API call', () => {
  it.each([
    [404, 'NotFound', 'a', 'not-found'],
    [404, 'NotFound', undefined, 'unavailable'],
    [409, 'AlreadyExists', 'a', 'conflict'],
    [409, 'Conflict', 'a', 'conflict'],
    [422, 'Invalid', 'a', 'invalid'],
    [403, 'Forbidden', 'a', 'unavailable'],
    [500, 'InternalError', undefined, 'unavailable'],
    [503, 'ServiceUnavailable', undefined, 'unavailable'],
  ] as const)('rejects a response of %i %s for %s with %s', async (status, reason, name, code) => {
    const server = await fakeApiServer((_, response) => respond(response, status, statusOf(status, reason, name)))
    const error = await failureOf(apiOf(configFor(server.url)).request(get))
    expect(error.code).toBe(code)
    expect(error.message).toContain(`failed to read it (Kubernetes API at ${server.url}): ${reason} indeed`)
    expect([httpStatusOf(error), reasonOf(error)]).toEqual([status, reason])
  })

  it('that a proxy rejects fails with an error that includes the response', async () => {
    const server = await fakeApiServer((_, response) => response.writeHead(502).end('<h1>Bad Gateway</h1>'))
    const error = await failureOf(apiOf(configFor(server.url)).request(get))
    expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('<h1>Bad Gateway</h1>') })
  })

  it('fails with an error that names the server when nothing listens there', async () => {
    const error = await failureOf(apiOf(configFor('http://127.0.0.1:1')).request(get))
    expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('http://127.0.0.1:1') })
  })

  it('times out if there is no response, or if the response never ends', async () => {
    const server = await fakeApiServer(() => {})
    const api = apiOf(configFor(server.url), { callTimeoutMs: 100 })
    expect(await failureOf(api.request(get))).toMatchObject({ code: 'unavailable' })
    server.answer = (_, response) => response.writeHead(200).write('{"metadata":')
    expect(await failureOf(api.request(get))).toMatchObject({ message: expect.stringContaining('within 0.1 s') })
  })

  it('rejects when its signal is aborted before or during the call, and when the client is closed', async () => {
    const server = await fakeApiServer(() => {})
    const api = apiOf(configFor(server.url))
    expect(await failureOf(api.request({ ...get, signal: AbortSignal.abort() }))).toMatchObject({ code: 'aborted' })
    const leaving = new AbortController()
    const [left, cut] = [api.request({ ...get, signal: leaving.signal }), api.request(get)]
    leaving.abort()
    expect(await failureOf(left)).toMatchObject({ code: 'aborted' })
    api.close()
    expect(await failureOf(cut)).toMatchObject({ code: 'closed' })
    expect(await failureOf(api.request(get))).toMatchObject({ code: 'closed' })
  })

  it('uses its current credentials while they are refreshed, and keeps its timeout when there are none', async () => {
    const server = await fakeApiServer((_, response) => respond(response, 200, {}))
    let ahead = 0
    const clock = { ...systemClock, elapsed: () => systemClock.elapsed() + ahead }
    const config = configFor(server.url)
    const apply = config.applyToHTTPSOptions.bind(config)
    let hangs = false
    let uses = 0
    config.applyToHTTPSOptions = (options) => {
      uses++
      return hangs ? new Promise(() => {}) : apply(options)
    }
    const api = apiOf(config, { clock })
    const read = { what: 'read it', method: 'GET', path: '/x' } as const
    await api.request(read)
    hangs = true
    ahead = 61_000
    await api.request(read)
    expect(uses).toBe(2)
    const call = { ...read, timeoutMs: 200 }
    server.answer = (_, response) => respond(response, 401, statusOf(401, 'Unauthorized'))
    await expect(api.request(call)).rejects.toThrow('did not answer within 0.2 s')
    await expect(api.open(call)).rejects.toThrow('did not answer within 0.2 s')
  })

  it('is retried once with new credentials when the old ones are rejected', async () => {
    const server = await fakeApiServer((request, response) => {
      if (request.headers.authorization === 'Bearer new') respond(response, 200, { metadata: { name: 'a' } })
      else respond(response, 401, statusOf(401, 'Unauthorized'))
    })
    const config = configFor(server.url, ['old', 'new'])
    expect(await apiOf(config).object(get)).toMatchObject({ metadata: { name: 'a' } })
    expect(config.uses).toBe(2)
    const error = await failureOf(apiOf(configFor(server.url, ['old'])).request(get))
    expect(error.message).toContain('credentials rejected')
    expect(server.requests).toHaveLength(4)
  })

  it('is retried after a 429, no sooner than Retry-After allows', async () => {
    let refused = 0
    const server = await fakeApiServer((_, response) => {
      if (refused++ > 0) return respond(response, 200, { metadata: { name: 'a' } })
      response.writeHead(429, { 'retry-after': '1' }).end()
    })
    const begun = performance.now()
    await apiOf(configFor(server.url)).object(get)
    expect(performance.now() - begun).toBeGreaterThan(950)
  })

  it('waits in FIFO order for the concurrency and rate limits', async () => {
    let [now, most] = [0, 0]
    const server = await fakeApiServer((_, response, url) => {
      most = Math.max(most, ++now)
      setTimeout(() => {
        now--
        respond(response, 200, { metadata: { name: url.searchParams.get('n') } })
      }, 5)
    })
    const api = apiOf(configFor(server.url), { requestsPerSecond: 100, connections: 4 })
    const begun = performance.now()
    const order: number[] = []
    const call = async (n: number) => {
      await api.request({ ...get, query: { n } })
      order.push(n)
    }
    await Promise.all(Array.from({ length: 150 }, (_, n) => call(n)))
    // The calls allowed in the first second start at once.
    expect(performance.now() - begun).toBeGreaterThan(400)
    expect(most).toBe(4)
    expect(Math.max(...order.map((n, at) => Math.abs(n - at)))).toBeLessThanOrEqual(4)
  })

  it('counts its time in the queue towards its timeout', async () => {
    const server = await fakeApiServer(() => {})
    const clock = virtualClock()
    const api = apiOf(configFor(server.url), { connections: 1, callTimeoutMs: 1_000, clock })
    let over = 0
    const calls = Array.from({ length: 5 }, () => failureOf(api.request(get)).finally(() => over++))
    await clock.advance(999)
    expect(over).toBe(0)
    await clock.advance(1)
    // No further time passes.
    const errors = await Promise.all(calls)
    expect(errors.map(({ code }) => code)).toEqual(errors.map(() => 'unavailable'))
    expect(errors.map(({ message }) => message)).toEqual(errors.map(() => expect.stringContaining('within 1 s')))
    // Calls that gave up have left the queue.
    server.answer = (_, response) => respond(response, 200, { metadata: { name: 'a' } })
    expect(await api.object(get)).toMatchObject({ metadata: { name: 'a' } })
  })

  it('with priority is not blocked by other calls, no matter how many get no response', async () => {
    const server = await fakeApiServer((_, response, url) => {
      if (url.searchParams.has('ahead')) respond(response, 200, { metadata: { name: 'a' } })
    })
    // Longer than the test's own timeout.
    const api = apiOf(configFor(server.url), { connections: 8, callTimeoutMs: 600_000 })
    const stuck = Array.from({ length: 30 }, () => api.request(get).catch(() => undefined))
    const prioritized = { ...get, query: { ahead: 1 }, priority: true }
    await Promise.all(Array.from({ length: 20 }, () => api.object(prioritized)))
    api.close()
    await Promise.all(stuck)
  })

  it('with priority is next when the rate limit is reached', async () => {
    const order: string[] = []
    const server = await fakeApiServer((_, response, url) => {
      order.push(url.searchParams.get('n') ?? '')
      respond(response, 200, { metadata: { name: 'a' } })
    })
    const api = apiOf(configFor(server.url), { requestsPerSecond: 20, connections: 8 })
    const others = Array.from({ length: 40 }, (_, n) => api.request({ ...get, query: { n } }))
    await api.request({ ...get, query: { n: 'ahead' }, priority: true })
    await Promise.all(others)
    expect(order).toHaveLength(41)
    expect(order.indexOf('ahead')).toBeLessThan(30)
  })

  it('frees its slot for other calls until its retry', async () => {
    let refused = 0
    const server = await fakeApiServer((_, response) => {
      if (refused++ > 0) return respond(response, 200, { metadata: { name: 'a' } })
      response.writeHead(429, { 'retry-after': '3' }).end()
    })
    const api = apiOf(configFor(server.url), { connections: 1 })
    const over: string[] = []
    const busy = api.request(get).then(() => over.push('busy'))
    await Promise.all([busy, api.request(get).then(() => over.push('other'))])
    expect(over).toEqual(['other', 'busy'])
  })

  it('that is unlimited does not wait for other calls', async () => {
    const server = await fakeApiServer((_, response, url) => {
      if (url.searchParams.has('urgent')) respond(response, 200, { metadata: { name: 'a' } })
    })
    const api = apiOf(configFor(server.url), { connections: 1, callTimeoutMs: 5_000 })
    const stuck = [api.request(get), api.request(get)].map((call) => call.catch(() => undefined))
    expect(await api.object({ ...get, query: { urgent: 1 }, unlimited: true })).toMatchObject({
      metadata: { name: 'a' },
    })
    api.close()
    await Promise.all(stuck)
  })
})

describe('the kubeconfig', () => {
  it('is read from KUBECONFIG, and the error for an unreadable file names it', () => {
    const before = process.env['KUBECONFIG']
    try {
      process.env['KUBECONFIG'] = '/no/such/kubeconfig'
      expect(defaultKubeConfig).toThrow(/cannot read KUBECONFIG or ~\/\.kube\/config: .*no such file/)
      expect(() => kubernetesBackend()).toThrow(FleetError)
    } finally {
      if (before === undefined) delete process.env['KUBECONFIG']
      else process.env['KUBECONFIG'] = before
    }
  })
})
