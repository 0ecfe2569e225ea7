/** Reservations of idle servers: what they keep a server from, when they end, and what a restart does to them. */
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  session,
  serversBy,
  stage,
  statusOf,
  untilReady,
  watched,
} from './stage.js'

const minute = 60_000
const week = 7 * 24 * 60 * minute

async function running({ standingBy = 2, max = 6 } = {}) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy, max }))
  await untilReady(scene, fleet, standingBy)
  const servers = await fleet.servers.list()
  return { scene, fleet, first: nth(servers, 0).metadata, second: servers[1]?.metadata ?? nth(servers, 0).metadata }
}

/** Allocates sessions until no server is left, and returns the names of their servers. */
async function allocatedAll(fleet: Awaited<ReturnType<typeof running>>['fleet']): Promise<readonly string[]> {
  const names: string[] = []
  for (let n = 100; ; n++) {
    try {
      names.push((await fleet.allocate(ask(n))).server.name)
    } catch {
      return names
    }
  }
}

describe('a reserved server', () => {
  it('is not allocated to a request that does not name it', async () => {
    const { fleet, first, second } = await running({ max: 2 })
    await fleet.servers.reserve(first, { forMs: minute })
    expect(await allocatedAll(fleet)).toEqual([second.name])
    await expect(
      failureOf(fleet.allocate({ select: [{ builds: ['arena'] }], sessionID: session(1) })),
    ).resolves.toMatchObject({
      code: 'max-reached',
    })
  })

  it('does not count as standing by, so another is started, within max', async () => {
    const { scene, fleet, first } = await running({ standingBy: 2, max: 3 })
    await fleet.servers.reserve(first, { forMs: minute })
    await untilReady(scene, fleet, 3)
    const [other] = (await fleet.servers.list()).filter(({ metadata }) => metadata.name !== first.name)
    await fleet.servers.reserve(other?.metadata ?? '', { forMs: minute })
    await scene.clock.advance(10_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3, currentPending: 0, currentInitializing: 0 })
  })

  it('is neither scaled down nor replaced by a rolling update, and both happen when it has lapsed', async () => {
    const { scene, fleet, first } = await running({ standingBy: 1, max: 6 })
    await fleet.servers.reserve(first, { forMs: minute })
    await fleet.builds.update('arena', { buildMetadata: { version: '2' } })
    await fleet.builds.patch('arena', { standingBy: 0, max: 0 })
    await scene.clock.advance(minute - 2_000)
    expect((await fleet.servers.list()).map(({ metadata }) => metadata.name)).toEqual([first.name])
    await scene.clock.advance(10_000)
    expect(await fleet.servers.list()).toEqual([])
    expect(scene.eventsOf('ServerEnding').find(({ server }) => server.name === first.name)).toMatchObject({
      reason: 'Replaced',
    })
  })

  it('takes a time, and says so if there is none', async () => {
    const { fleet, first } = await running()
    // @ts-expect-error A program in JavaScript may leave it out.
    expect((await failureOf(fleet.servers.reserve(first, {}))).message).toBe(
      'servers.reserve: forMs is missing: it must be a time in ms',
    )
  })

  it('stays reserved by a listener that reserves it again when its reservation lapses', async () => {
    const { scene, fleet, first } = await running()
    let again: Promise<unknown> | undefined
    fleet.on('ReservationLapsed', () => {
      again ??= fleet.servers.reserve(first, { forMs: 10 * minute })
    })
    await fleet.servers.reserve(first, { forMs: minute })
    await scene.clock.advance(61_000)
    await again
    const { status } = await fleet.servers.get(first)
    expect(Date.parse(status.reservedUntil ?? '') - scene.clock.now()).toBeGreaterThan(8 * minute)
  })

  it('goes to a waiting caller in the tick in which its reservation lapses', async () => {
    const { scene, fleet, first } = await running({ standingBy: 1, max: 1 })
    await fleet.servers.reserve(first, { forMs: minute })
    const waiting = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await scene.clock.advance(minute - 1_000)
    expect(waiting.outcome()).toBe('pending')
    await scene.clock.advance(1_000)
    expect(waiting.outcome()).toMatchObject({ value: { server: { name: first.name } } })
    expect(only(scene.eventsOf('ReservationLapsed'))).toMatchObject({ server: { name: first.name } })
  })

  it('shows until when, in its record, its resource and an event', async () => {
    const { scene, fleet, first } = await running()
    const until = scene.clock.now() + minute
    const { status } = await fleet.servers.reserve(first, { forMs: minute })
    expect(status.reservedUntil).toBe(new Date(until).toISOString())
    expect((await scene.records.servers.get(first))?.record.reservedUntil).toBe(until)
    expect(only(scene.eventsOf('ServerReserved'))).toMatchObject({
      server: { name: first.name },
      until,
      message: `${first.name} is reserved until ${new Date(until).toISOString()}`,
    })
  })

  it('ends all the same when an operator deletes it, or its build drains, or it crashes', async () => {
    const { scene, fleet, first, second } = await running()
    await fleet.servers.reserve(first, { forMs: minute })
    await fleet.servers.reserve(second, { forMs: minute })
    await untilReady(scene, fleet, 4)
    const names = [first.name, second.name]
    const third = (await serversBy(fleet, 'StandingBy')).find(({ metadata }) => !names.includes(metadata.name))
    await fleet.servers.reserve(third?.metadata ?? '', { forMs: minute })
    await fleet.servers.delete(first)
    scene.backend.server(second).exit(1)
    const drained = watched(fleet.builds.drain('arena'))
    await scene.clock.advance(40_000)
    expect(drained.outcome()).toEqual({ value: { remaining: 0 } })
    expect(scene.eventsOf('ReservationReleased')).toEqual([])
  })
})

