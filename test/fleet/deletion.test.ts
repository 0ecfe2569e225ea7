/** Deletion of servers and builds: what games and callers get, grace periods, and cleanup. */
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  only,
  playing,
  serversBy,
  session,
  stage,
  type StageOptions,
  statusOf,
  untilReady,
} from './stage.js'

const stubborn: StageOptions = { memory: { script: () => ({ ignoresTerminate: true }) } }

async function standing(overrides: Parameters<typeof aBuild>[0] = {}, options: StageOptions = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 2, ...overrides }))
  await untilReady(scene, fleet, overrides.standingBy ?? 1)
  return { scene, fleet }
}

async function matched(overrides: Parameters<typeof aBuild>[0] = {}, options: StageOptions = {}) {
  const { scene, fleet } = await standing(overrides, options)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  return { scene, fleet, server: await playing(scene, fleet, 1) }
}

describe('a deleted server', () => {
  it('is terminated and replaced if it is idle, and does not count as a crash', async () => {
    const { scene, fleet } = await standing()
    const server = only(scene.backend.servers())
    await fleet.servers.delete(server.ref)
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(5_000)
    expect([server.phase, (await fleet.servers.list()).length]).toEqual(['gone', 1])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
    expect((await failureOf(fleet.servers.get(server.ref))).code).toBe('not-found')
  })

  it('is recorded as Terminating when the call resolves', async () => {
    const { scene, fleet, server } = await matched({}, stubborn)
    await fleet.servers.delete(server.ref)
    const kept = await scene.records.servers.get(server.ref)
    expect(kept?.record).toMatchObject({ state: 'Terminating', ending: { reason: 'Deleted', crash: false } })
    expect((await fleet.servers.get(server.ref)).status).toMatchObject({
      state: 'Terminating',
      message: 'deleted',
    })
  })

  it.each([
    [2, 600],
    [600, 30],
  ])(
    'keeps the grace period of the template that it runs after its build changes to %i s',
    async (now, graceSeconds) => {
      const { scene, fleet, server } = await matched({ graceSeconds }, stubborn)
      await fleet.builds.update('arena', { template: aBuild({ graceSeconds: now }).spec.template })
      await scene.clock.advance(10_000)
      await fleet.servers.delete(server.ref)
      await scene.clock.advance(1_000)
      expect(server.answer?.operation).toBe('Terminate')
      await scene.clock.advance(graceSeconds * 1_000 - 1_100)
      expect(server.phase).toBe('running')
      await scene.clock.advance(1_100)
      expect(server.phase).toBe('gone')
    },
  )

  it('is replaced at once, before it has terminated', async () => {
    const { scene, fleet, server } = await matched({ graceSeconds: 60 }, stubborn)
    await fleet.servers.delete(server.ref)
    await scene.clock.advance(1_000)
    expect(server.phase).toBe('running')
    await fleet.allocate(ask(2))
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 1 })
  })

  it('keeps its session until it has terminated, so that a retry does not start a second match', async () => {
    const { scene, fleet, server } = await matched({ graceSeconds: 30 }, stubborn)
    const given = await fleet.allocate(ask(1))
    await fleet.servers.delete(server.ref)
    expect(await fleet.allocate(ask(1))).toEqual(given)
    await scene.clock.advance(31_000)
    expect(await fleet.allocate(ask(1))).not.toEqual(given)
  })

  it('can be deleted again, which has no effect', async () => {
    const { scene, fleet, server } = await matched({}, stubborn)
    await Promise.all([fleet.servers.delete(server.ref), fleet.servers.delete(server.ref)])
    await scene.clock.advance(10_000)
    await fleet.servers.delete(server.ref)
    await scene.clock.advance(60_000)
    expect(server.phase).toBe('gone')
    expect(scene.eventsOf('ServerEnding').length).toBe(1)
  })

  it('must exist; otherwise deletion fails with not-found', async () => {
    const { fleet } = await standing()
    expect((await failureOf(fleet.servers.delete('arena-zzzzz'))).code).toBe('not-found')
  })

  it('is terminated once the store accepts the change to its record', async () => {
    const { scene, fleet } = await standing()
    const server = only(scene.backend.servers())
    scene.faults.store = () => ({ kind: 'refuse' })
    expect((await failureOf(fleet.servers.delete(server.ref))).code).toBe('unavailable')
    expect(await serversBy(fleet, 'StandingBy')).toEqual([])
    await scene.clock.advance(5_000)
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    expect(server.phase).toBe('gone')
    expect((await scene.records.servers.list()).length).toBe(1)
  })
})

