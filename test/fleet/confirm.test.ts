/** Allocations with `confirm`: they resolve when the game has confirmed its session, and fail if it does not. */
import type { MemoryServer } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  session,
  stage,
  type StageOptions,
  untilReady,
  watched,
} from './stage.js'

async function opened(
  overrides: Parameters<typeof aBuild>[0] = {},
  options: StageOptions = { memory: { script: 'manual' } },
) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1, ...overrides }))
  await scene.clock.settle()
  return { scene, fleet, server: nth(scene.backend.servers(), 0) }
}

const confirm = true

/** The game receives its session, and reports Active as an SDK does. */
function confirms(server: MemoryServer): void {
  expect(server.heartbeat().operation).toBe('Active')
  server.heartbeat()
}

describe('an allocation with confirm', () => {
  it('resolves with the heartbeat in which the game reports Active', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const call = watched(fleet.allocate(ask(1), { confirm }))
    await scene.clock.advance(900)
    expect(call.outcome()).toBe('pending')
    expect(scene.eventsOf('Allocated')).toHaveLength(1)
    expect(server.heartbeat().operation).toBe('Active')
    await scene.clock.settle()
    expect(call.outcome()).toBe('pending')
    expect(server.heartbeat().operation).toBe('Continue')
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('waits while a game reads answers late, as Unreal does, or loses them', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const call = watched(fleet.allocate(ask(1), { confirm }))
    await scene.clock.settle()
    for (let i = 0; i < 3; i++) expect(server.heartbeat({ state: 'StandingBy' }).operation).toBe('Active')
    await scene.clock.settle()
    expect(call.outcome()).toBe('pending')
    server.heartbeat({ state: 'Active' })
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('resolves at once if the game already has its session', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const first = await fleet.allocate(ask(1))
    confirms(server)
    const again = watched(fleet.allocate(ask(1), { confirm, waitMs: 0 }))
    await scene.clock.settle()
    expect(again.outcome()).toEqual({ value: first })
  })

  it('waits for the same server as an earlier call without confirm, which does not wait', async () => {
    const { scene, fleet, server } = await opened({ standingBy: 2, max: 2 })
    for (const each of scene.backend.servers()) each.ready()
    const plain = fleet.allocate(ask(1))
    const confirmed = watched(fleet.allocate(ask(1), { confirm }))
    const allocation = await plain
    expect(confirmed.outcome()).toBe('pending')
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
    confirms(server)
    await scene.clock.settle()
    expect(confirmed.outcome()).toEqual({ value: allocation })
  })

  it('does not delay a concurrent call without confirm that joins it', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const confirmed = watched(fleet.allocate(ask(1), { confirm }))
    expect(await fleet.allocate(ask(1))).toMatchObject({ SessionID: session(1) })
    expect(confirmed.outcome()).toBe('pending')
    confirms(server)
    await scene.clock.settle()
    expect(confirmed.outcome()).toMatchObject({ value: {} })
  })

  it('waits for a server first, and then for its game, within waitMs', async () => {
    const { scene, fleet, server } = await opened()
    const call = watched(fleet.allocate(ask(1), { confirm, waitMs: 5_000 }))
    await scene.clock.advance(3_000)
    server.ready()
    server.silence()
    await scene.clock.advance(1_900)
    expect(call.outcome()).toBe('pending')
    await scene.clock.advance(200)
    expect(call.outcome()).toMatchObject({ error: { code: 'not-confirmed', retryable: true } })
  })

  it('does not wait for a server without waitMs', async () => {
    const { fleet } = await opened()
    expect(await failureOf(fleet.allocate(ask(1), { confirm }))).toMatchObject({ code: 'none-standing-by' })
  })

  it.each([
    [{}, 10_000, {}],
    [{}, 3_000, { maxWaitMs: 3_000 }],
    [{ waitMs: 2_000 }, 2_000, {}],
  ])('with %j is rejected after %i ms if the game does not send a heartbeat', async (options, ms, limits) => {
    const { scene, fleet, server } = await opened({}, { memory: { script: 'manual' }, limits })
    server.ready()
    server.silence()
    const call = watched(fleet.allocate(ask(1), { confirm, ...options }))
    await scene.clock.advance(ms - 1)
    expect(call.outcome()).toBe('pending')
    await scene.clock.advance(2)
    expect(call.outcome()).toMatchObject({
      error: {
        code: 'not-confirmed',
        message: `server ${server.ref.name} has not confirmed session ${session(1)} yet (waited ${ms / 1_000} s); the session keeps this server: retry with the same sessionID`,
      },
    })
    const retry = watched(fleet.allocate(ask(1), { confirm }))
    confirms(server)
    await scene.clock.settle()
    expect(retry.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
  })

  it('with waitMs 0 is rejected at once if the game does not have its session yet', async () => {
    const { fleet, server } = await opened()
    server.ready()
    expect(await failureOf(fleet.allocate(ask(1), { confirm, waitMs: 0 }))).toMatchObject({ code: 'not-confirmed' })
    confirms(server)
    expect(await fleet.allocate(ask(1), { confirm, waitMs: 0 })).toMatchObject({ SessionID: session(1) })
  })

  it('stops waiting when its signal fires, and the session keeps its server', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const gone = new AbortController()
    const call = watched(fleet.allocate(ask(1), { confirm, signal: gone.signal }))
    await scene.clock.advance(500)
    gone.abort(new Error('the player left'))
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'aborted', cause: { message: 'the player left' } } })
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
  })

  it('is rejected if the server ends before its game has the session, and a retry gets another server', async () => {
    const { scene, fleet, server } = await opened({ standingBy: 1, max: 2 })
    server.ready()
    const call = watched(fleet.allocate(ask(1), { confirm, waitMs: 30_000 }))
    await scene.clock.advance(100)
    server.exit(1)
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({
      error: {
        code: 'not-confirmed',
        message: expect.stringContaining(`server ${server.ref.name} ended before it confirmed session ${session(1)}`),
      },
    })
    const retry = watched(fleet.allocate(ask(1), { confirm, waitMs: 30_000 }))
    await scene.clock.advance(5_000)
    const other = only(
      scene.backend
        .servers()
        .filter(({ phase, session }) => phase === 'running' && !session)
        .slice(0, 1),
    )
    other.ready()
    await scene.clock.settle()
    confirms(other)
    await scene.clock.settle()
    expect(retry.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('is rejected while a server that never received the session is terminating', async () => {
    const { scene, fleet, server } = await opened(
      { graceSeconds: 60 },
      { memory: { script: () => ({ autoReady: false, ignoresTerminate: true }) } },
    )
    server.ready()
    await fleet.allocate(ask(1))
    await fleet.servers.delete(server.ref)
    await scene.clock.settle()
    expect(await failureOf(fleet.allocate(ask(1), { confirm }))).toMatchObject({
      code: 'not-confirmed',
      message: expect.stringContaining('ended before it confirmed session'),
    })
  })

  it('is rejected when its host closes or another host takes over, and the next host confirms it', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    const call = watched(fleet.allocate(ask(1), { confirm }))
    await scene.clock.advance(100)
    await fleet.close()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ error: { code: 'closed' } })
    const next = await scene.open()
    const again = watched(next.allocate(ask(1), { confirm }))
    await scene.clock.advance(100)
    expect(again.outcome()).toBe('pending')
    confirms(server)
    await scene.clock.settle()
    expect(again.outcome()).toMatchObject({ value: { SessionID: session(1) } })
  })

  it('is confirmed after a restart by the first heartbeat of a game that received its session from an earlier host', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    await fleet.allocate(ask(1), { waitMs: 0 })
    confirms(server)
    scene.crash()
    const next = await scene.open()
    const again = watched(next.allocate(ask(1), { confirm }))
    await scene.clock.settle()
    expect(again.outcome()).toBe('pending')
    expect(server.heartbeat({ state: 'Active' })).toMatchObject({ operation: 'Continue' })
    await scene.clock.settle()
    expect(again.outcome()).toMatchObject({ value: {} })
  })

  it('does not resolve before its session is durable', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = watched(fleet.allocate(ask(1), { confirm }))
    await scene.clock.advance(500)
    expect(server.heartbeat().operation).toBe('Continue')
    await scene.clock.advance(600)
    expect(call.outcome()).toBe('pending')
    confirms(server)
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('resolves with the regular heartbeats of a game that has an SDK', async () => {
    const { scene, fleet } = await opened({}, {})
    await untilReady(scene, fleet, 1)
    const call = watched(fleet.allocate(ask(1), { confirm }))
    await scene.clock.advance(1_100)
    expect(call.outcome()).toMatchObject({ value: {} })
    expect((await playing(scene, fleet, 1)).session?.sessionId).toBe(session(1))
  })

  it.each(['yes', 1, null])('rejects the value %j as invalid', async (value) => {
    const { fleet } = await opened()
    expect(await failureOf(fleet.allocate(ask(1), Object.assign({}, { confirm: value as never })))).toEqual(
      expect.objectContaining({
        code: 'invalid',
        message: `confirm must be true or false, but is ${JSON.stringify(value)}`,
      }),
    )
  })
})