describe('a reservation', () => {
  it.each(['close', 'crash'] as const)('survives a %s of the host and ends at the same time', async (how) => {
    const { scene, fleet, first } = await running({ standingBy: 1, max: 1 })
    await fleet.servers.reserve(first, { forMs: minute })
    await scene.clock.advance(20_000)
    if (how === 'close') await fleet.close()
    else scene.crash()
    const next = await scene.open()
    const waiting = watched(next.allocate(ask(1), { waitMs: minute }))
    await scene.clock.advance(39_000)
    expect(waiting.outcome()).toBe('pending')
    await scene.clock.advance(3_000)
    expect(waiting.outcome()).toMatchObject({ value: { server: { name: first.name } } })
  })

  it('that has lapsed while no host was running ends at once', async () => {
    const { scene, fleet, first } = await running({ standingBy: 1, max: 1 })
    await fleet.servers.reserve(first, { forMs: minute })
    scene.crash()
    await scene.clock.advance(2 * minute)
    const next = await scene.open()
    const waiting = watched(next.allocate(ask(1), { waitMs: minute }))
    await scene.clock.advance(5_000)
    expect(waiting.outcome()).toMatchObject({ value: { server: { name: first.name } } })
  })

  it('is renewed by another call, also to an earlier time, and ended by release', async () => {
    const { scene, fleet, first, second } = await running()
    await fleet.servers.reserve(first, { forMs: minute })
    await fleet.servers.reserve(first, { forMs: 3 * minute })
    await fleet.servers.reserve(second, { forMs: 3 * minute })
    await fleet.servers.reserve(second, { forMs: 10_000 })
    await scene.clock.advance(2 * minute)
    expect((await fleet.servers.get(first)).status).toHaveProperty('reservedUntil')
    expect((await fleet.servers.get(second).catch(() => ({ status: {} }))).status).not.toHaveProperty('reservedUntil')
    expect((await fleet.servers.release(first)).status).not.toHaveProperty('reservedUntil')
    expect((await scene.records.servers.get(first))?.record.reservedUntil).toBeUndefined()
    expect(only(scene.eventsOf('ReservationReleased'))).toMatchObject({ server: { name: first.name } })
    await fleet.servers.release(first)
    expect(scene.eventsOf('ReservationReleased')).toHaveLength(1)
  })

  it('is durable when the call resolves, and so is its release', async () => {
    const { scene, fleet, first } = await running()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 3_000 } : undefined)
    const reserving = watched(fleet.servers.reserve(first, { forMs: minute }))
    await scene.clock.advance(2_999)
    expect(reserving.outcome()).toBe('pending')
    await scene.clock.advance(1)
    expect(reserving.outcome()).toMatchObject({ value: { metadata: { name: first.name } } })
    const releasing = watched(fleet.servers.release(first))
    await scene.clock.advance(2_999)
    expect(releasing.outcome()).toBe('pending')
    await scene.clock.advance(1)
    expect(releasing.outcome()).toMatchObject({ value: { metadata: { name: first.name } } })
  })

  it('of a server that is still starting keeps it until it is over', async () => {
    const scene = stage({ memory: { startLatencyMs: 5_000, readyAfterMs: 5_000 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await scene.clock.until(async () => (await fleet.servers.list()).length === 1)
    const { metadata } = only(await fleet.servers.list())
    await fleet.servers.reserve(metadata, { forMs: minute })
    await scene.clock.advance(30_000)
    expect(await fleet.servers.list()).toHaveLength(2)
    expect((await fleet.allocate(ask(1))).server.name).not.toBe(metadata.name)
    expect((await fleet.servers.get(metadata)).status.state).toBe('StandingBy')
  })

  it('is refused for a server with a session, a terminating one and a draining build', async () => {
    const { scene, fleet, first, second } = await running()
    await fleet.allocate(ask(1))
    const busy = (await playing(scene, fleet, 1)).ref
    expect(await failureOf(fleet.servers.reserve(busy, { forMs: minute }))).toEqual(
      expect.objectContaining({
        code: 'in-use',
        message: `server default/${busy.name} has a session, so it cannot be reserved; only idle servers can`,
      }),
    )
    const idle = busy.name === first.name ? second : first
    await fleet.servers.delete(idle)
    expect(await failureOf(fleet.servers.reserve(idle, { forMs: minute }))).toMatchObject({ code: 'not-found' })
    await scene.clock.advance(40_000)
    const [other] = await serversBy(fleet, 'StandingBy')
    fleet.builds.drain('arena').catch(() => {})
    await scene.clock.until(async () => (await statusOf(fleet)).conditions !== undefined)
    expect(await failureOf(fleet.servers.reserve(other?.metadata ?? '', { forMs: minute }))).toMatchObject({
      code: expect.stringMatching(/^(draining|not-found)$/),
    })
  })

  it.each([0, -1, 1.5, week + 1, '60', undefined])('of %s ms is refused, and the error names forMs', async (forMs) => {
    const { fleet, first } = await running()
    expect(await failureOf(fleet.servers.reserve(first, { forMs } as never))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('forMs'),
    })
    await expect(fleet.servers.reserve(first, { forMs: week })).resolves.toBeDefined()
  })
})