describe('a deleted build', () => {
  it('terminates all its servers, including Active ones', async () => {
    const { scene, fleet } = await standing({ standingBy: 3, max: 5 })
    await fleet.allocate(ask(1))
    await scene.clock.advance(1_000)
    await fleet.builds.delete('arena')
    await scene.clock.advance(40_000)
    expect([scene.backend.servers(), await fleet.servers.list(), await fleet.builds.list()]).toEqual([[], [], []])
    expect([await scene.records.servers.list(), await scene.records.builds.list()]).toEqual([[], []])
    expect(await scene.records.details.list()).toEqual([])
  })

  it('no longer exists when the call resolves: its name and buildID are not found and can be reused', async () => {
    const { scene, fleet } = await matched({ graceSeconds: 60 }, stubborn)
    await fleet.builds.delete('arena')
    expect((await failureOf(fleet.builds.get('arena'))).code).toBe('not-found')
    expect((await failureOf(fleet.allocate(ask(7)))).code).toBe('not-found')
    expect((await failureOf(fleet.builds.delete('arena'))).code).toBe('not-found')
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await untilReady(scene, fleet, 2)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentActive: 0 })
    // The servers of the deleted build are still terminating and do not count.
    expect((await serversBy(fleet, 'Terminating')).length).toBe(2)
    expect((await fleet.servers.list({ build: 'arena' })).length).toBe(2)
    await fleet.allocate(ask(8))
    await scene.clock.advance(61_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1 })
    expect((await fleet.servers.list()).length).toBe(2)
  })

  it('keeps the grace period of its matches across a host restart', async () => {
    const { scene, fleet, server } = await matched({ graceSeconds: 600 }, stubborn)
    await fleet.builds.delete('arena')
    scene.crash()
    await scene.open()
    await scene.clock.advance(599_000)
    expect(server.phase).toBe('running')
    await scene.clock.advance(2_000)
    expect(server.phase).toBe('gone')
  })

  it('leaves nothing behind if its servers are being created', async () => {
    const scene = stage({ memory: { createLatencyMs: 1_000 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 5, max: 5 }))
    await scene.clock.advance(500)
    await fleet.builds.delete('arena')
    await scene.clock.advance(60_000)
    expect([scene.backend.servers(), await scene.records.servers.list()]).toEqual([[], []])
    expect(scene.eventsOf('OrphanFound')).toEqual([])
  })

  it('has its servers terminated by the next host if this host dies', async () => {
    const { scene, fleet } = await matched({ graceSeconds: 10 }, stubborn)
    await fleet.builds.delete('arena')
    scene.crash()
    const next = await scene.open()
    expect((await failureOf(next.builds.get('arena'))).code).toBe('not-found')
    await scene.clock.advance(40_000)
    expect([scene.backend.servers(), await next.servers.list()]).toEqual([[], []])
  })

  it('has its servers terminated by the next host if this host dies before writing their records', async () => {
    const { scene, fleet } = await standing({ standingBy: 3, max: 3 })
    scene.faults.store = ({ method }) => {
      if (method !== 'servers.update') return undefined
      scene.crash()
      return { kind: 'refuse' }
    }
    await fleet.builds.delete('arena')
    await scene.clock.settle()
    scene.faults.store = () => undefined
    const next = await scene.open()
    await scene.clock.advance(60_000)
    expect([scene.backend.servers(), await next.servers.list()]).toEqual([[], []])
    expect(await scene.records.servers.list()).toEqual([])
  })

  it('is deleted even if the store’s response is lost', async () => {
    const { scene, fleet } = await standing()
    scene.faults.store = ({ method }) => (method === 'builds.delete' ? { kind: 'lose-reply' } : undefined)
    await fleet.builds.delete('arena')
    expect(await fleet.builds.list()).toEqual([])
  })

  it('is deleted even if the outcome cannot be read back at first', async () => {
    const { scene, fleet } = await standing()
    scene.faults.store = ({ method }) =>
      method === 'builds.delete' ? { kind: 'lose-reply' } : method === 'builds.get' ? { kind: 'refuse' } : undefined
    expect((await failureOf(fleet.builds.delete('arena'))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(120_000)
    expect([await fleet.builds.list(), await fleet.servers.list(), scene.backend.servers()]).toEqual([[], [], []])
  })

  it('can be deleted directly in a shared store, and its waiting callers get an error', async () => {
    const scene = stage({ memory: { script: 'manual' }, limits: { resyncIntervalMs: 10_000 } })
    const fleet = await scene.open({ store: { ...scene.records, shared: true } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    const waits = failureOf(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    const kept = await scene.records.builds.get({ namespace: 'default', name: 'arena' })
    await scene.records.builds.delete({ namespace: 'default', name: 'arena' }, kept?.revision ?? '')
    await scene.clock.advance(120_000)
    expect((await waits).code).toBe('not-found')
    expect([await fleet.builds.list(), await fleet.servers.list(), scene.backend.servers()]).toEqual([[], [], []])
  })

  it('keeps its record and servers if the store rejects the deletion', async () => {
    const { scene, fleet } = await standing()
    scene.faults.store = ({ method }) => (method === 'builds.delete' ? { kind: 'refuse' } : undefined)
    expect((await failureOf(fleet.builds.delete('arena'))).code).toBe('unavailable')
    await scene.clock.advance(10_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1 })
  })

  it('does not allocate its terminating servers', async () => {
    const { scene, fleet } = await standing({ standingBy: 2, max: 2 })
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = fleet.allocate(ask(1))
    const failed = failureOf(call)
    await scene.clock.settle()
    await fleet.builds.delete('arena')
    await scene.clock.advance(60_000)
    expect((await failed).code).toBe('not-found')
    expect([scene.backend.servers(), await scene.records.servers.list()]).toEqual([[], []])
  })
})

it('the fleet includes the session in heartbeat replies until the server has terminated', async () => {
  const { scene, fleet, server } = await matched({ graceSeconds: 30 }, stubborn)
  await fleet.servers.delete(server.ref)
  await scene.clock.advance(5_000)
  expect(server.session?.sessionId).toBe(session(1))
  expect(server.answer).toEqual({ operation: 'Terminate', nextHeartbeatIntervalMs: 1_000 })
})

describe('a server whose record cannot be stored', () => {
  const gone = new FleetError('invalid', 'metadata.namespace default does not exist in the cluster')

  /** Refuses new records of servers, as a cluster does whose namespace is deleted. */
  async function refusing() {
    const scene = stage()
    const fleet = await scene.open()
    scene.faults.store = ({ method }) => (method === 'servers.create' ? { kind: 'refuse', error: gone } : undefined)
    await fleet.builds.create(aBuild({ standingBy: 2 }))
    await scene.clock.advance(1_000)
    expect(await serversBy(fleet, 'Pending')).toHaveLength(2)
    return { scene, fleet }
  }

  it('is reported by an event and a condition, until it can be stored', async () => {
    const { scene, fleet } = await refusing()
    expect(scene.eventsOf('ServerStartFailed')[0]).toMatchObject({ reason: gone.message })
    const blocked = { type: 'CreateBlocked', reason: 'invalid', message: gone.message }
    expect((await fleet.builds.get('arena')).status.conditions).toMatchObject([blocked])
    scene.faults.store = () => undefined
    await untilReady(scene, fleet, 2)
    expect((await fleet.builds.get('arena')).status.conditions ?? []).toEqual([])
  })

  it('is dropped when its build is deleted, and the fleet can be drained', async () => {
    const { scene, fleet } = await refusing()
    await fleet.builds.delete('arena')
    const drained = fleet.drain()
    await scene.clock.advance(90_000)
    await expect(drained).resolves.toEqual({ remaining: 0 })
    expect(await fleet.servers.list()).toEqual([])
    expect(scene.eventsOf('ServerRemoved')).toHaveLength(2)
    const creations = () => scene.calls.filter(({ method }) => method === 'servers.create').length
    const before = creations()
    await scene.clock.advance(600_000)
    expect(creations()).toBe(before)
  })
})
