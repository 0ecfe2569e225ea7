/** A Lease deleted or edited by hand must not produce a second leader. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { observe, OwnLease } from '../../../../adapters/kubernetes/leader-election/lease.js'
import { type Clock, systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const leaseMs = 6_000

interface Spec {
  readonly holderIdentity?: string
  readonly leaseDurationSeconds?: number
  readonly renewTime?: string
}

/** An API server with one Lease. */
async function scene(clock: Clock = systemClock) {
  const state = { lease: undefined as { readonly metadata: object; readonly spec: Spec } | undefined, revision: 0 }
  const server = await fakeApiServer((request, response, { searchParams }) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      const { lease } = state
      if (request.method === 'GET') {
        return lease ? respond(response, 200, lease) : respond(response, 404, statusOf(404, 'NotFound', 'fleet'))
      }
      const { metadata, spec } = JSON.parse(text) as { metadata: { resourceVersion?: string }; spec: Spec }
      const isFree = request.method === 'POST' ? !lease : metadata.resourceVersion === String(state.revision)
      if (!isFree) return respond(response, 409, statusOf(409, 'Conflict', 'fleet'))
      if (searchParams.has('dryRun')) return respond(response, 200, { metadata, spec })
      state.lease = { metadata: { name: 'fleet', resourceVersion: String(++state.revision) }, spec }
      respond(response, 200, state.lease)
    })
  })

  function host(
    identity: string,
    hasRun?: () => Promise<boolean>,
    onChange?: (identity: string, leads: boolean) => void,
  ) {
    const api = apiOf(configFor(server.url), { clock })
    const leadership = {
      leads: false,
      leader: undefined as string | undefined,
      changes: [] as string[],
      announced: [] as string[],
    }
    const announce = (message: string) => void leadership.announced.push(message)
    const lease = { namespace: 'games', name: 'fleet', identity, leaseMs, announce, ...(hasRun && { hasRun }) }
    const resign = leaseElector({ api, clock, logger: silentLogger, ...lease }).run({
      elected() {
        leadership.leads = true
        onChange?.(identity, true)
        leadership.changes.push('elected')
      },
      lost(leader) {
        leadership.leads = false
        onChange?.(identity, false)
        leadership.leader = leader
        leadership.changes.push('lost')
      },
    })
    onTestFinished(resign)
    return Object.assign(leadership, { api, resign })
  }

  const remove = () => (state.lease = undefined)
  /** Like `kubectl patch`. */
  const edit = (spec: Spec) => {
    const metadata = { name: 'fleet', resourceVersion: String(++state.revision) }
    state.lease = { metadata, spec: { ...state.lease?.spec, ...spec } }
  }
  return { state, server, host, remove, edit }
}

describe('a Lease that is deleted', () => {
  it('is recreated by the leader, which keeps leading alone', async () => {
    const { state, host, remove } = await scene()
    const first = host('first')
    await until('the first leads', () => first.leads)
    const others = ['b', 'c', 'd', 'e'].map((identity) => host(identity))
    await until('all are notified', () => others.every(({ leader }) => leader === 'first'))
    const before = [...first.changes]
    for (let times = 0; times < 3; times++) {
      remove()
      await until('there is a Lease again', () => state.lease)
      expect(state.lease?.spec).toMatchObject({ holderIdentity: 'first' })
    }
    expect(first.changes.at(-1)).toBe('elected')
    expect(first.changes).toEqual(before)
    expect(others.flatMap(({ changes }) => changes)).not.toContain('elected')
  })

  it('is recreated by another host one lease duration after its leader disappears', async () => {
    const { host, remove } = await scene()
    const first = host('first')
    await until('the first leads', () => first.leads)
    const second = host('second')
    await until('the second is notified', () => second.leader === 'first')
    const removedAt = performance.now()
    first.api.close()
    remove()
    await until('the second leads', () => second.leads)
    expect(first.announced).toEqual(['first leads the fleet'])
    expect(second.announced).toEqual(['second leads the fleet, after first'])
    expect(performance.now() - removedAt).toBeGreaterThan(leaseMs * 0.95)
  })

  it('and recreated by another host ends the old leader’s term at its next check', async () => {
    const clock = virtualClock()
    const { state, server, host, remove } = await scene(clock)
    const first = host('first')
    await until('the first leads', () => first.leads)
    const { answer } = server
    // Happens just before the host's next write.
    server.answer = (request, response, url) => {
      if (request.method !== 'GET') {
        const metadata = { name: 'fleet', resourceVersion: String(++state.revision) }
        state.lease = { metadata, spec: { holderIdentity: 'another', leaseDurationSeconds: 1 } }
        server.answer = answer
        return respond(response, 409, statusOf(409, 'Conflict', 'fleet'))
      }
      answer(request, response, url)
    }
    remove()
    // The leader's next check comes before its own lease expires.
    await clock.advance(leaseMs / 4)
    await until('it no longer leads', () => !first.leads)
  })

  it('makes a new host wait for one lease duration if the fleet has run before', async () => {
    const { host } = await scene()
    const begun = performance.now()
    const late = host('late', () => Promise.resolve(true))
    await until('it leads', () => late.leads)
    expect(performance.now() - begun).toBeGreaterThan(leaseMs * 0.95)
    expect(late.changes.at(-1)).toBe('elected')
    expect(late.changes[0]).toBe('lost')
  })

  it('does not delay the first host of a new fleet', async () => {
    // The clock never advances in this test.
    const { host } = await scene(virtualClock())
    const first = host('first', () => Promise.resolve(false))
    await until('it leads', () => first.leads)
  })
})