describe('a request that names a server', () => {
  it('gets it although it is reserved, which ends the reservation', async () => {
    const { scene, fleet, first } = await running()
    await fleet.servers.reserve(first, { forMs: minute })
    const request = { server: first, sessionID: session(1), labels: { cup: 'final' } }
    expect(await fleet.allocate(request)).toMatchObject({ server: { name: first.name } })
    const { metadata, status } = await fleet.servers.get(first)
    expect(metadata.labels).toEqual({ cup: 'final' })
    expect(status).not.toHaveProperty('reservedUntil')
    expect(await fleet.allocate(request)).toMatchObject({ server: { name: first.name } })
    expect(scene.eventsOf('Allocated')).toHaveLength(1)
  })

  it('gets it although it is not reserved, and no other', async () => {
    const { fleet, second } = await running()
    expect(await fleet.allocate({ server: second, sessionID: session(1) })).toMatchObject({
      server: { name: second.name },
    })
    expect(await failureOf(fleet.allocate({ server: second, sessionID: session(2) }, { waitMs: minute }))).toEqual(
      expect.objectContaining({
        code: 'none-standing-by',
        message: `server default/${second.name} cannot be allocated to this request: it has a session`,
      }),
    )
  })

  it('gets the server that its session has already', async () => {
    const { fleet, first, second } = await running()
    await fleet.allocate({ server: first, sessionID: session(1) })
    expect(await fleet.allocate({ server: second, sessionID: session(1) })).toMatchObject({
      server: { name: first.name },
    })
  })

  it('is refused if there is no such server, its data do not fit, or it says which goes first', async () => {
    const { fleet, first } = await running()
    const request = { server: first, sessionID: session(1) }
    expect(await failureOf(fleet.allocate({ ...request, server: { name: 'arena-nobody' } }))).toMatchObject({
      code: 'not-found',
    })
    expect(await failureOf(fleet.allocate({ ...request, counters: { rooms: { increment: 1 } } }))).toMatchObject({
      code: 'none-standing-by',
      message: expect.stringContaining('rooms'),
    })
    expect(await failureOf(fleet.allocate({ ...request, order: { by: 'newest' } }))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('order'),
    })
    // @ts-expect-error: both a server and a build
    expect(await failureOf(fleet.allocate({ ...request, buildID: 'arena' }))).toMatchObject({ code: 'invalid' })
  })
})
