/** Sizes: what callers, games and backends may make a host store or repeat, and builds that were stored with other limits. */
import type { Build, FleetEvent, Store } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { answerText } from '../../src/agent/answer-text.js'
import { sizeLimits, utf8Bytes } from '../../src/rules/model/sizes.js'
import { sharedMemory } from '../stores/shared-memory.js'
import { aBuild, ask, failureOf, only, playing, stage, statusOf, untilReady } from './stage.js'

const bombed = {
  spec: {
    containers: [
      {
        name: 'game',
        env: [
          { name: 'A0', value: 'x'.repeat(1_024) },
          ...Array.from({ length: 22 }, (_, i) => ({ name: `A${i + 1}`, value: `$(A${i})$(A${i})` })),
        ],
      },
    ],
  },
}
const openedDollars = { spec: { containers: [{ name: 'game', args: ['$('.repeat(200_000)] }] } }
const nested = (levels: number): object => (levels === 0 ? {} : { a: nested(levels - 1) })
const deep = { spec: { containers: [{ name: 'game' }], affinity: nested(3_000) } }

const at = 'spec.template.spec.containers[0]'
const broken = [
  ['variables that double', { template: bombed }, `${at}.env[6].value must expand to at most 32768 bytes`],
  [
    'a huge argument',
    { template: openedDollars },
    `${at}.args[0] must have at most 65536 bytes of UTF-8, but has 400000`,
  ],
  ['a NUL', { template: { spec: { containers: [{ command: ['a\0b'] }] } } }, `${at}.command[0] must have no control`],
  ['a template that is too deep', { template: deep }, 'spec.template must be plain JSON, at most 64 levels deep'],
  [
    'huge metadata',
    { buildMetadata: { map: 'é'.repeat(40_000) } },
    'spec.buildMetadata must have at most 65536 bytes of UTF-8, but has 80003',
  ],
] as const

async function opened(options: Parameters<typeof stage>[0] = {}) {
  const scene = stage(options)
  return { scene, fleet: await scene.open() }
}

async function matched() {
  const { scene, fleet } = await opened()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 3 }))
  await untilReady(scene, fleet, 1)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  return { scene, fleet, server: await playing(scene, fleet, 1) }
}

describe('a build', () => {
  it.each(broken)(
    'is refused with %s, naming the field, when it is created and when it is updated',
    async (_, spec, what) => {
      const { scene, fleet } = await opened()
      const { code, message } = await failureOf(
        fleet.builds.create({ ...aBuild(), spec: { ...aBuild().spec, ...spec } }),
      )
      expect([code, message.slice(0, what.length)]).toEqual(['invalid', what])
      expect(utf8Bytes(message)).toBeLessThan(sizeLimits.messageBytes)
      await fleet.builds.create(aBuild())
      expect((await failureOf(fleet.builds.update('arena', spec))).message.slice(0, what.length)).toBe(what)
      expect(only(await scene.records.builds.list()).record.spec).toEqual(aBuild().spec)
    },
  )

  it('may have max 100,000, and more only if limits.maxServersPerBuild is raised', async () => {
    const { fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 100_000 }))
    const told = (field: string, max: number) =>
      `${field} must be at most limits.maxServersPerBuild, which is 100000, but is ${max}`
    const tooMany = aBuild({ name: 'other', standingBy: 0, max: 100_001 })
    expect(await failureOf(fleet.builds.create(tooMany))).toMatchObject({
      code: 'invalid',
      message: told('spec.max', 100_001),
    })
    expect((await failureOf(fleet.builds.patch('arena', { max: 2 ** 40 }))).message).toBe(told('max', 2 ** 40))
    expect((await failureOf(fleet.builds.update('arena', { max: 2 ** 40 }))).message).toBe(told('spec.max', 2 ** 40))
    const { fleet: larger } = await opened({ limits: { maxServersPerBuild: 2_000_000 } })
    expect((await larger.builds.create(aBuild({ standingBy: 0, max: 2_000_000 }))).spec.max).toBe(2_000_000)
  })
})

