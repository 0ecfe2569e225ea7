/** Announced maintenance: which servers receive it, how long it lasts, and what a restart does to it. */
import type { HeartbeatAnswer } from '../../src/rules/game/heartbeat.js'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, nth, only, playing, serversBy, stage, type Stage, untilReady } from './stage.js'

const hour = 3_600_000

async function running(standingBy = 2, max = 6) {
  const scene = stage({ memory: { nodes: ['n1', 'n2'] } })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy, max }))
  await untilReady(scene, fleet, standingBy)
  return { scene, fleet, on: (node: string) => on(scene, node) }
}

function on({ backend }: Stage, node: string) {
  return backend.servers().filter(({ instance }) => instance.node === node)
}

function timeIn(answer: HeartbeatAnswer | undefined): string | undefined {
  return answer?.maintenance?.nextScheduledMaintenanceUtc
}

/** A time in whole seconds from now. */
function later({ clock }: Stage, ms = hour) {
  const at = Math.floor((clock.now() + ms) / 1_000) * 1_000
  return { at, wire: new Date(at).toISOString(), utc: `${new Date(at).toISOString().slice(0, 19)}Z` }
}

describe('an announcement to a server', () => {
  it('is in every answer to that server, idle or Active, and in no other answer', async () => {
    const { scene, fleet } = await running()
    const [first, second] = [nth(scene.backend.servers(), 0), nth(scene.backend.servers(), 1)]
    const { at, utc } = later(scene)
    expect(await fleet.servers.announceMaintenance(first.ref, new Date(at))).toEqual({ servers: 1 })
    expect(first.heartbeat()).toMatchObject({
      operation: 'Continue',
      maintenance: { nextScheduledMaintenanceUtc: utc },
    })
    await fleet.allocate(ask(1))
    const game = await playing(scene, fleet, 1)
    expect(game.ref).toEqual(first.ref)
    expect(game.heartbeat({ state: 'StandingBy' })).toMatchObject({
      operation: 'Active',
      sessionConfig: {},
      maintenance: { nextScheduledMaintenanceUtc: utc },
    })
    expect(game.heartbeat({ state: 'Active' })).toMatchObject({ operation: 'Continue', sessionConfig: {} })
    expect(timeIn(game.heartbeat({ state: 'Active' }))).toBe(utc)
    expect(second.heartbeat()).not.toHaveProperty('maintenance')
  })

  it('reaches a match that began before it, and the answer is built once', async () => {
    const { scene, fleet } = await running()
    await fleet.allocate(ask(1))
    const game = await playing(scene, fleet, 1)
    const before = game.heartbeat({ state: 'Active' })
    await fleet.servers.announceMaintenance(game.ref, later(scene).at)
    const after = game.heartbeat({ state: 'Active' })
    expect(after).toMatchObject({ sessionConfig: before.sessionConfig })
    expect(timeIn(after)).toBe(later(scene).utc)
    expect(game.heartbeat({ state: 'Active' })).toBe(after)
  })

  it('is shown in the resource and in the history, and emits one event', async () => {
    const { scene, fleet } = await running()
    const { ref } = nth(scene.backend.servers(), 0)
    const { at, wire } = later(scene)
    await fleet.servers.announceMaintenance(ref, at)
    await fleet.servers.announceMaintenance(ref, at)
    expect((await fleet.servers.get(ref)).status.nextScheduledMaintenance).toBe(wire)
    const message = `maintenance of ${ref.name} begins at ${wire}`
    const event = only(scene.eventsOf('MaintenanceAnnounced'))
    expect(event).toMatchObject({ server: ref, build: { name: 'arena' }, beginsAt: at, message })
    expect(event).not.toHaveProperty('node')
    expect((await fleet.explain(ref)).text).toContain(message)
  })

  it('is not one to its node, even if the reference also names the node', async () => {
    const { scene, fleet } = await running(4)
    const [game, neighbour] = [nth(on(scene, 'n1'), 0), nth(on(scene, 'n1'), 1)]
    expect(await fleet.servers.announceMaintenance({ ...game.ref, node: 'n1' }, later(scene).at)).toEqual({
      servers: 1,
    })
    expect(neighbour.heartbeat()).not.toHaveProperty('maintenance')
  })

  it('is durable when the call returns', async () => {
    const { scene, fleet } = await running()
    const { ref } = nth(scene.backend.servers(), 0)
    const { at } = later(scene)
    await fleet.servers.announceMaintenance(ref, at)
    expect((await scene.records.servers.get(ref))?.record.maintenance).toEqual({ at, source: 'server' })
  })

  it('is replaced by a later call, and removed when it is withdrawn', async () => {
    const { scene, fleet } = await running()
    const game = nth(scene.backend.servers(), 0)
    await fleet.servers.announceMaintenance(game.ref, later(scene).at)
    const { at, utc } = later(scene, 2 * hour)
    await fleet.servers.announceMaintenance(game.ref, at)
    expect(timeIn(game.heartbeat())).toBe(utc)
    expect(await fleet.servers.withdrawMaintenance(game.ref)).toEqual({ servers: 1 })
    expect(game.heartbeat()).not.toHaveProperty('maintenance')
    expect((await fleet.servers.get(game.ref)).status).not.toHaveProperty('nextScheduledMaintenance')
    expect((await scene.records.servers.get(game.ref))?.record.maintenance).toBeUndefined()
    expect(only(scene.eventsOf('MaintenanceWithdrawn'))).toMatchObject({ server: game.ref })
    expect(await fleet.servers.withdrawMaintenance(game.ref)).toEqual({ servers: 0 })
  })

  it('is not in the answers to a server that is terminating', async () => {
    const { scene, fleet } = await running()
    await fleet.allocate(ask(1))
    const game = await playing(scene, fleet, 1)
    await fleet.servers.announceMaintenance(game.ref, later(scene).at)
    await fleet.servers.delete(game.ref)
    expect(game.heartbeat()).toEqual({ operation: 'Terminate', nextHeartbeatIntervalMs: 1_000 })
  })

  it('keeps the server in service', async () => {
    const { scene, fleet } = await running(1, 1)
    const { ref } = only(scene.backend.servers())
    await fleet.servers.announceMaintenance(ref, later(scene).at)
    await fleet.allocate(ask(1))
    expect((await playing(scene, fleet, 1)).ref).toEqual(ref)
    await scene.clock.advance(2 * hour)
    expect(await serversBy(fleet, 'Active')).toHaveLength(1)
  })
})

