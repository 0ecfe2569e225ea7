/** An API server that answers late: a leader keeps its lease as long as that is safe, and not longer. On a virtual clock. */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { ApiCall } from '../../../../adapters/kubernetes/client/api.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

const leaseMs = 2_000
/** A delay: the write takes effect, and its answer never comes. */
const lostAnswer = -1

/** A leader whose requests are answered after `delaysMs`, the first of which is for the next write; `Infinity`: never. */
async function scene() {
  const clock = virtualClock()
  const state = { lease: undefined as object | undefined, revision: 0, delaysMs: [] as number[], writes: 0 }
  const api = apiOf(configFor('http://unused'), { clock })
  const answer = ({ method, body }: ApiCall): object => {
    if (method === 'GET') {
      if (!state.lease) throw new FleetError('not-found', 'there is no lease')
      return state.lease
    }
    const based = Object(Object(body)['metadata'])['resourceVersion']
    if (state.lease && based !== String(state.revision)) throw new FleetError('conflict', 'the lease has changed')
    const metadata = { name: 'fleet', resourceVersion: String(++state.revision) }
    return (state.lease = { ...Object(body), metadata })
  }
  /** Resolves after `delayMs`, and rejects when the call is aborted or times out. */
  const answered = ({ timeoutMs = Infinity, signal }: ApiCall, delayMs: number) =>
    new Promise<void>((resolve, reject) => {
      const stop = () => reject(new FleetError('unavailable', 'no answer'))
      signal?.addEventListener('abort', stop)
      if (delayMs < timeoutMs) clock.after(delayMs, resolve)
      else clock.after(timeoutMs, stop)
    })
  const object = async (call: ApiCall) => {
    if (call.method !== 'GET') state.writes++
    const delayMs = call.method === 'GET' ? 0 : (state.delaysMs.shift() ?? 0)
    if (delayMs === lostAnswer) {
      answer(call)
      await answered(call, Infinity)
    }
    if (delayMs > 0) await answered(call, delayMs)
    return answer(call)
  }
  const list = () => new Promise<never>(() => {})
  Object.defineProperties(api, { object: { value: object }, list: { value: list } })
  const leadership = { leads: false, changes: 0 }
  const change = (leads: boolean) => {
    leadership.leads = leads
    leadership.changes++
  }
  const lease = { namespace: 'games', name: 'fleet', identity: 'host', leaseMs }
  const resign = leaseElector({ api, clock, logger: silentLogger, ...lease }).run({
    elected: () => change(true),
    lost: () => change(false),
  })
  onTestFinished(async () => {
    // The clock stands still from now on.
    state.delaysMs = []
    await resign()
  })
  await clock.until(() => leadership.leads)
  return { clock, state, leadership }
}

describe('a leader', () => {
  it('keeps its lease when one renewal takes a second', async () => {
    const { clock, state, leadership } = await scene()
    // The write is sent again, which is as slow.
    state.delaysMs = [1_000, 1_000]
    await clock.advance(5 * leaseMs)
    expect(leadership).toEqual({ leads: true, changes: 1 })
  })

  it('keeps its lease when every renewal takes 0.8 s', async () => {
    const { clock, state, leadership } = await scene()
    state.delaysMs = Array.from({ length: 100 }, () => 800)
    await clock.advance(10 * leaseMs)
    expect(leadership).toEqual({ leads: true, changes: 1 })
  })

  it('keeps its lease when the connection is dead, since the write is sent again on another', async () => {
    const { clock, state, leadership } = await scene()
    const before = state.revision
    state.delaysMs = [Infinity]
    await clock.advance(leaseMs)
    expect(leadership).toEqual({ leads: true, changes: 1 })
    expect(state.revision).toBeGreaterThan(before)
  })

  it('keeps its lease when a renewal took effect and its answer is lost', async () => {
    const { clock, state, leadership } = await scene()
    state.delaysMs = [lostAnswer]
    await clock.advance(5 * leaseMs)
    expect(leadership).toEqual({ leads: true, changes: 1 })
  })

  it('stops before its lease ends when no renewal is answered', async () => {
    const { clock, state, leadership } = await scene()
    state.delaysMs = Array.from({ length: 100 }, () => Infinity)
    await clock.advance(0.89 * leaseMs)
    expect(leadership.leads).toBe(true)
    await clock.advance(0.02 * leaseMs)
    expect(leadership.leads).toBe(false)
  })

  it('counts its lease from the time it sends a renewal, not from the answer', async () => {
    const { clock, state, leadership } = await scene()
    state.delaysMs = [0.2 * leaseMs, ...Array.from({ length: 100 }, () => Infinity)]
    // The renewal is sent after a quarter of the lease.
    await clock.advance((0.25 + 0.89) * leaseMs)
    expect(leadership.leads).toBe(true)
    await clock.advance(0.02 * leaseMs)
    expect(leadership.leads).toBe(false)
  })

  it('whose lease ended does not wait for its last renewal, and takes the lease when any host may', async () => {
    const { clock, state, leadership } = await scene()
    state.delaysMs = [Infinity, Infinity]
    await clock.advance(0.95 * leaseMs)
    expect(leadership.leads).toBe(false)
    await clock.advance(0.1 * leaseMs)
    expect(leadership.leads).toBe(true)
  })

  it('sends a renewal that is answered in time once', async () => {
    const { clock, state } = await scene()
    state.writes = 0
    await clock.advance(leaseMs)
    expect(state.writes).toBe(4)
  })
})
