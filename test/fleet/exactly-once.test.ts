/** Exactly-once allocation: one server per session and one session per server, under parallel calls, faults and failover. */
import type { CallFault } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  only,
  playing,
  serversBy,
  session,
  type Stage,
  stage,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

async function standing(count: number, max = 10) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: count, max }))
  await untilReady(scene, fleet, count)
  return { scene, fleet }
}

const sessionsKept = async ({ records }: Stage) =>
  (await records.servers.list()).flatMap(({ record }) => (record.sessions[0] ? [record.sessions[0].id] : []))

/** Injects each fault into the next call of its method; later calls succeed. */
function nextCalls({ faults }: Stage, ...script: readonly (readonly [method: string, fault: CallFault])[]): void {
  const left = [...script]
  faults.store = ({ method }) => (left[0]?.[0] === method ? left.shift()?.[1] : undefined)
}

describe('calls for one session', () => {
  it('get one server when made in parallel', async () => {
    const { scene, fleet } = await standing(5)
    const given = await Promise.all(Array.from({ length: 20 }, () => fleet.allocate(ask(1))))
    expect(new Set(given.map(({ Ports }) => Ports)).size).toBe(1)
    await scene.clock.advance(5_000)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect((await statusOf(fleet)).currentActive).toBe(1)
  })

  it('get one server when parallel calls spell the sessionID differently', async () => {
    const { scene, fleet } = await standing(5)
    const id = 'abcdef00-0000-4000-8000-00000000000a'
    const spellings = [id, id.toUpperCase(), 'ABCDEF00-0000-4000-8000-00000000000a']
    const given = await Promise.all(spellings.map((sessionID) => fleet.allocate({ buildID: 'arena', sessionID })))
    expect(new Set(given.map(({ Ports }) => Ports)).size).toBe(1)
    expect((await sessionsKept(scene)).length).toBe(1)
  })

  it('get their server although the store never answers the write', async () => {
    const { scene, fleet } = await standing(2)
    nextCalls(scene, ['servers.update', { kind: 'hang' }])
    const given = fleet.allocate(ask(1))
    await scene.clock.advance(200_000)
    const { server } = await given
    expect(await fleet.allocate(ask(1))).toMatchObject({ server })
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('get the same server when made one after another, regardless of buildID', async () => {
    const { scene, fleet } = await standing(2)
    const first = await fleet.allocate(ask(1))
    expect(await fleet.allocate(ask(1))).toEqual(first)
    expect(await fleet.allocate(ask(1, { buildID: 'nobody has this' }))).toMatchObject(first)
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('get one server when all of them wait', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 5 }))
    const calls = Array.from({ length: 5 }, () => watched(fleet.allocate(ask(1), { waitMs: 10_000 })))
    await scene.clock.advance(1_000)
    // A session counts as one waiting caller, regardless of the number of calls.
    expect(scene.backend.servers().length).toBe(2)
    for (const server of scene.backend.servers()) server.ready()
    await scene.clock.advance(1_000)
    const addresses = calls.map((call) => call.outcome())
    expect(new Set(addresses.map((outcome) => JSON.stringify(outcome))).size).toBe(1)
    expect(addresses[0]).toMatchObject({ value: { SessionID: session(1) } })
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('get one server when the first call is aborted', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    const aborter = new AbortController()
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000, signal: aborter.signal }))
    const second = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.advance(100)
    aborter.abort()
    await scene.clock.advance(100)
    expect(first.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect(second.outcome()).toBe('pending')
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(second.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('time out after their own waitMs', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    const patient = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    const hasty = watched(fleet.allocate(ask(1)))
    const between = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.advance(1_000)
    expect(hasty.outcome()).toMatchObject({ error: { code: 'none-standing-by' } })
    await scene.clock.advance(9_000)
    expect(between.outcome()).toMatchObject({ error: { code: 'none-standing-by' } })
    expect(patient.outcome()).toBe('pending')
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(patient.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('do not get another server if they have timed out by the time the reserved server is lost', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    const patient = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 200 } : undefined)
    const server = only(scene.backend.servers())
    server.ready()
    await scene.clock.advance(50)
    const hasty = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(50)
    expect(hasty.outcome()).toBe('pending')
    server.exit(0)
    await scene.clock.until(() => hasty.outcome() !== 'pending', 1_000)
    expect(hasty.outcome()).toMatchObject({ error: { code: 'none-standing-by' } })
    expect(patient.outcome()).toBe('pending')
  })

  it('continue if the first call fails for a reason of its own', async () => {
    const { scene, fleet } = await standing(1)
    const nowhere = watched(fleet.allocate(ask(1, { buildID: 'nobody has this' })))
    const arena = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(100)
    expect(nowhere.outcome()).toMatchObject({ error: { code: 'not-found' } })
    expect(arena.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('get one server across a restart and a crash of the host', async () => {
    const { scene, fleet } = await standing(2)
    const first = await fleet.allocate(ask(1))
    await fleet.close()
    const second = await scene.open()
    expect(await second.allocate(ask(1))).toEqual(first)
    scene.crash()
    const third = await scene.open()
    expect(await third.allocate(ask(1))).toEqual(first)
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('get another server once the first one has terminated', async () => {
    const { scene, fleet } = await standing(1)
    await fleet.allocate(ask(1))
    const first = await playing(scene, fleet, 1)
    first.exit(0)
    await scene.clock.advance(1_000)
    await fleet.allocate(ask(1))
    expect((await playing(scene, fleet, 1)).ref.name).not.toBe(first.ref.name)
  })
})

describe('an allocation whose write fails', () => {
  it.each<readonly [string, CallFault]>([
    ['lost its reply', { kind: 'lose-reply' }],
    ['was refused', { kind: 'refuse' }],
    ['takes effect later', { kind: 'delay-effect', ms: 5_000 }],
  ])('succeeds when the write %s but can be read back', async (_, fault) => {
    const { scene, fleet } = await standing(3)
    nextCalls(scene, ['servers.update', fault])
    await fleet.allocate(ask(1))
    await scene.clock.advance(10_000)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect((await serversBy(fleet, 'Active')).length).toBe(1)
  })

  it.each<readonly [string, CallFault]>([
    ['lost its reply', { kind: 'lose-reply' }],
    ['was refused', { kind: 'refuse' }],
    ['takes effect later', { kind: 'delay-effect', ms: 5_000 }],
  ])('fails with unavailable when the write %s and cannot be read back, and a retry resolves it', async (_, fault) => {
    const { scene, fleet } = await standing(3)
    const down = { kind: 'refuse' } as const
    scene.faults.store = ({ method }) => (method === 'servers.update' ? fault : down)
    const error = await failureOf(fleet.allocate(ask(1)))
    expect(error).toMatchObject({ code: 'unavailable', retryable: true })
    scene.faults.store = () => down
    await scene.clock.advance(500)
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    const given = await fleet.allocate(ask(1))
    await scene.clock.advance(10_000)
    expect(await fleet.allocate(ask(1))).toEqual(given)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 3 })
  })

  it.each([
    ['by a retry', 1],
    ['in the background before a retry', 2_000],
  ])('emits one event when its write is found to have succeeded %s', async (_, meanwhileMs) => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'lose-reply' } : { kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    expect(scene.eventsOf('Allocated')).toEqual([])
    scene.faults.store = () => undefined
    await scene.clock.advance(meanwhileMs)
    await Promise.all([fleet.allocate(ask(1)), fleet.allocate(ask(1))])
    await scene.clock.advance(10_000)
    const { ref } = await playing(scene, fleet, 1)
    expect(only(scene.eventsOf('Allocated'))).toMatchObject({ sessionID: session(1), server: ref })
  })

  it('emits no event if the write had no effect, and one event for the next allocation', async () => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = () => ({ kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    expect(scene.eventsOf('Allocated')).toEqual([])
    await fleet.allocate(ask(2))
    expect(only(scene.eventsOf('Allocated')).sessionID).toBe(session(2))
  })

  it('keeps its server reserved while the outcome is unknown', async () => {
    const { scene, fleet } = await standing(1, 1)
    const down = { kind: 'refuse' } as const
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'lose-reply' } : down)
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = ({ method }) => (method === 'servers.get' ? down : undefined)
    await scene.clock.advance(500)
    expect((await failureOf(fleet.allocate(ask(2)))).code).toBe('max-reached')
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('releases its server without another allocation call if the write had no effect', async () => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = () => ({ kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    await fleet.allocate(ask(2))
    expect(await sessionsKept(scene)).toEqual([session(2)])
  })

  it('includes the session in heartbeat replies if the write took effect, and a retry returns the same server', async () => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'lose-reply' } : { kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    const server = await playing(scene, fleet, 1)
    expect([server.state, server.session?.sessionId]).toEqual(['Active', session(1)])
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
  })

  it('does not give a server with an unknown outcome to a waiting caller', async () => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'lose-reply' } : { kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    const waiting = watched(fleet.allocate(ask(2), { waitMs: 10_000 }))
    scene.faults.store = () => undefined
    await scene.clock.advance(10_000)
    expect(waiting.outcome()).toMatchObject({ error: { code: 'max-reached' } })
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('gives its server to a waiting caller once the write is known to have had no effect', async () => {
    const { scene, fleet } = await standing(1, 1)
    scene.faults.store = () => ({ kind: 'refuse' })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    const waiting = watched(fleet.allocate(ask(2), { waitMs: 10_000 }))
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    expect(waiting.outcome()).toMatchObject({ value: { SessionID: session(2) } })
  })

  it.each<readonly [string, CallFault]>([
    ['before its write', { kind: 'refuse' }],
    ['after its write', { kind: 'hang' }],
    ['during its write', { kind: 'delay-effect', ms: 2_000 }],
  ])('is resolved by the next host when its host dies %s: the session gets one server', async (_, fault) => {
    const { scene, fleet } = await standing(3)
    scene.faults.store = ({ method }) => {
      if (method !== 'servers.update') return undefined
      scene.crash()
      return fault
    }
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.settle()
    scene.faults.store = () => undefined
    const next = await scene.open()
    await next.allocate(ask(1))
    await scene.clock.advance(10_000)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect((await serversBy(next, 'Active')).length).toBe(1)
    expect(call.outcome()).toBe('pending')
  })
})

describe('a late write from a dead host', () => {
  /** Kills the host during an allocation whose write takes effect two seconds later. */
  async function failover(scene: Stage, allocate: () => void) {
    scene.faults.store = ({ method }) => {
      if (method !== 'servers.update') return undefined
      scene.crash()
      return { kind: 'delay-effect', ms: 2_000 }
    }
    allocate()
    await scene.clock.settle()
    scene.faults.store = () => undefined
    return scene.open()
  }

  it('is kept if the session was not retried, and detected when its server is allocated again', async () => {
    const { scene, fleet } = await standing(1, 1)
    const next = await failover(scene, () => void fleet.allocate(ask(1)))
    await scene.clock.advance(5_000)
    expect((await failureOf(next.allocate(ask(2)))).code).toBe('max-reached')
    expect((await next.allocate(ask(1))).SessionID).toBe(session(1))
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('has no effect once the next host has written the record', async () => {
    const { scene, fleet } = await standing(1, 2)
    const next = await failover(scene, () => void fleet.allocate(ask(1)))
    await next.allocate(ask(2))
    await scene.clock.advance(5_000)
    expect(await sessionsKept(scene)).toEqual([session(2)])
    await next.allocate(ask(1))
    expect((await sessionsKept(scene)).toSorted()).toEqual([session(1), session(2)])
  })

  it('is undone if the next host has given the session another server', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await scene.clock.settle()
    const [first, second] = scene.backend.servers()
    void fleet.allocate(ask(1), { waitMs: 10_000 })
    const next = await failover(scene, () => first?.ready())
    second?.ready()
    await next.allocate(ask(1))
    await scene.clock.advance(500)
    first?.silence()
    await scene.clock.advance(2_000)
    expect(await sessionsKept(scene)).toEqual([session(1), session(1)])
    first?.ready()
    await scene.clock.advance(5_000)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect((await playing(scene, next, 1)).ref).toEqual(second?.ref)
    expect(await statusOf(next)).toMatchObject({ currentActive: 1, currentStandingBy: 1 })
  })
})

describe('a conflict', () => {
  /** Allocates this many servers to other sessions, as another host does. */
  async function takenElsewhere(scene: Stage, count: number): Promise<void> {
    const standing = (await scene.records.servers.list()).filter(({ record }) => record.state === 'StandingBy')
    for (const [index, { record, revision }] of standing.slice(0, count).entries()) {
      const other = { id: session(900 + index), initialPlayers: [], number: 1, startedAt: 0 }
      const taken = { ...record, state: 'Active' as const, sessions: [other], startedSessions: 1 }
      await scene.records.servers.update(taken, revision)
    }
  }

  it('is hidden from the caller: the next candidate is tried', async () => {
    const { scene, fleet } = await standing(2)
    await takenElsewhere(scene, 1)
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
    expect((await sessionsKept(scene)).toSorted()).toEqual([session(1), session(900)])
  })

  it('is hidden from the caller when many candidates in a row are stale', async () => {
    const { scene, fleet } = await standing(10, 20)
    await takenElsewhere(scene, 9)
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
    expect(new Set(await sessionsKept(scene)).size).toBe(10)
    await scene.clock.advance(5_000)
    expect((await statusOf(fleet)).currentActive).toBe(10)
  })

  it('fails the call with none-standing-by if no candidate is left, and other sessions keep their servers', async () => {
    const { scene, fleet } = await standing(2, 2)
    await takenElsewhere(scene, 2)
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('max-reached')
    expect((await fleet.allocate(ask(900))).SessionID).toBe(session(900))
  })

  it('is resolved with another write if the conflicting change is unrelated', async () => {
    const { scene, fleet } = await standing(1, 1)
    const { record, revision } = only(await scene.records.servers.list())
    await scene.records.servers.update({ ...record, node: 'renamed' }, revision)
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
  })

  it('terminates servers whose records were deleted, and gives the caller another server', async () => {
    const { scene, fleet } = await standing(3, 5)
    const doomed = (await scene.records.servers.list()).slice(0, 2)
    for (const { record, revision } of doomed) await scene.records.servers.delete(record, revision)
    await fleet.allocate(ask(1))
    await untilReady(scene, fleet, 3)
    await scene.clock.advance(60_000)
    expect(await sessionsKept(scene)).toEqual([session(1)])
    const names = scene.backend.servers().map(({ ref }) => ref.name)
    for (const { record } of doomed) expect(names).not.toContain(record.name)
  })

  it('fails the call if the only server’s record was deleted', async () => {
    const { scene, fleet } = await standing(1, 1)
    const { record, revision } = only(await scene.records.servers.list())
    await scene.records.servers.delete(record, revision)
    const before = scene.calls.length
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('none-standing-by')
    expect(scene.calls.length - before).toBeLessThan(5)
    await untilReady(scene, fleet, 1)
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
  })
})

describe('an allocation during another write of its server', () => {
  it('resolves, and reaches the game, only once it is durable', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const server = only(scene.backend.servers())
    server.ready()
    await scene.clock.advance(500)
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(900)
    expect([call.outcome(), server.heartbeat().sessionConfig]).toEqual(['pending', undefined])
    await scene.clock.advance(700)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })
})

describe('a server that exits while it is being allocated', () => {
  async function endingDuringAllocation() {
    const { scene, fleet } = await standing(2)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(100)
    const given = only((await scene.records.servers.list()).filter(({ record }) => record.sessions[0])).record.name
    return { scene, fleet, call, given }
  }

  it('is replaced with another server for the caller', async () => {
    const { scene, fleet, call, given } = await endingDuringAllocation()
    scene.backend.server(given).exit(1)
    await scene.clock.advance(10_000)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref.name).not.toBe(given)
    expect(await sessionsKept(scene)).toEqual([session(1)])
  })

  it('keeps its session from being given to other servers until the store no longer contains the session', async () => {
    const { scene, fleet, call, given } = await endingDuringAllocation()
    scene.backend.server(given).exit(1)
    await scene.clock.settle()
    scene.faults.store = ({ method, ref }) =>
      method === 'servers.update' && ref?.name === given ? { kind: 'refuse' } : undefined
    await scene.clock.advance(1_000)
    expect(call.outcome()).toMatchObject({ error: { code: 'unavailable' } })
    expect((await failureOf(fleet.allocate(ask(1)))).code).toBe('unavailable')
    expect(await sessionsKept(scene)).toEqual([session(1)])
    scene.faults.store = () => undefined
    await fleet.allocate(ask(1))
    expect(await sessionsKept(scene)).toEqual([session(1)])
    expect((await playing(scene, fleet, 1)).ref.name).not.toBe(given)
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 2 })
  })
})
