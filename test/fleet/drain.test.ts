/** Draining a server, a build, the fleet: nothing new, idle servers end, matches go on unless it is asked otherwise. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, serversBy, stage, statusOf, untilReady, watched } from './stage.js'

describe('a drain of the fleet', () => {
  it('ends idle servers, refuses allocations, and waits for the last match', async () => {
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

  it('dismisses callers who wait', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 0 }))
    const waiting = failureOf(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await s.clock.advance(1_000)
    await fleet.drain()
    expect((await waiting).code).toBe('draining')
  })

  it('gives up at the deadline, and the match goes on', async () => {
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

  it('ends matches too when it is asked to', async () => {
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
  it('leaves the others alone, outlasts a restart, and ends with resume', async () => {
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

describe('a drain of one server', () => {
  it('ends an idle one, which is replaced', async () => {
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

  it('ends one that was just being handed out when nobody gets it after all', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    s.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' } : undefined)
    const handedOut = failureOf(fleet.allocate(ask(1)))
    const drained = watched(fleet.servers.drain(metadata))
    expect((await handedOut).code).toBe('unavailable')
    const waiting = fleet.allocate(ask(2), { waitMs: 60_000 })
    s.faults.store = () => undefined
    await s.clock.advance(60_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(s.eventsOf('ServerEnding')).toMatchObject([{ reason: 'Drained', server: { name: metadata.name } }])
    await waiting
    expect((await playing(s, fleet, 2)).ref.name).not.toBe(metadata.name)
  })

  it('leaves the match to one that was just being handed out', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(s, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    s.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const handedOut = fleet.allocate(ask(1))
    const drained = watched(fleet.servers.drain(metadata))
    await s.clock.advance(60_000)
    await handedOut
    expect(drained.outcome()).toBe('pending')
    expect(only(await serversBy(fleet, 'Active')).metadata.name).toBe(metadata.name)
  })

  it('waits for the match of an Active one', async () => {
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
