/** Connections to the API server stay open between bursts. Time is virtual, as are the requests where only their number counts. */
import { describe, expect, it } from 'vitest'
import { WarmConnections } from '../../../../adapters/kubernetes/client/connections.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond } from '../support/fake-api-server.js'

const minuteMs = 60_000

function scene(limit = 64) {
  const clock = virtualClock()
  const used: number[] = []
  const warm = new WarmConnections({
    ...{ clock, limit },
    use: async (count) => void used.push(count),
  })
  const burst = (size: number) => {
    for (let n = 0; n < size; n++) warm.started()
    for (let n = 0; n < size; n++) warm.ended()
  }
  return { clock, used, warm, burst }
}

describe('connections', () => {
  it('are used three times a minute after a burst, as many as the burst needed', async () => {
    const { clock, used, burst } = scene()
    burst(12)
    await clock.advance(minuteMs)
    expect(used).toEqual([12, 12, 12])
  })

  it('are kept for ten to twenty minutes after a burst, and then without urgent calls there are no requests', async () => {
    const { clock, used, burst } = scene()
    await clock.advance(9 * minuteMs)
    burst(12)
    await clock.advance(10 * minuteMs)
    expect(used).toHaveLength(30)
    await clock.advance(11 * minuteMs)
    const { length } = used
    await clock.advance(60 * minuteMs)
    expect(used).toHaveLength(length)
    expect(clock.pending).toBe(0)
  })

  it('in use are not counted, and no more are kept than the limit', async () => {
    const { clock, used, warm, burst } = scene(8)
    burst(20)
    warm.started()
    await clock.advance(20_000)
    expect(used).toEqual([7])
  })

  it('are no longer used once the client is closed', async () => {
    const { clock, used, warm, burst } = scene()
    burst(3)
    warm.close()
    burst(3)
    await clock.advance(minuteMs)
    expect(used).toEqual([])
    expect(clock.pending).toBe(0)
  })

  it('that a burst has opened are each used again by the client', async () => {
    const clock = virtualClock()
    const sockets = new Set<unknown>()
    const warmed = new Set<unknown>()
    const waiting: (() => void)[] = []
    const server = await fakeApiServer((request, response, url) => {
      const answer = () => respond(response, 200, { metadata: { name: 'a', resourceVersion: '1' } })
      if (url.pathname === '/version') warmed.add(request.socket)
      else sockets.add(request.socket)
      waiting.push(answer)
      if (waiting.length === 5) waiting.splice(0).forEach((send) => send())
    })
    const api = apiOf(configFor(server.url), { clock })
    const call = { what: 'write', method: 'PUT', path: '/apis/a', body: {}, priority: true } as const
    await Promise.all(Array.from({ length: 5 }, () => api.request(call)))
    expect(sockets.size).toBe(5)
    await clock.advance(20_000)
    await until('all connections are used', () => warmed.size === 5)
    expect(warmed).toEqual(sockets)
  })
})
