/** How many requests an election makes, and how often it logs, while the API server answers and while it refuses. */
import { expect, it, onTestFinished } from 'vitest'
import type { ApiCall } from '../../../../adapters/kubernetes/client/api.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

const leaseMs = 2_000

/** A host on a virtual clock, with requests that are answered without a network. Writes can be refused. */
async function scene() {
  const clock = virtualClock()
  const methods: string[] = []
  const warnings: string[] = []
  const state = {
    lease: undefined as object | undefined,
    revision: 0,
    refusal: undefined as string | undefined,
    code: 'internal' as FleetError['code'],
  }
  const object = async ({ method, body }: ApiCall) => {
    methods.push(method)
    if (method === 'GET') {
      if (!state.lease) throw new FleetError('not-found', 'there is no lease')
      return state.lease
    }
    if (state.refusal !== undefined) throw new FleetError(state.code, state.refusal)
    const metadata = { name: 'fleet', resourceVersion: String(++state.revision) }
    return (state.lease = { ...(body as object), metadata })
  }
  /** The watch on the Lease stays silent. */
  const list = () => new Promise<never>(() => {})
  const api = Object.defineProperties(apiOf(configFor('http://unused'), { clock }), {
    object: { value: object },
    list: { value: list },
  })
  const leadership = { leads: false, causes: [] as (string | undefined)[] }
  const warn = (_: object, message: string) => warnings.push(message)
  const logger: Logger = { debug() {}, info() {}, warn, error() {} }
  const lease = { namespace: 'games', name: 'fleet', identity: 'host', leaseMs }
  const resign = leaseElector({ api, clock, logger, ...lease }).run({
    elected: () => (leadership.leads = true),
    lost: () => (leadership.leads = false),
    blocked: (cause) => void leadership.causes.push(cause),
  })
  onTestFinished(resign)
  await clock.until(() => leadership.leads)
  methods.length = 0
  return { clock, methods, warnings, state, leadership, resign }
}

it('a leader renews its lease with one request', async () => {
  const { clock, methods, leadership } = await scene()
  await clock.advance(8 * leaseMs)
  expect(new Set(methods)).toEqual(new Set(['PUT']))
  expect(methods).toHaveLength(32)
  expect(leadership.leads).toBe(true)
})

it('a leader reads its Lease if somebody else wrote it, and goes on if it is still the holder', async () => {
  const { clock, methods, state, leadership } = await scene()
  const { lease } = state
  state.refusal = 'the reply was lost'
  await clock.advance(leaseMs / 4)
  expect(methods).toEqual(['PUT'])
  state.refusal = undefined
  state.lease = lease
  await clock.advance(leaseMs / 4)
  expect(methods).toEqual(['PUT', 'GET', 'PUT'])
  expect(leadership.leads).toBe(true)
})

it('a host that may not write the Lease backs off, and logs the cause once a minute', async () => {
  const { clock, methods, warnings, state, leadership } = await scene()
  state.refusal = 'leases are forbidden'
  await clock.advance(leaseMs)
  expect(leadership.leads).toBe(false)
  await clock.advance(60_000 - leaseMs)
  // Each attempt is a read and a write. At most 4 attempts as the leader, 6 until the back-off is a lease long, and then one
  // for each 0.8 leases.
  expect(methods.length).toBeLessThan(2 * (4 + 6 + 60_000 / leaseMs / 0.8))
  expect(methods.length).toBeGreaterThan(40)
  expect(warnings).toEqual(['cannot renew the leader lease', 'cannot acquire the leader lease'])
  await clock.advance(60_000)
  expect(warnings.slice(2)).toEqual(['cannot acquire the leader lease'])
  expect(new Set(leadership.causes)).toEqual(new Set(['leases are forbidden']))
  state.refusal = undefined
  await clock.advance(2 * leaseMs)
  expect(leadership.causes.at(-1)).toBe(undefined)
  expect(leadership.leads).toBe(true)
})

it.each([
  ['without an answer, and reads nothing', 'unavailable', ['PUT']],
  ['refused because the Lease has changed, and reads it first', 'conflict', ['PUT', 'GET', 'PUT']],
] as const)('a leader that resigns sends one release: %s', async (_, code, expected) => {
  const { methods, state, resign } = await scene()
  Object.assign(state, { code, refusal: 'not now' })
  await resign()
  expect(methods).toEqual(expected)
})
