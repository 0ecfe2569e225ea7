/** Answers to heartbeats that the fleet holds until it has news for the game, and which server a caller with `confirm` gets. */
import type { Fleet, HeartbeatAnswer } from 'gamekeeper'
import type { MemoryServer } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, nth, playing, session, type Stage, stage, type StageOptions, watched } from './stage.js'

const continues = { operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }

async function opened(overrides: Parameters<typeof aBuild>[0] = {}, options: StageOptions = {}) {
  const scene = stage({ memory: { script: 'manual' }, ...options })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1, ...overrides }))
  await scene.clock.settle()
  return { scene, fleet, server: nth(scene.backend.servers(), 0) }
}

/** Sends a StandingBy heartbeat as an SDK that prefers to wait does, and reports Active when it has a session. */
function standsBy(fleet: Fleet, server: MemoryServer, waitMs = 1_000) {
  const answers: HeartbeatAnswer[] = []
  const id = server.spec.sdk.sessionHostId
  const receive = (answer: HeartbeatAnswer) => {
    answers.push(answer)
    const isActive = answer.operation === 'Active'
    if (isActive) queueMicrotask(() => fleet.heartbeat(id, { state: 'Active', players: [] }))
  }
  const first = fleet.heartbeat(id, { state: 'StandingBy', players: [] })
  const cancel = first.operation === 'Continue' ? fleet.parkHeartbeat(id, { waitMs, answer: receive }) : undefined
  if (!cancel) receive(first)
  return { answers, cancel }
}

const idle = (fleet: Fleet, server: MemoryServer) => standsBy(fleet, server, 0)

