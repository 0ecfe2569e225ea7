/** Scaling: how many servers a build has, which terminate first, and that no match is terminated. */
import type { Fleet, InstanceSpec } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  nth,
  serversBy,
  stage,
  type Stage,
  type StageOptions,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

async function standing(count: number, max: number, options: StageOptions = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: count, max }))
  await untilReady(scene, fleet, count)
  return { scene, fleet }
}

const creations = ({ calls }: Stage) => calls.filter(({ method }) => method === 'create').length
const endings = (scene: Stage) => scene.eventsOf('ServerEnding').map(({ reason }) => reason)

describe('a build', () => {
  it('keeps standingBy servers standing by', async () => {
    const { scene, fleet } = await standing(5, 10)
    expect(await statusOf(fleet)).toMatchObject({
      currentStandingBy: 5,
      currentActive: 0,
      currentPending: 0,
      currentInitializing: 0,
      currentStandingByReadyDesired: '5/5',
    })
    expect([creations(scene), scene.backend.servers().length]).toEqual([5, 5])
  })

  it('gets a new server after each allocation, up to max', async () => {
    const { scene, fleet } = await standing(2, 3)
    await fleet.allocate(ask(1))
    await untilReady(scene, fleet, 2)
    await fleet.allocate(ask(2))
    await scene.clock.advance(10_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 2, currentStandingBy: 1 })
    expect(scene.backend.servers().length).toBe(3)
  })

  it('never exceeds a max of 500 when calls and events are delayed', async () => {
    const scene = stage({ memory: { createLatencyMs: 300, startLatencyMs: 200, readyAfterMs: 100 } })
    scene.faults.events = ({ ref }) => (ref.name.charCodeAt(7) % 3 === 0 ? { kind: 'delay', ms: 2_000 } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 500, max: 500, portsToExpose: [] }))
    let most = 0
    for (let i = 0; i < 40; i++) {
      await scene.clock.advance(200)
      const { currentPending, currentInitializing, currentStandingBy, currentActive } = await statusOf(fleet)
      most = Math.max(most, currentPending + currentInitializing + currentStandingBy + currentActive)
    }
    expect([most, creations(scene), scene.backend.servers().length]).toEqual([500, 500, 500])
  })

  it('never has more than max idle and Active servers while sessions start and end', async () => {
    const { scene, fleet } = await standing(3, 5, { memory: { createLatencyMs: 50, readyAfterMs: 200 } })
    for (let n = 0; n < 40; n++) {
      void fleet.allocate(ask(n), { waitMs: 1_000 }).catch(() => {})
      await scene.clock.advance(100)
      if (n % 3 === 0) {
        const [match] = await serversBy(fleet, 'Active')
        if (match) scene.backend.server(match.metadata).exit(0)
      }
      const { currentPending, currentInitializing, currentStandingBy, currentActive } = await statusOf(fleet)
      expect(currentPending + currentInitializing + currentStandingBy + currentActive).toBeLessThanOrEqual(5)
    }
  })

  it('has no servers when standingBy and max are 0', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 0 }))
    await scene.clock.advance(60_000)
    expect(creations(scene)).toBe(0)
  })

  it('scales up at once when patched', async () => {
    const { scene, fleet } = await standing(1, 10)
    await fleet.builds.patch('arena', { standingBy: 7 })
    await scene.clock.settle()
    expect(await statusOf(fleet)).toMatchObject({ currentStandingByReadyDesired: '7/7' })
  })

  it('continues without delay when it needs more servers than one reconcile may create', async () => {
    const { scene } = await standing(45, 50)
    expect(scene.clock.elapsed()).toBe(0)
    expect(creations(scene)).toBe(45)
  })

  it('continues without delay when it has more surplus servers than one reconcile may terminate', async () => {
    const { scene, fleet } = await standing(45, 50)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.settle()
    expect([(await serversBy(fleet, 'Terminating')).length, scene.clock.elapsed()]).toEqual([44, 0])
    await scene.clock.advance(1_000)
    expect(scene.backend.servers().length).toBe(1)
  })
})

