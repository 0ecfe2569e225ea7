/** A host that watches the Lease of another, on a virtual clock. */
import { PassThrough } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import type { ApiCall } from '../../../../adapters/kubernetes/client/api-call.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

/** So long that it does not end within a test. */
const leaseMs = 3_600_000

/** A host whose watch is open and silent, and whose requests are answered while `accepted`. */
async function scene() {
  const clock = virtualClock()
  const state = { requests: 0, accepted: true }
  const lease = {
    metadata: { name: 'fleet', resourceVersion: '1' },
    spec: { holderIdentity: 'leader', leaseDurationSeconds: leaseMs / 1_000, renewTime: 'then' },
  }
  const object = async (_: ApiCall) => {
    state.requests++
    if (!state.accepted) throw new FleetError('unavailable', 'credentials rejected')
    return lease
  }
  const open = async () => ({ body: new PassThrough(), stop() {} })
  const api = Object.defineProperties(apiOf(configFor('http://unused'), { clock }), {
    object: { value: object },
    list: { value: async () => ({ items: [lease], revision: '1' }) },
    open: { value: open },
  })
  const heard = { leader: undefined as string | undefined, causes: [] as (string | undefined)[] }
  const place = { namespace: 'games', name: 'fleet', identity: 'host', leaseMs }
  const resign = leaseElector({ api, clock, logger: silentLogger, ...place }).run({
    elected() {},
    lost: (leader) => (heard.leader = leader),
    blocked: (cause) => void heard.causes.push(cause),
  })
  onTestFinished(resign)
  await clock.until(() => heard.leader === 'leader')
  // Until the watch is open, the Lease is read five times within its duration.
  await clock.advance(leaseMs / 4)
  state.requests = 0
  return { clock, state, heard }
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
