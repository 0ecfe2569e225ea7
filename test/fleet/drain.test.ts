/** Draining a server, a build, or the fleet: no new sessions, idle servers stop, and matches continue unless the caller opts out. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, serversBy, stage, statusOf, untilReady, watched } from './stage.js'

describe('a drain of the fleet', () => {
  it('terminates idle servers, rejects allocations, and waits for the last match', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild())
    await untilReady(s, fleet, 2)
    await fleet.allocate(ask(1))
    await untilReady(s, fleet, 2)
    const match = await playing(s, fleet, 1)
    const drained = watched(fleet.drain())
    await s.clock.advance(120_000)
    expect(drained.outcome()).toBe('pending')
    expect(await fleet.servers.list()).toHaveLength(1)
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('draining')
    expect(match.phase).toBe('running')
    match.exit(0)
    await s.clock.advance(1_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(s.eventsOf('DrainProgress').at(-1)).toMatchObject({ remaining: 0, active: 0 })
  })

  it('rejects waiting callers', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 0 }))
    const waiting = failureOf(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await s.clock.advance(1_000)
    await fleet.drain()
    expect((await waiting).code).toBe('draining')
  })

  it('resolves at the deadline, and the match continues', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild())
    await untilReady(s, fleet, 2)
    await fleet.allocate(ask(1))
    const match = await playing(s, fleet, 1)
    const drained = watched(fleet.drain({ deadlineMs: 30_000 }))
    await s.clock.advance(31_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 1 } })
    expect(match.phase).toBe('running')
  })

  it('also terminates Active servers when active is terminate', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild())
    await untilReady(s, fleet, 2)
    await fleet.allocate(ask(1))
    const drained = watched(fleet.drain({ active: 'terminate' }))
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(s.eventsOf('ServerEnding')).toMatchObject([
      { reason: 'Drained' },
      { reason: 'Drained' },
      { reason: 'Drained' },
    ])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })
})

describe('a drain of one build', () => {
  it('leaves other builds untouched, survives a restart, and ends when the build is resumed', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild())
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1 }))
    await untilReady(s, fleet, 2)
    await untilReady(s, fleet, 1, 'duel')
    const drained = watched(fleet.builds.drain('arena'))
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 0, conditions: [{ type: 'Draining' }] })
    expect(await statusOf(fleet, 'duel')).toMatchObject({ currentStandingBy: 1 })
    s.crash()
    const next = await s.open()
    await s.clock.advance(60_000)
    expect(await next.servers.list({ build: 'arena' })).toEqual([])
    expect((await failureOf(next.allocate(ask(1)))).code).toBe('draining')
    expect((await next.builds.resume('arena')).status.conditions).toBeUndefined()
    await untilReady(s, next, 2)
  })
})

describe('resuming a build that is being drained', () => {
  it('resolves the drain with the remaining servers, and stops progress reports', async () => {
    const { s, fleet, match } = await withMatch()
    const drained = watched(fleet.builds.drain('arena'))
    await s.clock.advance(5_000)
    expect(drained.outcome()).toBe('pending')
    const progress = s.eventsOf('DrainProgress').length
    await fleet.builds.resume('arena')
    await s.clock.settle()
    expect(drained.outcome()).toEqual({ value: { remaining: 1 } })
    await untilReady(s, fleet, 1)
    match.exit(0)
    await s.clock.advance(60_000)
    expect(s.eventsOf('DrainProgress')).toHaveLength(progress)
  })

  it('resolves a drain that has not begun yet', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await untilReady(s, fleet, 3)
    const drained = watched(fleet.builds.drain('arena'))
    await fleet.builds.resume('arena')
    await s.clock.settle()
    expect(drained.outcome()).toEqual({ value: { remaining: 3 } })
    await untilReady(s, fleet, 3)
  })

  it('terminates no server if the drain has not taken effect', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 3 }))
    await untilReady(s, fleet, 3)
    // Changes made during a write are written together.
    s.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    void fleet.builds.patch('arena', { max: 9 })
    const drained = watched(fleet.builds.drain('arena'))
    void fleet.builds.resume('arena')
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 3 } })
    expect(s.eventsOf('ServerEnding')).toEqual([])
    expect(s.eventsOf('DrainProgress')).toEqual([])
  })

  it('keeps a server that was being allocated, even if the allocation fails', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(s, fleet, 1)
    s.faults.store = ({ method }) =>
      method.startsWith('servers.') ? { kind: 'delay-effect', ms: 10_000, error: new Error('away') } : undefined
    const allocation = failureOf(fleet.allocate(ask(1)))
    const drained = watched(fleet.builds.drain('arena'))
    await s.clock.advance(1_000)
    await fleet.builds.resume('arena')
    await s.clock.settle()
    expect(drained.outcome()).toEqual({ value: { remaining: 1 } })
    s.faults.store = () => undefined
    await s.clock.advance(60_000)
    expect((await allocation).code).toBe('unavailable')
    expect(s.eventsOf('ServerEnding')).toEqual([])
  })
})

describe('the caller of a drain', () => {
  it('gets progress for the drained servers only', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1 }))
    await untilReady(s, fleet, 1)
    await untilReady(s, fleet, 1, 'duel')
    await fleet.allocate(ask(1))
    const match = await playing(s, fleet, 1)
    void fleet.builds.drain('arena')
    await s.clock.advance(5_000)
    const progress = s.eventsOf('DrainProgress').length
    only(s.backend.servers({ build: 'duel' })).exit(0)
    await s.clock.advance(5_000)
    expect(s.eventsOf('ServerRemoved').at(-1)).toMatchObject({ build: { name: 'duel' } })
    expect(s.eventsOf('DrainProgress')).toHaveLength(progress)
    match.exit(0)
    await s.clock.advance(5_000)
    expect(s.eventsOf('DrainProgress').slice(progress)).toMatchObject([{ remaining: 0, active: 0 }])
  })

  it('can stop waiting while the drain condition is being written', async () => {
    const { s, fleet } = await withMatch()
    s.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const aborter = new AbortController()
    const drained = watched(fleet.builds.drain('arena', { signal: aborter.signal }))
    await s.clock.advance(100)
    aborter.abort()
    await s.clock.advance(2_000)
    expect(drained.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect(await statusOf(fleet)).toMatchObject({ conditions: [{ type: 'Draining' }] })
  })

  it('gets the number of remaining servers when the host closes while the drain condition is being written', async () => {
    const { s, fleet } = await withMatch()
    s.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const drained = watched(fleet.builds.drain('arena'))
    await s.clock.advance(100)
    await fleet.close()
    await s.clock.advance(2_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 2 } })
  })
})

describe('the options of a drain', () => {
  it.each<[string, object]>([
    [`active must be 'wait' or 'terminate', but is null`, { active: null }],
    [`active must be 'wait' or 'terminate', but is "Wait"`, { active: 'Wait' }],
    [`active must be 'wait' or 'terminate', but is "none"`, { active: 'none' }],
    ['deadlineMs must be a finite number ≥ 0, but is -5', { deadlineMs: -5 }],
    ['deadlineMs must be a finite number ≥ 0, but is NaN', { deadlineMs: Number.NaN }],
    ['deadlineMs must be a finite number ≥ 0, but is Infinity', { deadlineMs: Infinity }],
    ['deadlineMs must be a finite number ≥ 0, but is "5"', { deadlineMs: '5' }],
    ['deadlineMs must be a finite number ≥ 0, but is null', { deadlineMs: null }],
  ])('are rejected before anything changes: %s', async (message, options) => {
    const { s, fleet, match } = await withMatch()
    const failures = await Promise.all(
      [fleet.drain(options), fleet.builds.drain('arena', options), fleet.servers.drain(match.ref, options)].map(
        failureOf,
      ),
    )
    const refusal = { code: 'invalid', message }
    expect(failures).toMatchObject([refusal, refusal, refusal])
    await s.clock.advance(60_000)
    expect(s.eventsOf('ServerEnding')).toEqual([])
    expect((await statusOf(fleet)).conditions).toBeUndefined()
    await fleet.allocate(ask(2))
  })

  it('may be undefined (use the default) or 0 (do not wait)', async () => {
    const { s, fleet, match } = await withMatch()
    const options: object = { active: undefined, deadlineMs: 0 }
    const drained = watched(fleet.builds.drain('arena', options))
    await s.clock.settle()
    expect(drained.outcome()).toEqual({ value: { remaining: 2 } })
    await s.clock.advance(60_000)
    expect([match.phase, s.backend.servers().length]).toEqual(['running', 1])
  })
})

describe('a drain of one server', () => {
  it('terminates an idle server, which is replaced', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    const drained = watched(fleet.servers.drain(metadata))
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(only(await serversBy(fleet, 'StandingBy')).metadata.name).not.toBe(metadata.name)
  })

  it('terminates a server that was being allocated if the allocation fails', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    s.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' } : undefined)
    const allocation = failureOf(fleet.allocate(ask(1)))
    const drained = watched(fleet.servers.drain(metadata))
    expect((await allocation).code).toBe('unavailable')
    const waiting = fleet.allocate(ask(2), { waitMs: 60_000 })
    s.faults.store = () => undefined
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(s.eventsOf('ServerEnding')).toMatchObject([{ reason: 'Drained', server: { name: metadata.name } }])
    await waiting
    expect((await playing(s, fleet, 2)).ref.name).not.toBe(metadata.name)
  })

  it('keeps a server that was being allocated if the allocation succeeds', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    s.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const allocation = fleet.allocate(ask(1))
    const drained = watched(fleet.servers.drain(metadata))
    await s.clock.advance(60_000)
    await allocation
    expect(drained.outcome()).toBe('pending')
    expect(only(await serversBy(fleet, 'Active')).metadata.name).toBe(metadata.name)
  })

  it('waits for the match of an Active server', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    const match = await playing(s, fleet, 1)
    const drained = watched(fleet.servers.drain(match.ref))
    await s.clock.advance(60_000)
    expect(drained.outcome()).toBe('pending')
    match.exit(0)
    await s.clock.advance(1_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
  })
})

/** A build with one match and one idle server. */
async function withMatch() {
  const s = stage()
  const fleet = await s.open()
  await fleet.builds.create(aBuild({ standingBy: 1 }))
  await untilReady(s, fleet, 1)
  await fleet.allocate(ask(1))
  await untilReady(s, fleet, 1)
  return { s, fleet, match: await playing(s, fleet, 1) }
}