describe('scaling down', () => {
  it('terminates the surplus only once when standingBy and max drop together: two of five servers remain', async () => {
    const { scene, fleet } = await standing(5, 5)
    await fleet.builds.patch('arena', { standingBy: 2, max: 2 })
    await scene.clock.advance(60_000)
    expect(endings(scene)).toEqual(['ScaledDown', 'ScaledDown', 'ScaledDown'])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingByReadyDesired: '2/2', crashesCount: 0 })
    expect(scene.backend.servers().length).toBe(2)
  })

  it('terminates Pending servers first, then Initializing, then StandingBy', async () => {
    const scene = stage({ memory: { script: 'manual', createLatencyMs: 1_000 }, limits: { maxConcurrentCreates: 4 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 6, max: 6 }))
    await scene.clock.advance(500)
    // Four were created and two of them are ready; two more are queued.
    nth(scene.backend.servers(), 0).ready()
    nth(scene.backend.servers(), 1).ready()
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 2, currentInitializing: 2, currentStandingBy: 2 })
    for (const [standingBy, counts] of [
      [4, { currentPending: 0, currentInitializing: 2, currentStandingBy: 2 }],
      [2, { currentPending: 0, currentInitializing: 0, currentStandingBy: 2 }],
      [1, { currentPending: 0, currentInitializing: 0, currentStandingBy: 1 }],
    ] as const) {
      await fleet.builds.patch('arena', { standingBy })
      await scene.clock.settle()
      expect(await statusOf(fleet)).toMatchObject(counts)
    }
  })

  it('never terminates an Active server, even if max drops below the number of Active servers', async () => {
    const { scene, fleet } = await standing(4, 6)
    for (const n of [1, 2, 3]) await fleet.allocate(ask(n))
    await scene.clock.advance(1_000)
    await fleet.builds.patch('arena', { standingBy: 0, max: 1 })
    await scene.clock.advance(600_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 3, currentStandingBy: 0 })
    const [match] = await serversBy(fleet, 'Active')
    if (match) scene.backend.server(match.metadata).exit(0)
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 2, currentStandingBy: 0 })
    expect(creations(scene)).toBe(6)
  })

  it('never terminates a server that is being allocated', async () => {
    const { scene, fleet } = await standing(2, 2)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 2_000 } : undefined)
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(100)
    scene.faults.store = () => undefined
    await fleet.builds.patch('arena', { standingBy: 0, max: 0 })
    await scene.clock.advance(10_000)
    expect(call.outcome()).toMatchObject({ value: {} })
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 0 })
    expect(scene.backend.servers().length).toBe(1)
  })

  it('terminates a surplus server before the backend creates it', async () => {
    const scene = stage({ memory: { createLatencyMs: 1_000 }, limits: { maxConcurrentCreates: 1 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.advance(500)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(10_000)
    expect([creations(scene), (await fleet.servers.list()).length]).toEqual([1, 1])
    expect((await scene.records.servers.list()).length).toBe(1)
  })

  it('keeps the counts correct when the build is repeatedly scaled up and down', async () => {
    const { scene, fleet } = await standing(3, 20, { memory: { createLatencyMs: 100, readyAfterMs: 500 } })
    for (const standingBy of [10, 1, 15, 0, 7, 20, 2]) {
      await fleet.builds.patch('arena', { standingBy })
      await scene.clock.advance(150)
    }
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentPending: 0, currentInitializing: 0 })
    expect([scene.backend.servers().length, (await scene.records.servers.list()).length]).toEqual([2, 2])
  })
})

