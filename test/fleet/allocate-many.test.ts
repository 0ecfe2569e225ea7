/** `allocateMany`: several sessions in one call, as many as there are servers for, or all or none. */
import { describe, expect, it } from 'vitest'
import type { Fleet } from 'gamekeeper'
import { aBuild, failureOf, serversBy, session, type Stage, stage, statusOf, untilReady } from './stage.js'

async function withServers(s: Stage, fleet: Fleet, count: number, max = count, name = 'arena'): Promise<void> {
  await fleet.builds.create(aBuild({ name, standingBy: count, max }))
  await untilReady(s, fleet, count, name)
}

const ask = (...ns: number[]) => ns.map((n) => ({ buildID: 'arena', sessionID: session(n) }))

const isActive = async (fleet: Fleet, count: number) => (await serversBy(fleet, 'Active')).length === count

describe('a batch', () => {
  it('gives a server to each session, or an error where there is none', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 2)
    const results = await fleet.allocateMany([...ask(1, 2, 3), { buildID: 'duel', sessionID: session(4) }])
    expect(results.map(({ sessionID }) => sessionID)).toEqual([1, 2, 3, 4].map((n) => session(n)))
    expect(results.map(({ allocation, error }) => allocation?.SessionID ?? error?.code)).toEqual([
      session(1),
      session(2),
      'max-reached',
      'not-found',
    ])
    const again = await fleet.allocateMany(ask(2, 1))
    expect(again.map(({ allocation }) => allocation?.server)).toEqual([
      results[1]?.allocation?.server,
      results[0]?.allocation?.server,
    ])
  })

  it('waits for servers', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 1, 3)
    const waiting = fleet.allocateMany(ask(1, 2, 3), { waitMs: 60_000 })
    await s.clock.advance(30_000)
    expect((await waiting).filter(({ allocation }) => allocation)).toHaveLength(3)
  })

  it('is audited for each session', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 1)
    const audited: unknown[] = []
    fleet.on('Audited', ({ action, sessionID, outcome }) => audited.push([action, sessionID, outcome]))
    await fleet.allocateMany(ask(1, 2), { caller: { name: 'matchmaker' } })
    expect(audited).toEqual([['allocate', session(1), 'done']])
  })

  it('is refused if it is invalid', async () => {
    const s = stage()
    const fleet = await s.open()
    expect(await failureOf(fleet.allocateMany(ask(1, 1)))).toMatchObject({
      code: 'invalid',
      message: `requests[1].sessionID must not repeat requests[0].sessionID, which is "${session(1)}"`,
    })
    expect(await failureOf(fleet.allocateMany(ask(1), { waitMs: -1 }))).toMatchObject({ code: 'invalid' })
  })
})

describe('an atomic batch', () => {
  it('allocates none if there is not a server for each, and leaves them to others', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 2)
    expect(await failureOf(fleet.allocateMany(ask(1, 2, 3), { atomic: true }))).toMatchObject({
      code: 'max-reached',
      message: expect.stringMatching(/^session .*: .*; no session of the batch got a server$/),
    })
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 0, currentStandingBy: 2 })
    const both = await fleet.allocateMany(ask(1, 2), { atomic: true })
    expect(both.map(({ allocation }) => allocation?.SessionID)).toEqual([session(1), session(2)])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 2 })
  })

  it('keeps the sessions that have a server already', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 2)
    const { server } = await fleet.allocate({ buildID: 'arena', sessionID: session(1) })
    expect(await failureOf(fleet.allocateMany(ask(1, 2, 3), { atomic: true }))).toMatchObject({ code: 'max-reached' })
    expect(await isActive(fleet, 1)).toBe(true)
    const [first] = await fleet.allocateMany(ask(1, 2), { atomic: true })
    expect(first?.allocation?.server).toEqual(server)
  })

  it('holds what is ready while it waits for the rest, and gives it up at its end', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 2, 3)
    const waiting = fleet.allocateMany(ask(1, 2, 3, 4), { atomic: true, waitMs: 20_000 })
    const failed = failureOf(waiting)
    await s.clock.advance(10_000)
    expect(await failureOf(fleet.allocate({ buildID: 'arena', sessionID: session(5) }))).toMatchObject({
      code: 'max-reached',
    })
    await s.clock.advance(20_000)
    expect(await failed).toMatchObject({ code: 'max-reached' })
    expect(await isActive(fleet, 0)).toBe(true)
    expect((await fleet.allocateMany(ask(6, 7), { atomic: true })).every(({ allocation }) => allocation)).toBe(true)
  })

  it('waits for its turn, so that two batches do not keep each other waiting', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 3, 4)
    const first = fleet.allocateMany(ask(1, 2, 3, 4), { atomic: true, waitMs: 60_000 })
    const second = failureOf(fleet.allocateMany(ask(5, 6, 7), { atomic: true, waitMs: 10_000 }))
    await s.clock.advance(30_000)
    expect((await first).every(({ allocation }) => allocation)).toBe(true)
    expect(await second).toMatchObject({ code: 'max-reached' })
    expect(await isActive(fleet, 4)).toBe(true)
  })

  it('takes another server if one that it holds has ended', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 2, 4)
    const waiting = fleet.allocateMany(ask(1, 2, 3), { atomic: true, waitMs: 60_000 })
    await s.clock.settle()
    const [held] = await serversBy(fleet, 'StandingBy')
    await fleet.servers.delete(held?.metadata ?? '')
    await s.clock.advance(40_000)
    const names = (await waiting).map(({ allocation }) => allocation?.server.name)
    expect(new Set(names).size).toBe(3)
    expect(names).not.toContain(held?.metadata.name)
  })

  it('comes to its end with a retry when the outcome of a write is unknown', async () => {
    const s = stage()
    const fleet = await s.open()
    await withServers(s, fleet, 3)
    let writes = 0
    const outage = () =>
      (s.faults.store = ({ method }) =>
        method.startsWith('servers') && writes++ > 0 ? { kind: 'lose-reply' } : undefined)
    outage()
    expect(await failureOf(fleet.allocateMany(ask(1, 2, 3), { atomic: true }))).toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('retry with the same sessionIDs'),
    })
    s.faults.store = () => undefined
    await s.clock.advance(1_000)
    const results = await fleet.allocateMany(ask(1, 2, 3), { atomic: true })
    expect(new Set(results.map(({ allocation }) => allocation?.server.name)).size).toBe(3)
    expect(await isActive(fleet, 3)).toBe(true)
  })
})