/** Stores a build and a Pending server of it, as a host with other limits may have left them. */
async function storeOld(records: Store, name: string, spec: object) {
  const record: Build = {
    ...{ namespace: 'default', name, uid: `uid-${name}`, createdAt: 0, crashes: 0, countedCrashes: [], conditions: [] },
    spec: { ...aBuild({ name, standingBy: 1 }).spec, ...spec },
  }
  await records.builds.create(record)
  await records.servers.create({
    ...{ namespace: 'default', name: `${name}-aaaaa`, uid: 'old', token: '6f1c', build: name, buildUid: record.uid },
    ...{ templateHash: '00000000000000', createdAt: 0, state: 'Pending', health: 'Unknown', sessions: [] },
  })
}

describe('a stored build that breaks a limit', () => {
  it.each(broken)('because of %s is Invalid, disturbs no other build, and can be deleted', async (_, spec, what) => {
    const scene = stage()
    await storeOld(scene.records, 'old', spec)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2 }))
    await untilReady(scene, fleet, 2)
    expect(await fleet.allocate(ask(1))).toMatchObject({ SessionID: ask(1).sessionID })
    await scene.clock.advance(120_000)
    const condition = only((await statusOf(fleet, 'old')).conditions ?? [])
    expect(condition).toMatchObject({ type: 'Invalid', message: expect.stringContaining(what) })
    expect(scene.calls.filter(({ method }) => method === 'create').map(({ ref }) => ref?.name)).not.toContain(
      'old-aaaaa',
    )
    expect((await fleet.servers.get('old-aaaaa')).status).toMatchObject({
      state: 'Pending',
      message: condition.message,
    })
    expect((await fleet.builds.patch('old', { standingBy: 0 })).spec.standingBy).toBe(0)
    await fleet.builds.delete('old')
    await scene.clock.until(async () =>
      (await scene.records.servers.list()).every(({ record }) => record.build !== 'old'),
    )
    expect((await scene.records.builds.list()).map(({ record }) => record.name)).toEqual(['arena'])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentActive: 1 })
  })

  it('keeps its matches and its ready servers, which can be allocated, and continues once it is updated', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 5 }))
    await untilReady(scene, fleet, 2)
    await fleet.allocate(ask(1))
    await untilReady(scene, fleet, 2)
    await fleet.close()
    const { record, revision } = only(await scene.records.builds.list())
    await scene.records.builds.update({ ...record, spec: { ...record.spec, template: bombed } }, revision)
    const next = await scene.open()
    await scene.clock.advance(60_000)
    expect(only((await statusOf(next)).conditions ?? []).type).toBe('Invalid')
    expect(await statusOf(next)).toMatchObject({ currentActive: 1, currentStandingBy: 2 })
    await next.allocate(ask(2))
    await scene.clock.advance(5_000)
    expect(await statusOf(next)).toMatchObject({ currentActive: 2, currentStandingBy: 1, currentPending: 0 })
    await next.builds.update('arena', { template: aBuild().spec.template })
    await untilReady(scene, next, 2)
    expect((await statusOf(next)).conditions).toBeUndefined()
    expect((await statusOf(next)).currentActive).toBe(2)
  })

  it('because of its max gets as many servers as the limit allows', async () => {
    const scene = stage({ limits: { maxServersPerBuild: 3 } })
    await storeOld(scene.records, 'old', { standingBy: 9, max: 10 })
    const fleet = await scene.open()
    await untilReady(scene, fleet, 3, 'old')
    expect(only((await statusOf(fleet, 'old')).conditions ?? [])).toMatchObject({
      type: 'Clamped',
      message: 'max 10 exceeds limits.maxServersPerBuild 3; 3 is used',
    })
    expect((await fleet.builds.patch('old', { standingBy: 1 })).spec).toMatchObject({ standingBy: 1, max: 10 })
    await fleet.builds.delete('old')
  })

  it('harms nobody either if it is edited in a shared store', async () => {
    const memory = sharedMemory()
    const others = memory.open()
    const scene = stage()
    const fleet = await scene.open({ store: memory.open() })
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(scene, fleet, 1)
    for (const [i, [, spec, what]] of broken.entries()) {
      await storeOld(others, `old-${i}`, spec)
      await scene.clock.advance(5_000)
      const { conditions = [] } = await statusOf(fleet, `old-${i}`)
      expect(only(conditions)).toMatchObject({ type: 'Invalid', message: expect.stringContaining(what) })
      await fleet.builds.delete(`old-${i}`)
    }
    await fleet.allocate(ask(1))
    await untilReady(scene, fleet, 1)
  })
})