describe('scaling down on several nodes', () => {
  const nodes = ['north', 'east', 'south']

  async function idleByNode(fleet: Fleet, build = 'arena'): Promise<Record<string, number>> {
    const idle = (await serversBy(fleet, 'StandingBy')).filter(({ metadata }) => metadata.name.startsWith(build))
    return Object.fromEntries(nodes.map((name) => [name, idle.filter(({ status }) => status.nodeName === name).length]))
  }

  it('empties the nodes with the fewest sessions first, also those of other builds, and after a restart', async () => {
    const { scene, fleet } = await standing(0, 30, { memory: { nodes } })
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 9, max: 9 }))
    await untilReady(scene, fleet, 9, 'duel')
    for (const id of [1, 2, 3]) await fleet.allocate(ask(id), { waitMs: 60_000 })
    await fleet.sessions.end(ask(2).sessionID)
    await scene.clock.advance(60_000)
    const used = (await serversBy(fleet, 'Active')).map(({ status }) => status.nodeName ?? '')
    expect(new Set(used).size).toBe(2)
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(10_000)
    await next.builds.patch('duel', { standingBy: 6 })
    await scene.clock.advance(10_000)
    expect(await idleByNode(next, 'duel')).toEqual(
      Object.fromEntries(nodes.map((name) => [name, used.includes(name) ? 3 : 0])),
    )
  })

  it('empties one node after the other', async () => {
    const { scene, fleet } = await standing(9, 9, { memory: { nodes } })
    await fleet.builds.patch('arena', { standingBy: 6 })
    await scene.clock.advance(10_000)
    expect(Object.values(await idleByNode(fleet)).toSorted((a, b) => a - b)).toEqual([0, 3, 3])
    await fleet.builds.patch('arena', { standingBy: 4 })
    await scene.clock.advance(10_000)
    expect(Object.values(await idleByNode(fleet)).toSorted((a, b) => a - b)).toEqual([0, 1, 3])
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(10_000)
    expect(Object.values(await idleByNode(fleet)).toSorted((a, b) => a - b)).toEqual([0, 0, 2])
  })
})

describe('a creation that never completes', () => {
  it('does not block its build', async () => {
    const scene = stage()
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'refuse' } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.advance(300_000)
    scene.faults.backend = () => undefined
    await scene.clock.advance(61_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3, currentPending: 0 })
  })

  it('does not block other builds', async () => {
    const scene = stage({ memory: { startLatencyMs: 0 } })
    let first: string | undefined
    scene.faults.backend = ({ method, ref }) => {
      if (method !== 'create') return undefined
      first ??= ref?.name
      return ref?.name === first ? { kind: 'refuse' } : undefined
    }
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentPending: 1 })
  })

  it('does not hold up the starts of other builds, even if its build uses every slot', async () => {
    const memory = { script: ({ build }: InstanceSpec) => (build.name === 'stuck' ? { startsAfterMs: Infinity } : {}) }
    const scene = stage({ memory, limits: { maxConcurrentCreates: 3 } })
    scene.faults.backend = ({ method, ref }) =>
      method === 'create' && ref?.name.startsWith('stuck') ? { kind: 'hang' } : undefined
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ name: 'stuck', standingBy: 8, max: 8 }))
    await scene.clock.settle()
    for (const name of ['arena', 'duel']) await fleet.builds.create(aBuild({ name, standingBy: 8, max: 8 }))
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet, 'arena')).toMatchObject({ currentStandingBy: 8 })
    expect(await statusOf(fleet, 'duel')).toMatchObject({ currentStandingBy: 8 })
  })
})

describe('a termination that never completes', () => {
  it('does not hold up the terminations of other builds, even if its build uses every slot', async () => {
    const scene = stage({ limits: { maxConcurrentDestroys: 3 } })
    scene.faults.backend = ({ method, ref }) =>
      method === 'destroy' && ref?.name.startsWith('stuck') ? { kind: 'hang' } : undefined
    const fleet = await scene.open()
    for (const name of ['stuck', 'arena']) {
      await fleet.builds.create(aBuild({ name, standingBy: 5, max: 5 }))
      await untilReady(scene, fleet, 5, name)
    }
    await fleet.builds.delete('stuck')
    await scene.clock.settle()
    await fleet.builds.delete('arena')
    await scene.clock.advance(1_000)
    expect((await fleet.servers.list()).map(({ metadata }) => metadata.name.startsWith('stuck'))).not.toContain(false)
    expect(await fleet.servers.list()).toHaveLength(5)
  })
})
