/** Hosts that close, drain or lose leadership: servers keep running, matches continue, and callers get an error. */
import { createFleet, type ElectionListener, type Elector } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/stores/memory.js'
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
  watched,
} from './stage.js'

async function running(options: StageOptions = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 2, max: 5 }))
  await untilReady(scene, fleet, 2)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  return { scene, fleet, match: await playing(scene, fleet, 1) }
}

/** The same part, with another close. */
function closing<T extends object>(part: T, close: () => void) {
  return {
    ...part,
    close: () => {
      close()
      return Promise.resolve()
    },
  }
}

describe('a closed fleet', () => {
  it('leaves every server running, and makes no more calls', async () => {
    const { scene, fleet } = await running()
    await fleet.close()
    const before = scene.calls.length
    await scene.clock.advance(3_600_000)
    expect(scene.calls.length).toBe(before)
    expect(scene.backend.servers().map(({ phase }) => phase)).toEqual(['running', 'running', 'running'])
  })

  it('leaves no timer behind', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 0 }))
    await scene.clock.advance(1_500)
    await fleet.close()
    expect(scene.clock.pending).toBe(0)
  })

  it('leaves no timer behind if it could not start', async () => {
    const clock = virtualClock()
    const list = () => Promise.reject(new Error('no list'))
    await expect(createFleet({ backend: { ...memoryBackend({ clock }), list }, clock })).rejects.toThrow('no list')
    expect(clock.pending).toBe(0)
  })

  it('can be closed twice', async () => {
    const { fleet } = await running()
    await Promise.all([fleet.close(), fleet.close()])
    await fleet.close()
  })

  it('closes its store even when the backend fails to close', async () => {
    const closed: string[] = []
    const { clock } = stage()
    const backend = closing(memoryBackend({ clock }), () => {
      throw new Error('it throws at once')
    })
    const open = async () => closing(memoryStore(), () => void closed.push('store'))
    const fleet = await createFleet({ backend: { ...backend, defaultStore: { kind: 'own', open } }, clock })
    await expect(fleet.close()).rejects.toThrow('it throws at once')
    expect(closed).toEqual(['store'])
  })

  it('closes its store if it fails to start and the backend fails to close', async () => {
    const closed: string[] = []
    const { clock } = stage()
    const backend = closing(memoryBackend({ clock }), () => {
      throw new Error('it throws at once')
    })
    const open = async () => closing(memoryStore(), () => void closed.push('store'))
    const list = () => Promise.reject(new Error('no list'))
    const fleet = createFleet({ backend: { ...backend, list, defaultStore: { kind: 'own', open } }, clock })
    await expect(fleet).rejects.toThrow('no list')
    expect(closed).toEqual(['store'])
  })

  it('rejects every call with a retryable error', async () => {
    const { fleet, match } = await running()
    await fleet.close()
    for (const call of [
      fleet.allocate(ask(1)),
      fleet.builds.list(),
      fleet.builds.create(aBuild({ name: 'duel' })),
      fleet.servers.get(match.ref),
      fleet.details.get(match.ref),
      fleet.drain(),
    ]) {
      expect(await failureOf(call)).toMatchObject({ code: 'closed', retryable: true })
    }
  })

  it('rejects a caller that joined a pending call for the same session on another build', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    for (const name of ['arena', 'duel']) await fleet.builds.create(aBuild({ name, standingBy: 1, max: 1 }))
    const calls = ['arena', 'duel'].map((buildID) => watched(fleet.allocate(ask(1, { buildID }), { waitMs: 60_000 })))
    await scene.clock.settle()
    await fleet.close()
    await scene.clock.settle()
    expect(calls.map((call) => call.outcome())).toMatchObject([
      { error: { code: 'closed' } },
      { error: { code: 'closed' } },
    ])
  })

  it('finishes an allocation in progress', async () => {
    const { scene, fleet } = await running()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = watched(fleet.allocate(ask(2)))
    await scene.clock.settle()
    const closed = watched(fleet.close())
    await scene.clock.advance(500)
    expect([call.outcome(), closed.outcome()]).toEqual(['pending', 'pending'])
    await scene.clock.advance(600)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(2) } })
    expect(closed.outcome()).toEqual({ value: undefined })
  })

  it('writes pending changes before it closes', async () => {
    const { scene, fleet, match } = await running()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 100 } : undefined)
    match.silence()
    match.unhealthy()
    const closed = fleet.close()
    await scene.clock.advance(1_000)
    await closed
    expect((await scene.records.servers.get(match.ref))?.record).toMatchObject({ state: 'Active', health: 'Unhealthy' })
  })

  it('does not hang when the store does not answer', async () => {
    const { scene, fleet, match } = await running()
    scene.faults.store = () => ({ kind: 'refuse' })
    match.players(['amie'])
    match.unhealthy()
    await scene.clock.settle()
    await fleet.close()
    expect(match.phase).toBe('running')
  })
})