describe('a session', () => {
  const tooLong = 'é'.repeat(sizeLimits.sessionCookieBytes / 2 + 1)
  const players = (count: number, bytes: number) => Array<string>(count).fill('x'.repeat(bytes))
  it.each([
    ['sessionCookie', { sessionCookie: tooLong }, 'must have at most 32768 bytes of UTF-8, but has 32770'],
    ['initialPlayers', { initialPlayers: players(1_001, 1) }, 'must have at most 1000 items, but has 1001'],
    ['initialPlayers', { initialPlayers: players(257, 256) }, 'must have at most 65536 bytes of UTF-8, but has 65792'],
    ['initialPlayers[0]', { initialPlayers: players(1, 257) }, 'must have at most 256 bytes of UTF-8, but has 257'],
  ])('is refused for too large %s %#', async (field, request, what) => {
    const { fleet } = await matched()
    expect(await failureOf(fleet.allocate({ ...ask(2), ...request }))).toMatchObject({
      code: 'invalid',
      message: `${field} ${what}`,
    })
  })

  it('of the largest size makes answers of less than 600 KB, whatever its characters', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await untilReady(scene, fleet, 3)
    for (const [n, unit] of ['x', 'é', '\u0001'].entries()) {
      const bytes = utf8Bytes(unit)
      const sessionCookie = unit.repeat(sizeLimits.sessionCookieBytes / bytes)
      const initialPlayers = Array<string>(256).fill(unit.repeat(256 / bytes))
      await fleet.allocate({ ...ask(n + 1), sessionCookie, initialPlayers })
      await scene.clock.advance(2_000)
      const { answer, session } = await playing(scene, fleet, n + 1)
      expect(session).toMatchObject({ sessionCookie, initialPlayers })
      if (answer === undefined) throw new Error('the game has no answer')
      expect(answerText(answer).length).toBeLessThan(600_000)
    }
  })
})

describe('what a game reports', () => {
  it('is cut to the first players that the limits allow, once and for good', async () => {
    const { scene, fleet, server } = await matched()
    const ids = (prefix: string) => Array.from({ length: 6_000 }, (_, i) => `${prefix}${i}`)
    for (let beat = 0; beat < 5; beat++) server.players(ids('p'))
    await scene.clock.advance(2_000)
    const kept = ids('p').slice(0, sizeLimits.reportedPlayers)
    expect((await fleet.details.get(server.ref)).spec).toEqual({ connectedPlayersCount: 5_000, connectedPlayers: kept })
    expect((await scene.records.details.get(server.ref))?.record.players).toEqual(kept)
    expect(scene.eventsOf('PlayersChanged')).toHaveLength(1)
  })
})

describe('messages', () => {
  const long = 'é'.repeat(100_000)
  const stringsIn = (value: unknown): readonly string[] =>
    typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : [String(value)]

  it('of a backend are cut in events, conditions and the status of servers', async () => {
    const { scene, fleet } = await opened({
      memory: { script: () => ({ startsAfterMs: 3_600_000, pendingReason: long }) },
    })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await scene.clock.advance(70_000)
    const texts = stringsIn([scene.events, await statusOf(fleet), await fleet.servers.list()])
    for (const text of texts) expect(utf8Bytes(text)).toBeLessThanOrEqual(sizeLimits.messageBytes + 200)
    expect(texts.some((text) => text.includes('éé') && text.endsWith('…'))).toBe(true)
  })

  it('and lists about a build are cut in events', async () => {
    const { scene, fleet } = await opened()
    const names = Array.from({ length: 2_000 }, (_, i) => `port-${i}`)
    const ports = names.map((name, i) => ({ name, containerPort: i + 1, hostPort: i + 1 }))
    const template = { spec: { containers: [{ name: 'game', ports }] } }
    const spec = {
      ...aBuild({ standingBy: 0, portsToExpose: ports.map(({ containerPort }) => containerPort) }).spec,
      template,
    }
    await fleet.builds.create({
      ...aBuild(),
      spec: { ...spec, buildMetadata: Object.fromEntries(names.map((name) => [name, ''])) },
    })
    const sizes = scene.events.map((event: FleetEvent) => utf8Bytes(JSON.stringify(event)))
    expect(Math.max(...sizes)).toBeLessThan(4 * sizeLimits.messageBytes)
    expect(only(scene.eventsOf('MetadataKeysReserved')).keys[0]).toBe('port-0')
  })
})