describe('a held heartbeat', () => {
  it('is answered with the session as soon as it is durable, and the caller gets its confirmation at once', async () => {
    const { scene, fleet, server } = await opened()
    const { answers } = standsBy(fleet, server)
    await scene.clock.advance(300)
    await fleet.allocate(ask(1), { confirm: true })
    expect(answers).toMatchObject([{ operation: 'Active', sessionConfig: { sessionId: session(1) } }])
    expect(scene.clock.elapsed()).toBe(300)
  })

  it('is not answered while the session is not durable yet', async () => {
    const { scene, fleet, server } = await opened()
    const { answers } = standsBy(fleet, server)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 500 } : undefined)
    const call = watched(fleet.allocate(ask(1), { confirm: true }))
    await scene.clock.advance(400)
    expect(answers).toEqual([])
    await scene.clock.advance(200)
    expect(answers).toMatchObject([{ operation: 'Active', sessionConfig: { sessionId: session(1) } }])
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('is answered with Terminate as soon as the termination is durable', async () => {
    const { scene, fleet, server } = await opened()
    const { answers } = standsBy(fleet, server)
    await fleet.servers.delete(server.ref)
    await scene.clock.settle()
    expect(answers).toMatchObject([{ operation: 'Terminate' }])
  })

  it.each([
    [{}, 1_000, 1_000],
    [{}, 400, 400],
    [{}, 90_000, 1_000],
    [{ heartbeatIntervalMs: 3_000 }, 90_000, 3_000],
  ])('with the limits %j and a wait of %i ms is answered with Continue after %i ms', async (limits, waitMs, ms) => {
    const { scene, fleet, server } = await opened({}, { limits })
    const { answers } = standsBy(fleet, server, waitMs)
    await scene.clock.advance(ms - 1)
    expect(answers).toEqual([])
    await scene.clock.advance(1)
    expect(answers).toMatchObject([{ operation: 'Continue' }])
  })

  it('is answered when the next heartbeat of its server arrives', async () => {
    const { fleet, server } = await opened()
    const first = standsBy(fleet, server)
    const second = standsBy(fleet, server)
    expect(first.answers).toEqual([continues])
    expect(second.answers).toEqual([])
    fleet.heartbeat(server.spec.sdk.sessionHostId, { state: 'Terminating', players: [] })
    expect(second.answers).toHaveLength(1)
  })

  it('is not answered after the game has disconnected, and its next heartbeat gets the session', async () => {
    const { scene, fleet, server } = await opened()
    const { answers, cancel } = standsBy(fleet, server)
    cancel?.()
    cancel?.()
    const call = watched(fleet.allocate(ask(1), { confirm: true }))
    await scene.clock.advance(700)
    expect(answers).toEqual([])
    expect(call.outcome()).toBe('pending')
    expect(standsBy(fleet, server).answers).toMatchObject([{ operation: 'Active' }])
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('counts as a heartbeat when it arrives, so holding it neither hides nor causes silence', async () => {
    const { scene, fleet, server } = await opened({}, { limits: { silenceMs: 3_000 } })
    standsBy(fleet, server)
    await scene.clock.advance(2_900)
    expect(await fleet.servers.get(server.ref)).toMatchObject({ status: { state: 'StandingBy' } })
    await scene.clock.advance(1_200)
    expect(scene.eventsOf('ServerEnding')).toMatchObject([{ reason: 'Silent' }])
  })

  it.each(['close', 'deposed'] as const)('is answered so that the game connects to another host: %s', async (how) => {
    const leadership = new Set<() => void>()
    const elector = {
      run(listener: { elected(): void; lost(): void }) {
        listener.elected()
        leadership.add(() => listener.lost())
        return () => Promise.resolve()
      },
    }
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open({ elector })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.settle()
    const server = nth(scene.backend.servers(), 0)
    const { answers } = standsBy(fleet, server)
    if (how === 'close') await fleet.close()
    else for (const lose of leadership) lose()
    await scene.clock.settle()
    expect(answers).toEqual([{ ...continues, isElsewhere: true }])
    expect(standsBy(fleet, server).cancel).toBeUndefined()
  })

  it('of an unknown server is not held', async () => {
    const { fleet } = await opened()
    expect(fleet.parkHeartbeat('arena-zzzzz.0123', { waitMs: 1_000, answer: () => {} })).toBeUndefined()
  })
})

describe('a heartbeat whose game does not ask to wait', () => {
  it('is answered at once', async () => {
    const { fleet, server } = await opened()
    expect(idle(fleet, server).answers).toEqual([continues])
  })

  it('gets its session at once if a caller is waiting for the server', async () => {
    const { scene, fleet, server } = await opened()
    const call = watched(fleet.allocate(ask(1), { confirm: true, waitMs: 10_000 }))
    await scene.clock.settle()
    const { answers } = idle(fleet, server)
    expect(answers).toEqual([])
    await scene.clock.settle()
    expect(answers).toMatchObject([{ operation: 'Active', sessionConfig: { sessionId: session(1) } }])
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('is answered after 250 ms while its server is being allocated', async () => {
    const { scene, fleet, server } = await opened()
    idle(fleet, server)
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 5_000 } : undefined)
    void fleet.allocate(ask(1))
    await scene.clock.settle()
    const { answers } = idle(fleet, server)
    await scene.clock.advance(249)
    expect(answers).toEqual([])
    await scene.clock.advance(1)
    expect(answers).toEqual([continues])
    await scene.clock.advance(5_000)
  })
})

describe('a caller with confirm gets', () => {
  /** Three ready servers, whose heartbeats arrived 0, 300 and 600 ms ago, in the reverse order in which they became ready. */
  async function three() {
    const all = await opened({ standingBy: 3, max: 3 })
    const { scene, fleet } = all
    const servers = scene.backend.servers()
    for (const server of servers) server.ready()
    for (const server of servers) server.silence()
    for (const server of [...servers].reverse()) {
      await scene.clock.advance(300)
      idle(fleet, server)
    }
    return { ...all, servers }
  }

  const got = async (scene: Stage, fleet: Fleet) => (await playing(scene, fleet, 1)).ref

  it('the server whose next heartbeat is due next', async () => {
    const { scene, fleet, servers } = await three()
    void fleet.allocate(ask(1), { confirm: true }).catch(() => {})
    await scene.clock.settle()
    expect(await got(scene, fleet)).toEqual(servers[2]?.ref)
  })

  it('rather a server whose heartbeat is held', async () => {
    const { scene, fleet, servers } = await three()
    standsBy(fleet, nth(servers, 1))
    await fleet.allocate(ask(1), { confirm: true })
    expect(await got(scene, fleet)).toEqual(servers[1]?.ref)
  })

  it('not a server whose heartbeat is overdue', async () => {
    const { scene, fleet, servers } = await three()
    await scene.clock.advance(1_600)
    void fleet.allocate(ask(1), { confirm: true }).catch(() => {})
    await scene.clock.settle()
    expect(await got(scene, fleet)).toEqual(servers[1]?.ref)
  })

  it('a server that was held but is no longer ready only if there is no other', async () => {
    const { scene, fleet, servers } = await three()
    standsBy(fleet, nth(servers, 1))
    await fleet.allocate(ask(2), { confirm: true })
    void fleet.allocate(ask(1), { confirm: true }).catch(() => {})
    await scene.clock.settle()
    expect(await got(scene, fleet)).toEqual(servers[2]?.ref)
  })
})

it('a caller without confirm gets the server that became ready first', async () => {
  const { scene, fleet } = await opened({ standingBy: 2, max: 2 })
  const [first, second] = scene.backend.servers()
  first?.ready()
  second?.ready()
  first?.heartbeat()
  await fleet.allocate(ask(1))
  expect((await playing(scene, fleet, 1)).ref).toEqual(first?.ref)
})