describe('a drain', () => {
  it('terminates idle servers, lets matches continue, rejects allocations, and resolves once no servers remain', async () => {
    const { scene, fleet, match } = await running()
    const drained = watched(fleet.drain())
    await scene.clock.advance(60_000)
    expect(drained.outcome()).toBe('pending')
    expect(only(await fleet.servers.list()).status.state).toBe('Active')
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('draining')
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
    match.exit(0)
    await scene.clock.advance(1_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(scene.backend.servers()).toEqual([])
    await scene.clock.advance(600_000)
    expect(scene.backend.servers()).toEqual([])
  })

  it('resolves at once when the fleet has no servers', async () => {
    const scene = stage()
    const fleet = await scene.open()
    expect(await fleet.drain()).toEqual({ remaining: 0 })
  })

  it('resolves at its deadline with the number of remaining matches', async () => {
    const { scene, fleet, match } = await running()
    const drained = watched(fleet.drain({ deadlineMs: 30_000 }))
    await scene.clock.advance(29_999)
    expect(drained.outcome()).toBe('pending')
    await scene.clock.advance(1)
    expect(drained.outcome()).toEqual({ value: { remaining: 1 } })
    expect(match.phase).toBe('running')
  })

  it('also terminates Active servers when active is terminate, each within its grace period', async () => {
    const { scene, fleet, match } = await running({ memory: { script: () => ({ ignoresTerminate: true }) } })
    const drained = watched(fleet.drain({ active: 'terminate' }))
    await scene.clock.advance(1_000)
    expect([match.answer?.operation, match.phase]).toEqual(['Terminate', 'running'])
    await scene.clock.advance(30_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })

  it('continues when its caller stops waiting', async () => {
    const { scene, fleet } = await running()
    const aborter = new AbortController()
    const drained = watched(fleet.drain({ signal: aborter.signal }))
    await scene.clock.settle()
    aborter.abort()
    await scene.clock.advance(60_000)
    expect(drained.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect((await fleet.servers.list()).length).toBe(1)
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('draining')
  })

  it('resolves when the host closes', async () => {
    const { scene, fleet } = await running()
    const drained = watched(fleet.drain())
    await scene.clock.advance(10_000)
    await fleet.close()
    await scene.clock.settle()
    expect(drained.outcome()).toEqual({ value: { remaining: 1 } })
  })

  it('lets an allocation that is already in progress finish', async () => {
    const { scene, fleet } = await running()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 500 } : undefined)
    const call = watched(fleet.allocate(ask(2)))
    await scene.clock.settle()
    void fleet.drain()
    await scene.clock.advance(60_000)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(2) } })
    expect((await serversBy(fleet, 'Active')).length).toBe(2)
  })

  it('affects only its build, and survives a restart until the build is resumed', async () => {
    const { scene, fleet } = await running()
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1 }))
    await untilReady(scene, fleet, 1, 'duel')
    void fleet.builds.drain('arena')
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 0, currentActive: 1 })
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(60_000)
    expect(await statusOf(next)).toMatchObject({ currentStandingBy: 0, currentActive: 1 })
    expect((await failureOf(next.allocate(ask(2)))).code).toBe('draining')
    await next.allocate(ask(3, { buildID: 'duel' }))
    await next.builds.resume('arena')
    await untilReady(scene, next, 2)
    await next.allocate(ask(2))
  })
})