describe('an announcement to a node', () => {
  it('reaches all servers on that node, and those that start there until it begins', async () => {
    const { scene, fleet } = await running()
    const { at, utc, wire } = later(scene)
    expect(await fleet.servers.announceMaintenance({ node: 'n1' }, at)).toEqual({ servers: 1 })
    const name = only(on(scene, 'n1')).ref.name
    expect(only(scene.eventsOf('MaintenanceAnnounced'))).toMatchObject({
      node: 'n1',
      beginsAt: at,
      message: `maintenance of ${name}'s node n1 begins at ${wire}`,
    })
    await fleet.builds.patch('arena', { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    await scene.clock.advance(2_000)
    expect(on(scene, 'n1').map(({ answer }) => timeIn(answer))).toEqual([utc, utc])
    expect(on(scene, 'n2').map(({ answer }) => timeIn(answer))).toEqual([undefined, undefined])
    await scene.clock.advance(hour)
    await fleet.builds.patch('arena', { standingBy: 6 })
    await untilReady(scene, fleet, 6)
    await scene.clock.advance(2_000)
    expect(on(scene, 'n1').map(({ answer }) => timeIn(answer))).toEqual([utc, utc, undefined])
  })

  it('does not replace one for a single server, and withdrawing it keeps that one', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const own = later(scene, 2 * hour)
    await fleet.servers.announceMaintenance(game.ref, own.at)
    await fleet.servers.announceMaintenance({ node: 'n1' }, later(scene).at)
    expect(timeIn(game.heartbeat())).toBe(own.utc)
    expect(await fleet.servers.withdrawMaintenance({ node: 'n1' })).toEqual({ servers: 0 })
    expect(timeIn(game.heartbeat())).toBe(own.utc)
  })

  it('applies to a server whose own announcement is withdrawn, until its time has come', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const node = later(scene)
    await fleet.servers.announceMaintenance({ node: 'n1' }, node.at)
    for (const [ms, expected] of [
      [0, node.utc],
      [2 * hour, undefined],
    ] as const) {
      await scene.clock.advance(ms)
      await fleet.servers.announceMaintenance(game.ref, later(scene).at)
      expect(await fleet.servers.withdrawMaintenance(game.ref)).toEqual({ servers: 1 })
      expect(timeIn(game.heartbeat())).toBe(expected)
    }
  })

  it('is withdrawn from all its servers, and from those that start later', async () => {
    const { scene, fleet } = await running()
    await fleet.servers.announceMaintenance({ node: 'n1' }, later(scene).at)
    expect(await fleet.servers.withdrawMaintenance({ node: 'n1' })).toEqual({ servers: 1 })
    await fleet.builds.patch('arena', { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    await scene.clock.advance(2_000)
    expect(on(scene, 'n1').map(({ answer }) => timeIn(answer))).toEqual([undefined, undefined])
    expect(await fleet.servers.withdrawMaintenance({ node: 'n1' })).toEqual({ servers: 0 })
  })
})

describe('an invalid announcement', () => {
  it.each([
    ['in the past', -1_000, /^at must be a time in the future, at most 365 days ahead, but is 20/],
    ['too far ahead', 366 * 24 * hour, /^at must be a time in the future/],
  ])('%s is rejected, and nothing changes', async (_, ms, message) => {
    const { scene, fleet } = await running()
    const { ref } = nth(scene.backend.servers(), 0)
    for (const target of [ref, { node: 'n1' }]) {
      const failure = await failureOf(fleet.servers.announceMaintenance(target, later(scene, ms).at))
      expect(failure).toMatchObject({ code: 'invalid', message: expect.stringMatching(message) })
    }
    await scene.clock.advance(2_000)
    expect(scene.eventsOf('MaintenanceAnnounced')).toEqual([])
  })

  it('to a server or node that does not exist is rejected with its name', async () => {
    const { scene, fleet } = await running()
    const { at } = later(scene)
    expect(await failureOf(fleet.servers.announceMaintenance('nobody', at))).toMatchObject({
      code: 'not-found',
      message: 'server default/nobody does not exist',
    })
    for (const call of [
      fleet.servers.announceMaintenance({ node: 'n9' }, at),
      fleet.servers.withdrawMaintenance({ node: 'n9' }),
    ]) {
      expect(await failureOf(call)).toMatchObject({ code: 'not-found', message: 'no server runs on the node n9' })
    }
    expect(await failureOf(fleet.servers.announceMaintenance({ node: '' }, at))).toMatchObject({
      code: 'invalid',
      message: 'node must be a non-empty string, but is ""',
    })
  })

  it('to a store that is unavailable fails, and the servers have it once the store is back', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const { at, utc } = later(scene)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'refuse' } : undefined)
    expect((await failureOf(fleet.servers.announceMaintenance({ node: 'n1' }, at))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.until(async () => (await scene.records.servers.get(game.ref))?.record.maintenance?.at === at)
    expect(timeIn(game.heartbeat())).toBe(utc)
  })
})

describe('after a restart of the host', () => {
  it.each(['close', 'crash'] as const)('(%s) announcements to servers and nodes are still there', async (how) => {
    const { scene, fleet } = await running()
    const [one, other] = [only(on(scene, 'n1')), only(on(scene, 'n2'))]
    const [soon, late] = [later(scene), later(scene, 2 * hour)]
    await fleet.servers.announceMaintenance({ node: 'n1' }, soon.at)
    await fleet.servers.announceMaintenance(other.ref, late.at)
    if (how === 'close') await fleet.close()
    else scene.crash()
    const next = await scene.open()
    await scene.clock.advance(2_000)
    expect([timeIn(one.heartbeat()), timeIn(other.heartbeat())]).toEqual([soon.utc, late.utc])
    await next.builds.patch('arena', { standingBy: 4 })
    await untilReady(scene, next, 4)
    await scene.clock.advance(2_000)
    expect(on(scene, 'n1').map(({ answer }) => timeIn(answer))).toEqual([soon.utc, soon.utc])
    expect(on(scene, 'n2').map(({ answer }) => timeIn(answer))).toEqual([late.utc, undefined])
    expect(scene.eventsOf('MaintenanceWithdrawn')).toEqual([])
  })

  it('an announcement that was withdrawn while a server was terminating does not come back', async () => {
    const scene = stage({ memory: { nodes: ['n1'], script: () => ({ ignoresTerminate: true }) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 6, graceSeconds: 600 }))
    await untilReady(scene, fleet, 1)
    await fleet.servers.announceMaintenance({ node: 'n1' }, later(scene).at)
    const ending = only(scene.backend.servers())
    await fleet.servers.delete(ending.ref)
    await fleet.servers.withdrawMaintenance({ node: 'n1' })
    await fleet.close()
    const next = await scene.open()
    await next.builds.patch('arena', { standingBy: 2 })
    await untilReady(scene, next, 2)
    await scene.clock.advance(2_000)
    const others = scene.backend.servers().filter(({ ref }) => ref.name !== ending.ref.name)
    expect(others.map(({ answer }) => timeIn(answer))).toEqual([undefined, undefined])
  })
})

describe('a node that the backend reports', () => {
  it('is announced to its servers until it is no longer reported', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const { at, utc } = later(scene)
    scene.backend.reportMaintenance(new Map([['n1', at + 500]]))
    await scene.clock.settle()
    expect(timeIn(game.heartbeat())).toBe(utc)
    await scene.clock.until(async () => (await scene.records.servers.get(game.ref))?.record.maintenance !== undefined)
    expect((await scene.records.servers.get(game.ref))?.record.maintenance).toEqual({ at, source: 'backend' })
    scene.backend.reportMaintenance(new Map())
    await scene.clock.settle()
    expect(game.heartbeat()).not.toHaveProperty('maintenance')
    expect((await fleet.servers.get(game.ref)).status).not.toHaveProperty('nextScheduledMaintenance')
  })

  it('keeps its first time when it is reported again, also to the next host', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const { at, utc } = later(scene)
    scene.backend.reportMaintenance(new Map([['n1', at]]))
    await scene.clock.advance(60_000)
    scene.backend.reportMaintenance(new Map([['n1', at + 60_000]]))
    await scene.clock.advance(2_000)
    expect(timeIn(game.heartbeat())).toBe(utc)
    await fleet.close()
    scene.backend.reportMaintenance(new Map([['n1', at + 120_000]]))
    const next = await scene.open()
    await scene.clock.advance(2_000)
    expect(timeIn(game.heartbeat())).toBe(utc)
    await next.builds.patch('arena', { standingBy: 4 })
    await untilReady(scene, next, 4)
    await scene.clock.advance(2_000)
    expect(on(scene, 'n1').map(({ answer }) => timeIn(answer))).toEqual([utc, utc])
  })

  it('is withdrawn if it stopped being reported while no host was running', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    scene.backend.reportMaintenance(new Map([['n1', later(scene).at]]))
    await scene.clock.advance(2_000)
    await fleet.close()
    scene.backend.reportMaintenance(new Map())
    await scene.open()
    await scene.clock.advance(2_000)
    expect(game.heartbeat()).not.toHaveProperty('maintenance')
  })

  it('keeps the time that an operator announced, and the end of the report does not withdraw it', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const { at, utc } = later(scene)
    await fleet.servers.announceMaintenance({ node: 'n1' }, at)
    scene.backend.reportMaintenance(new Map([['n1', at + 60_000]]))
    await scene.clock.settle()
    expect(timeIn(game.heartbeat())).toBe(utc)
    scene.backend.reportMaintenance(new Map())
    await scene.clock.settle()
    expect(timeIn(game.heartbeat())).toBe(utc)
  })

  it('can be withdrawn by an operator, and the repeated report does not bring it back', async () => {
    const { scene, fleet } = await running()
    const game = only(on(scene, 'n1'))
    const { at } = later(scene)
    scene.backend.reportMaintenance(new Map([['n1', at]]))
    await scene.clock.settle()
    expect(await fleet.servers.withdrawMaintenance({ node: 'n1' })).toEqual({ servers: 1 })
    scene.backend.reportMaintenance(new Map([['n1', at], ['n2', at]])) // prettier-ignore
    await scene.clock.settle()
    expect(game.heartbeat()).not.toHaveProperty('maintenance')
    expect(timeIn(only(on(scene, 'n2')).heartbeat())).toBeDefined()
  })
})
