/** A host that watches the Lease of another, on a virtual clock. */
import { PassThrough } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../../../adapters/kubernetes/client/api-errors.js'
import type { ApiCall } from '../../../../adapters/kubernetes/client/api.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

/** So long that it does not end within a test. */
const leaseMs = 3_600_000

/** A host whose watch is open and silent, and whose requests are answered while `accepted`. */
async function scene({ mayWrite = true } = {}) {
  const clock = virtualClock()
  const state = { requests: 0, accepted: true, mayWrite, writes: [] as unknown[] }
  const lease = {
    metadata: { name: 'fleet', resourceVersion: '1' },
    spec: { holderIdentity: 'leader', leaseDurationSeconds: leaseMs / 1_000, renewTime: 'then', acquireTime: 'before' },
  }
  const object = async ({ method, query }: ApiCall) => {
    state.requests++
    if (method !== 'GET') {
      state.writes.push(query)
      const cause = new ApiError(403, 'Forbidden', 'leases are forbidden', 'fleet')
      if (!state.mayWrite) throw new FleetError('unavailable', cause.message, { cause })
    }
    if (!state.accepted) throw new FleetError('unavailable', 'credentials rejected')
    return lease
  }
  const open = async () => ({ body: new PassThrough(), stop() {} })
  const api = Object.defineProperties(apiOf(configFor('http://unused'), { clock }), {
    object: { value: object },
    list: { value: async () => ({ items: [lease], revision: '1' }) },
    open: { value: open },
  })
  const heard = { leader: undefined as string | undefined, causes: [] as (string | undefined)[], isLost: false }
  const place = { namespace: 'games', name: 'fleet', identity: 'host', leaseMs }
  const logged: unknown[] = []
  const logger = { ...silentLogger, info: (fields: object, message: string) => void logged.push([message, fields]) }
  const resign = leaseElector({ api, clock, logger, ...place }).run({
    elected() {},
    lost(leader) {
      heard.leader = leader
      heard.isLost = true
    },
    blocked: (cause) => void heard.causes.push(cause),
  })
  onTestFinished(resign)
  await clock.until(() => heard.isLost)
  // Until the watch is open, the Lease is read five times within its duration.
  await clock.advance(leaseMs / 4)
  state.requests = 0
  return { clock, state, heard, logged }
}

it('reads the Lease every 30 s, since a watch outlives the credentials it was opened with', async () => {
  const { clock, state } = await scene()
  await clock.advance(300_000)
  expect(state.requests).toBeGreaterThanOrEqual(9)
  expect(state.requests).toBeLessThanOrEqual(11)
})

it('says within 30 s that its credentials are rejected, and again when they are accepted', async () => {
  const { clock, state, heard } = await scene()
  state.accepted = false
  await clock.advance(31_000)
  expect(heard.causes.at(-1)).toBe('credentials rejected')
  state.accepted = true
  await clock.advance(leaseMs / 4)
  expect(heard.causes.at(-1)).toBe(undefined)
})

it('finds out once whether it may write the Lease, without a write, and says so if it may not', async () => {
  const { clock, state, heard } = await scene()
  expect([heard.leader, heard.causes, state.writes]).toEqual(['leader', [], [{ dryRun: 'All' }]])
  await clock.advance(60_000)
  expect(state.writes).toHaveLength(1)
  const { clock: other, state: refused, heard: told } = await scene({ mayWrite: false })
  expect(told.causes).toEqual(['leases are forbidden'])
  refused.mayWrite = true
  await other.advance(leaseMs)
  expect(told.causes.at(-1)).toBe(undefined)
})

it('logs once who leads, and since when', async () => {
  const { clock, logged } = await scene()
  await clock.advance(300_000)
  expect(logged).toEqual([
    ['another host leads the fleet', { leader: 'leader', since: 'before', lease: 'games/fleet' }],
  ])
})