describe('leadership', () => {
  /** An elector that the test controls. */
  function manualElector() {
    let listener: ElectionListener | undefined
    const elector: Elector = {
      run(given) {
        listener = given
        return () => {
          listener = undefined
          return Promise.resolve()
        }
      },
    }
    return { elector, elect: () => listener?.elected(), depose: (by?: string) => listener?.lost(by) }
  }

  it('is required for changes: a follower names the leader and changes nothing', async () => {
    const scene = stage()
    const vote = manualElector()
    const opening = scene.open({ elector: vote.elector })
    await scene.clock.settle()
    vote.depose('host-b')
    const fleet = await opening
    for (const call of [fleet.allocate(ask(1)), fleet.builds.list(), fleet.builds.create(aBuild())]) {
      const { code, message } = await failureOf(call)
      expect([code, message]).toEqual(['not-leader', 'this host does not lead the fleet; host-b does'])
    }
    const beat = fleet.heartbeat('arena-aaaaa.secret', { state: 'Active', players: [] })
    expect(beat).toMatchObject({ operation: 'Continue', isElsewhere: true })
    expect(scene.calls).toEqual([])
  })

  it('when lost, stops all actions, rejects waiting callers, and lets matches continue', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const vote = manualElector()
    const opening = scene.open({ elector: vote.elector })
    await scene.clock.settle()
    vote.elect()
    const fleet = await opening
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.settle()
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    vote.depose('host-b')
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'not-leader', retryable: true } })
    const before = scene.calls.length
    await scene.clock.advance(600_000)
    expect(scene.calls.length).toBe(before)
    expect(only(scene.backend.servers()).phase).toBe('running')
    vote.elect()
    await scene.clock.settle()
    only(scene.backend.servers()).ready()
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
    expect(scene.eventsOf('LeadershipChanged').map(({ leads }) => leads)).toEqual([false, true])
  })

  it('when lost during an allocation, leaves the allocation to the next leader', async () => {
    const scene = stage()
    const vote = manualElector()
    const opening = scene.open({ elector: vote.elector })
    await scene.clock.settle()
    vote.elect()
    const fleet = await opening
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(500)
    vote.depose('host-b')
    await scene.clock.advance(1_000)
    expect(call.outcome()).toMatchObject({ error: { code: 'not-leader', retryable: true } })
    // A call made at the moment leadership is lost does not see stale state either.
    vote.elect()
    await scene.clock.settle()
    vote.depose('host-b')
    expect((await failureOf(fleet.servers.list())).code).toBe('not-leader')
  })

  it('when lost before the engine starts, allows no writes', async () => {
    const scene = stage()
    const vote = manualElector()
    const opening = scene.open({ elector: vote.elector })
    await scene.clock.settle()
    vote.elect()
    vote.depose('host-b')
    await opening
    await scene.clock.advance(10_000)
    expect(scene.calls).toEqual([])
  })

  it('when won while the store is unavailable, takes effect once the store responds', async () => {
    const scene = stage()
    const vote = manualElector()
    const opening = scene.open({ elector: vote.elector })
    await scene.clock.settle()
    vote.depose('host-b')
    const fleet = await opening
    scene.faults.store = () => ({ kind: 'refuse' })
    vote.elect()
    await scene.clock.advance(10_000)
    expect((await failureOf(fleet.builds.list())).code).toBe('not-leader')
    scene.faults.store = () => undefined
    await scene.clock.advance(10_000)
    expect(await fleet.builds.list()).toEqual([])
  })
})
