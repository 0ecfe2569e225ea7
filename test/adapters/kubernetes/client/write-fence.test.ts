/** A host that was suspended for longer than its lease writes nothing, even before its timers fire. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { WriteFence } from '../../../../adapters/kubernetes/client/write-fence.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const leaseMs = 60_000
const pod = { what: 'delete pod a', method: 'DELETE', path: '/api/v1/namespaces/games/pods/a' } as const
const read = { what: 'get pod a', method: 'GET', path: '/api/v1/namespaces/games/pods/a' } as const

/** A leader whose clocks can jump: the monotonic one, or only the wall clock, as after a suspend. */
async function leader() {
  const jumped = { elapsed: 0, now: 0 }
  const clock = {
    ...systemClock,
    elapsed: () => systemClock.elapsed() + jumped.elapsed,
    now: () => systemClock.now() + jumped.now,
  }
  let isHeld = false
  let revision = 0
  const server = await fakeApiServer((request, response, { pathname }) => {
    const lease = () => ({
      metadata: { name: 'fleet', resourceVersion: String(revision) },
      spec: { holderIdentity: 'me' },
    })
    if (!pathname.includes('/leases')) return respond(response, 200, { metadata: { name: 'a' } })
    if (request.method === 'GET' && !isHeld) return respond(response, 404, statusOf(404, 'NotFound', 'fleet'))
    if (request.method !== 'GET') revision++
    isHeld = true
    respond(response, 200, lease())
  })
  const fence = new WriteFence(clock)
  const api = apiOf(configFor(server.url), { clock, fence })
  const changes: string[] = []
  const lease = { namespace: 'games', name: 'fleet', identity: 'me', leaseMs }
  const resign = leaseElector({ api, clock, logger: silentLogger, fence, ...lease }).run({
    elected: () => changes.push('elected'),
    lost: () => changes.push('lost'),
  })
  onTestFinished(resign)
  await until('it leads', () => changes.includes('elected'))
  const writes = () => server.requests.filter((call) => call.startsWith('DELETE'))
  return { api, jumped, changes, writes, resign }
}

describe('the leader', () => {
  it('can write while its lease is valid', async () => {
    const { api, writes } = await leader()
    await api.request(pod)
    expect(writes()).toHaveLength(1)
  })

  it.each([['elapsed'], ['now']] as const)(
    'writes nothing once its lease has expired by its clock (%s)',
    async (which) => {
      const { api, jumped, changes, writes } = await leader()
      jumped[which] = leaseMs
      await expect(api.request(pod)).rejects.toMatchObject({ code: 'not-leader', retryable: true })
      expect(changes).toEqual(['elected', 'lost'])
      expect(writes()).toEqual([])
      await api.request(read)
    },
  )

  it('writes nothing when the lease expires while it connects', async () => {
    const { api, jumped, writes } = await leader()
    const request = api.request(pod)
    jumped.elapsed = leaseMs
    await expect(request).rejects.toMatchObject({ code: 'not-leader' })
    expect(writes()).toEqual([])
  })

  it('writes nothing after it has resigned', async () => {
    const { api, resign, writes } = await leader()
    await resign()
    await expect(api.request(pod)).rejects.toMatchObject({ code: 'not-leader' })
    expect(writes()).toEqual([])
  })
})
