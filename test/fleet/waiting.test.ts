/** Waiting callers: served in order of arrival, counted as demand, and rejected when they cannot be served. */
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  session,
  type Stage,
  stage,
  type StageOptions,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

async function opened(
  overrides: Parameters<typeof aBuild>[0],
  options: StageOptions = { memory: { script: 'manual' } },
) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild(overrides))
  await scene.clock.settle()
  return { scene, fleet }
}

describe('a waiting caller', () => {
  it('gets a server in the same tick in which the server becomes ready', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.advance(3_000)
    const before = scene.clock.elapsed()
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect(scene.clock.elapsed()).toBe(before)
    expect(only(scene.eventsOf('Allocated')).waitedMs).toBe(3_000)
  })

  it('is served in order of arrival', async () => {
    const { scene, fleet } = await opened({ standingBy: 3, max: 3 })
    for (const n of [1, 2, 3]) void fleet.allocate(ask(n), { waitMs: 10_000 })
    await scene.clock.settle()
    const order = [2, 0, 1].map((index) => nth(scene.backend.servers(), index))
    for (const server of order) server.ready()
    await scene.clock.settle()
    for (const n of [1, 2, 3]) expect((await playing(scene, fleet, n)).ref).toEqual(order[n - 1]?.ref)
  })

  it('keeps its place in the queue when the server reserved for it is lost', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 3 })
    const calls = [1, 2, 3].map((n) => watched(fleet.allocate(ask(n), { waitMs: 30_000 })))
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 200 } : undefined)
    const [first, second] = [0, 1].map((index) => nth(scene.backend.servers(), index))
    first?.ready()
    await scene.clock.advance(50)
    first?.exit(0)
    await scene.clock.advance(500)
    scene.faults.store = () => undefined
    second?.ready()
    await scene.clock.advance(1_000)
    expect(calls.map((call) => call.outcome())).toMatchObject([{ value: {} }, 'pending', 'pending'])
  })

  it('keeps its place when the server reserved for it is lost, even if the queue is full', async () => {
    const { scene, fleet } = await opened(
      { standingBy: 1, max: 2 },
      { memory: { script: 'manual' }, limits: { maxWaiting: 1 } },
    )
    const first = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 200 } : undefined)
    const server = nth(scene.backend.servers(), 0)
    server.ready()
    await scene.clock.advance(50)
    const second = watched(fleet.allocate(ask(2), { waitMs: 30_000 }))
    server.exit(0)
    await scene.clock.advance(500)
    expect([first.outcome(), second.outcome()]).toEqual(['pending', 'pending'])
  })

  it('is served before a caller that arrives later, just as a server is ready', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.settle()
    only(scene.backend.servers()).ready()
    const late = await failureOf(fleet.allocate(ask(2)))
    await scene.clock.settle()
    expect(first.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect(['none-standing-by', 'max-reached']).toContain(late.code)
  })

  it('counts as demand: a build with standingBy 0 creates a server for each waiting caller, up to max', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 2 }, {})
    expect(scene.backend.servers().length).toBe(0)
    const calls = [1, 2, 3].map((n) => watched(fleet.allocate(ask(n), { waitMs: 10_000 })))
    await scene.clock.advance(9_999)
    expect(calls.map((call) => call.outcome())).toMatchObject([{ value: {} }, { value: {} }, 'pending'])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 2, currentStandingBy: 0 })
    await scene.clock.advance(1)
    expect(calls[2]?.outcome()).toMatchObject({ error: { code: 'max-reached' } })
  })

  it('leaves no surplus server standing by once it is served', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 }, {})
    await fleet.allocate(ask(1), { waitMs: 10_000 })
    await scene.clock.advance(10_000)
    expect((await fleet.servers.list()).length).toBe(1)
  })

  it('inherits the starting server when another call for the same session is aborted', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    const aborter = new AbortController()
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000, signal: aborter.signal }))
    const second = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.settle()
    const { ref } = only(scene.backend.servers())
    aborter.abort()
    await scene.clock.advance(100)
    expect(first.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(second.outcome()).toMatchObject({ value: {} })
    expect((await playing(scene, fleet, 1)).ref).toEqual(ref)
  })

  it('frees its place at once when aborted, and the server started for it is terminated', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    const aborter = new AbortController()
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000, signal: aborter.signal }))
    await scene.clock.advance(1_000)
    expect(scene.backend.servers().length).toBe(1)
    aborter.abort()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'aborted' } })
    await scene.clock.advance(60_000)
    expect([scene.backend.servers().length, (await fleet.servers.list()).length]).toEqual([0, 0])
  })

  it('gives up its turn to the next caller when aborted', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const aborter = new AbortController()
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000, signal: aborter.signal }))
    const second = watched(fleet.allocate(ask(2), { waitMs: 10_000 }))
    await scene.clock.settle()
    aborter.abort()
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(first.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect(second.outcome()).toMatchObject({ value: { SessionID: session(2) } })
  })

  it('releases its reserved server in the same tick in which it is aborted', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const aborter = new AbortController()
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000, signal: aborter.signal }))
    const second = watched(fleet.allocate(ask(2), { waitMs: 10_000 }))
    await scene.clock.settle()
    only(scene.backend.servers()).ready()
    aborter.abort()
    await scene.clock.advance(1_000)
    expect(first.outcome()).toMatchObject({ error: { code: 'aborted' } })
    expect(second.outcome()).toMatchObject({ value: { SessionID: session(2) } })
    const kept = (await scene.records.servers.list()).map(({ record }) => record.sessions[0]?.id)
    expect(kept).toEqual([session(2)])
  })

  it('is rejected with aborted when its signal fires during an allocation that then fails', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const aborter = new AbortController()
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000, signal: aborter.signal }))
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const server = only(scene.backend.servers())
    server.ready()
    await scene.clock.advance(100)
    server.exit(1)
    aborter.abort()
    await scene.clock.advance(5_000)
    expect(call.outcome()).toMatchObject({ error: { code: 'aborted' } })
  })

  it('can be aborted without affecting other callers that wait for the same session', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const aborter = new AbortController()
    const first = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    const second = watched(fleet.allocate(ask(1), { waitMs: 10_000, signal: aborter.signal }))
    await scene.clock.advance(100)
    aborter.abort()
    await scene.clock.settle()
    expect(second.outcome()).toMatchObject({ error: { code: 'aborted' } })
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    expect(first.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('is rejected at its timeout with an error that says how long it waited', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 2_500 }))
    await scene.clock.advance(2_499)
    expect(call.outcome()).toBe('pending')
    await scene.clock.advance(1)
    expect(call.outcome()).toMatchObject({
      error: {
        code: 'none-standing-by',
        retryable: true,
        message:
          'no server of build arena is standing by (waited 2.5 s): 1 server is Initializing: its game has not called readyForPlayers()',
      },
    })
  })

  it('gets the server started for it on a retry, even if the start takes longer than its timeout', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(await outcomeAfter(scene, fleet.allocate(ask(1), { waitMs: 5_000 }), 5_000)).toMatchObject({
        error: { code: 'none-standing-by' },
      })
      await scene.clock.advance(1_100)
    }
    const last = watched(fleet.allocate(ask(1), { waitMs: 5_000 }))
    const server = only(scene.backend.servers())
    server.ready()
    await scene.clock.settle()
    expect(last.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
  })

  it('stops counting as demand once its retry is served, even if that happens at once', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 50 })
    const callers = Array.from({ length: 20 }, (_, n) => ask(n))
    for (const caller of callers) void outcomeAfter(scene, fleet.allocate(caller, { waitMs: 5_000 }), 0)
    await scene.clock.advance(5_000)
    for (const server of scene.backend.servers()) server.ready()
    await scene.clock.advance(1_000)
    const calls = callers.map((caller) => watched(fleet.allocate(caller, { waitMs: 5_000 })))
    await scene.clock.advance(60_000)
    for (const { outcome } of calls) expect(outcome()).toMatchObject({ value: {} })
    expect(scene.eventsOf('ServerCreated').length).toBe(20)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
  })

  it('keeps counting as demand while other callers arrive and leave', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    await outcomeAfter(scene, fleet.allocate(ask(1), { waitMs: 5_000 }), 5_300)
    const { ref } = only(scene.backend.servers())
    const aborter = new AbortController()
    await outcomeAfter(scene, fleet.allocate(ask(2), { waitMs: 5_000, signal: aborter.signal }), 300)
    aborter.abort()
    await scene.clock.advance(500)
    await outcomeAfter(scene, fleet.allocate(ask(1), { waitMs: 5_000 }), 100)
    expect(scene.eventsOf('ServerEnding')).toHaveLength(1)
    expect(only(scene.backend.servers()).ref).toEqual(ref)
  })

  it.each([500, 1_000, 5_000])(
    'is served by retrying every %i ms, although a server takes 5 s to start',
    async (waitMs) => {
      const { scene, fleet } = await opened(
        { standingBy: 0, max: 5 },
        { memory: { startLatencyMs: 2_500, readyAfterMs: 2_500 } },
      )
      for (let attempt = 0; attempt < 5; attempt++) {
        await outcomeAfter(scene, fleet.allocate(ask(1), { waitMs }), waitMs)
        await scene.clock.advance(1_100)
      }
      expect(await fleet.allocate(ask(1))).toMatchObject({ SessionID: session(1) })
      expect(scene.eventsOf('ServerCreated')).toHaveLength(1)
    },
  )

  it('is recognized under any spelling of its sessionID', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    const sessionID = 'abcdefab-0000-4000-8000-00000000000a'
    const request = { buildID: 'arena', sessionID }
    await outcomeAfter(scene, fleet.allocate(request, { waitMs: 5_000 }), 5_500)
    const again = { ...request, sessionID: sessionID.toUpperCase() }
    await outcomeAfter(scene, fleet.allocate(again, { waitMs: 5_000 }), 1_000)
    expect(scene.eventsOf('ServerCreated')).toHaveLength(1)
  })

  it('gets the server started for it from the next host after a restart', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    void outcomeAfter(scene, fleet.allocate(ask(1), { waitMs: 30_000 }), 0)
    void outcomeAfter(scene, fleet.allocate(ask(2), { waitMs: 30_000 }), 0)
    await scene.clock.advance(9_000)
    const [first] = scene.backend.servers()
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(1_100)
    const call = watched(next.allocate(ask(1), { waitMs: 5_000 }))
    await scene.clock.advance(1_000)
    expect(scene.backend.servers()).toHaveLength(2)
    // The other caller does not retry.
    await scene.clock.advance(2_000)
    expect(only(scene.backend.servers()).ref).toEqual(first?.ref)
    first?.ready()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect(scene.eventsOf('ServerCreated')).toHaveLength(2)
  })

  it('does not count as demand on the next host if the server started for it no longer exists', async () => {
    const { scene, fleet } = await opened({ standingBy: 2, max: 100 }, { memory: { readyAfterMs: 5_000 } })
    await untilReady(scene, fleet, 2)
    for (let n = 1; n <= 22; n++) void outcomeAfter(scene, fleet.allocate(ask(n), { waitMs: 30_000 }), 0)
    await scene.clock.advance(1_000)
    const before = scene.eventsOf('ServerCreated').length
    scene.crash()
    for (const server of scene.backend.servers()) server.exit(137)
    await scene.open()
    await scene.clock.advance(60_000)
    expect(scene.eventsOf('ServerCreated').length - before).toBe(2)
  })

  it('stops counting as demand eventually: the server started for it is terminated', async () => {
    const { scene, fleet } = await opened({ standingBy: 0, max: 5 })
    await outcomeAfter(scene, fleet.allocate(ask(1), { waitMs: 5_000 }), 5_000)
    expect(scene.backend.servers().length).toBe(1)
    await scene.clock.advance(60_000)
    expect([scene.backend.servers().length, (await fleet.servers.list()).length]).toEqual([0, 0])
  })

  it('gets the replacement of a server whose match ends if all were Active', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 }, {})
    await untilReady(scene, fleet, 1)
    await fleet.allocate(ask(1))
    const call = watched(fleet.allocate(ask(2), { waitMs: 30_000 }))
    await scene.clock.advance(10_000)
    expect(call.outcome()).toBe('pending')
    ;(await playing(scene, fleet, 1)).exit(0)
    await scene.clock.advance(2_000)
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(2) } })
  })

  it('is rejected when its build is deleted', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    await fleet.builds.delete('arena')
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'not-found' } })
  })

  it('is rejected with a retryable error when the host closes', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    const joined = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    await fleet.close()
    await scene.clock.settle()
    for (const { outcome } of [call, joined]) {
      expect(outcome()).toMatchObject({ error: { code: 'closed', retryable: true } })
    }
  })

  it('is rejected when the fleet is drained', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    void fleet.drain()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'draining' } })
  })

  it('is rejected at once when the queue is full', async () => {
    const { scene, fleet } = await opened(
      { standingBy: 1, max: 1 },
      { memory: { script: 'manual' }, limits: { maxWaiting: 2 } },
    )
    for (const n of [1, 2]) void fleet.allocate(ask(n), { waitMs: 60_000 }).catch(() => {})
    expect((await failureOf(fleet.allocate(ask(3), { waitMs: 60_000 }))).code).toBe('unavailable')
    only(scene.backend.servers()).ready()
    await scene.clock.settle()
    const next = watched(fleet.allocate(ask(3), { waitMs: 60_000 }))
    await scene.clock.settle()
    expect(next.outcome()).toBe('pending')
  })

  it('gets another server if its reserved server disappears', async () => {
    const { scene, fleet } = await opened({ standingBy: 2, max: 2 })
    const call = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.settle()
    const [first, second] = [0, 1].map((index) => nth(scene.backend.servers(), index))
    for (const { record, revision } of await scene.records.servers.list()) {
      if (record.name === first?.ref.name) await scene.records.servers.delete(record, revision)
    }
    first?.ready()
    await scene.clock.advance(1_000)
    second?.ready()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref).toEqual(second?.ref)
  })
})

async function outcomeAfter({ clock }: Stage, call: Promise<unknown>, ms: number) {
  const { outcome } = watched(call)
  await clock.advance(ms)
  return outcome()
}