describe('a Lease that is edited by hand', () => {
  it.each([
    ['names no holder', { holderIdentity: '' }],
    ['names another running host', { holderIdentity: 'second' }],
  ])('and now %s never results in two leaders', async (_, spec) => {
    const { state, host, edit } = await scene()
    const leading = new Set<string>()
    let most = 0
    const count = (identity: string, leads: boolean) => {
      if (leads) leading.add(identity)
      else leading.delete(identity)
      most = Math.max(most, leading.size)
    }
    const first = host('first', undefined, count)
    await until('the first leads', () => first.leads)
    const others = ['second', 'third', 'fourth'].map((identity) => host(identity, undefined, count))
    await until('all are notified', () => others.every(({ leader }) => leader === 'first'))
    for (let times = 0; times < 2; times++) {
      const before = state.lease?.spec.renewTime
      edit(spec)
      await until('a host leads', () => state.lease?.spec.renewTime !== before && leading.size > 0)
    }
    expect(most).toBe(1)
  })

  describe('and now names a host that tried to take it in the same millisecond', () => {
    /** Two hosts take the Lease, one of them in vain. Then it is edited to name that one. */
    async function editedForLoser(clock: Clock) {
      const { state, server, edit } = await scene(clock)
      const api = apiOf(configFor(server.url), { clock })
      const lease = (identity: string) =>
        new OwnLease({ api, clock, logger: silentLogger, namespace: 'games', name: 'fleet', identity, leaseMs })
      const [winner, loser] = [lease('first'), lease('second')]
      const { signal } = new AbortController()
      edit({ holderIdentity: 'before' })
      const free = await loser.read()
      if (!free) throw new Error('there is no Lease')
      const observed = observe(free, undefined, 0, leaseMs)
      expect(await winner.write(observed, signal)).toBeDefined()
      expect(await loser.write(observed, signal)).toBeUndefined()
      edit({ holderIdentity: 'second' })
      const edited = await loser.read()
      if (!edited) throw new Error('there is no Lease')
      return { loser, edited: observe(edited, observed, 0, leaseMs), renewTime: state.lease?.spec.renewTime }
    }

    it('is not taken for what that host has written, since its write was refused', async () => {
      const clock = { ...virtualClock(), randomBytes: (size: number) => new Uint8Array(size) }
      const { loser, edited } = await editedForLoser(clock)
      expect(loser.isOwnWrite(edited)).toBe(false)
    })

    it('has a renewTime that only its holder wrote', async () => {
      const [first, second] = [
        await editedForLoser(virtualClock({ seed: 1 })),
        await editedForLoser(virtualClock({ seed: 2 })),
      ]
      expect(first.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
      expect(first.renewTime?.slice(0, 23)).toBe(second.renewTime?.slice(0, 23))
      expect(first.renewTime).not.toBe(second.renewTime)
    })
  })

  it('does not expire earlier when its duration is shortened', () => {
    const lease = (revision: string, spec: Spec) => ({ metadata: { name: 'fleet', resourceVersion: revision }, spec })
    const held = { holderIdentity: 'first', leaseDurationSeconds: 60, renewTime: 'then' }
    const before = observe(lease('1', held), undefined, 0, leaseMs)
    const edited = observe(lease('2', { ...held, leaseDurationSeconds: 1 }), before, 10, leaseMs)
    expect(edited).toMatchObject({ leaseMs: 60_000, at: 10 })
    const renewed = observe(lease('3', { ...held, leaseDurationSeconds: 5, renewTime: 'now' }), edited, 20, leaseMs)
    expect(renewed).toMatchObject({ leaseMs: 5_000, at: 20 })
  })

  it('ends the leader’s term, and can be acquired after one lease duration', async () => {
    const { host, edit } = await scene()
    const first = host('first')
    await until('the first leads', () => first.leads)
    const second = host('second')
    await until('the second is notified', () => second.leader === 'first')
    const editedAt = performance.now()
    edit({ holderIdentity: 'absent' })
    await until('the first no longer leads', () => !first.leads)
    await until('one of them leads', () => first.leads || second.leads)
    expect(performance.now() - editedAt).toBeGreaterThan(leaseMs * 0.95)
  })
})

it('a host that restarts under the name recorded in the Lease leads after one lease duration', async () => {
  const { host } = await scene()
  const before = host('first')
  await until('it leads', () => before.leads)
  before.api.close()
  const begun = performance.now()
  const after = host('first')
  await until('it leads again', () => after.leads)
  expect(performance.now() - begun).toBeGreaterThan(leaseMs * 0.95)
  expect(after.changes).toEqual(['lost', 'elected'])
})
