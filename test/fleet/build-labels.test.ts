/** Selectors that name builds by their labels, and the order in the spec of a build. */
import { describe, expect, it } from 'vitest'
import type { Fleet } from 'gamekeeper'
import { aBuild, failureOf, session, serversBy, type Stage, stage, untilReady } from './stage.js'

async function withBuild(s: Stage, fleet: Fleet, name: string, labels: Record<string, string>, max = 1): Promise<void> {
  const build = aBuild({ name, standingBy: max, max })
  await fleet.builds.create({ ...build, spec: { ...build.spec, labels } })
  await untilReady(s, fleet, max, name)
}

const game = { game: 'arena' }

describe('a selector with buildLabels', () => {
  it('serves a waiting caller when a build gets the labels, or a build with them is created', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', { ...game, track: 'stable' })
    await withBuild(s, fleet, 'duel', { game: 'duel' })
    const select = [{ buildLabels: game }]
    await fleet.allocate({ sessionID: session(1), select })
    const second = fleet.allocate({ sessionID: session(2), select }, { waitMs: 60_000 })
    await s.clock.settle()
    await fleet.builds.update('duel', { labels: game })
    expect((await second).server.name).toMatch(/^duel-/)
    const third = fleet.allocate({ sessionID: session(3), select }, { waitMs: 60_000 })
    await s.clock.settle()
    const lobby = aBuild({ name: 'lobby', standingBy: 1, max: 1 })
    await fleet.builds.create({ ...lobby, spec: { ...lobby.spec, labels: { track: 'canary', ...game } } })
    await s.clock.advance(30_000)
    expect((await third).server.name).toMatch(/^lobby-/)
  })

  it('is demand for a build with the labels, so that it gets a server', async () => {
    const s = stage()
    const fleet = await s.open()
    const build = aBuild({ name: 'arena', standingBy: 0, max: 2 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, labels: game } })
    const waiting = fleet.allocate({ sessionID: session(1), select: [{ buildLabels: game }] }, { waitMs: 60_000 })
    await s.clock.advance(30_000)
    expect((await waiting).server.name).toMatch(/^arena-/)
  })

  it('no longer names a build that has lost a label, nor one that is deleted', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', game, 2)
    await withBuild(s, fleet, 'duel', game)
    await fleet.builds.update('arena', { labels: undefined })
    const select = [{ buildLabels: game }]
    expect((await fleet.allocate({ sessionID: session(1), select })).server.name).toMatch(/^duel-/)
    await fleet.builds.delete('duel')
    expect(await failureOf(fleet.allocate({ sessionID: session(2), select }))).toMatchObject({
      code: 'not-found',
      message: 'no build has the labels game=arena',
    })
    const both = [{ builds: ['arena'], buildLabels: game }]
    expect(await failureOf(fleet.allocate({ sessionID: session(2), select: both }))).toMatchObject({
      code: 'not-found',
      message: 'no build has the buildID "arena" and the labels game=arena',
    })
  })

  it('is refused if it names more builds than a request may look at', async () => {
    const s = stage()
    const fleet = await s.open()
    for (let n = 0; n <= 100; n++) {
      const build = aBuild({ name: `b${n}`, standingBy: 0, max: 1 })
      await fleet.builds.create({ ...build, spec: { ...build.spec, labels: { ...game, n: String(n % 2) } } })
    }
    const select = [{ buildLabels: game }]
    expect(await failureOf(fleet.allocate({ sessionID: session(1), select }))).toMatchObject({
      code: 'invalid',
      message:
        '101 builds have the labels game=arena, and a selector may name at most 100; add a label that fewer builds have',
    })
    const fewer = [{ buildLabels: { ...game, n: '1' } }]
    expect(await failureOf(fleet.allocate({ sessionID: session(1), select: fewer }))).toMatchObject({
      code: 'none-standing-by',
    })
  })
})

describe('the order in the spec of a build', () => {
  const machineOf = async (fleet: Fleet, server: { name: string }) => (await fleet.servers.get(server)).status.nodeName

  it('decides for requests that give none, by name or by selector, and takes effect with an edit', async () => {
    const s = stage({ memory: { nodes: ['north', 'east', 'south'] } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', game, 9)
    await fleet.builds.update('arena', { order: { by: 'packed' } })
    const packed: string[] = []
    for (const n of [1, 2]) {
      packed.push(await machineOf(fleet, (await fleet.allocate({ sessionID: session(n), buildID: 'arena' })).server))
    }
    const third = await fleet.allocate({ sessionID: session(3), select: [{ buildLabels: game }] })
    expect(new Set([...packed, await machineOf(fleet, third.server)]).size).toBe(1)
    const servers = await serversBy(fleet, 'StandingBy')
    const since = ({ status }: (typeof servers)[number]) => status.reachedStandingByOn ?? ''
    const oldest = servers.reduce((a, b) => (since(b) < since(a) ? b : a))
    const order = { by: 'first-ready' } as const
    const first = await fleet.allocate({ sessionID: session(4), buildID: 'arena', order })
    expect(since(await fleet.servers.get(first.server))).toBe(since(oldest))
    await fleet.builds.update('arena', { order: { by: 'distributed' } })
    const fifth = await fleet.allocate({ sessionID: session(5), buildID: 'arena' })
    expect(await machineOf(fleet, fifth.server)).not.toBe(packed[0])
  })

  it('starts no rolling update, and must name a counter that the spec declares', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', game)
    await fleet.builds.update('arena', { order: { by: 'newest' }, labels: { game: 'duel' } })
    const { status } = await fleet.builds.get('arena')
    expect(status.rollout).toBeUndefined()
    const order = { by: 'least-available', counter: 'rooms' } as const
    expect(await failureOf(fleet.builds.update('arena', { order }))).toMatchObject({
      code: 'invalid',
      message: 'spec.order.counter must be one of spec.counters, which has no rooms',
    })
    const { counter: _, ...incomplete } = order
    expect(await failureOf(fleet.builds.update('arena', { order: incomplete }))).toMatchObject({
      message: 'spec.order.counter must be set for the order least-available',
    })
  })
})
