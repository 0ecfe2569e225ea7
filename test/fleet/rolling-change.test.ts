/** `builds.update`: rolling updates replace idle servers a few at a time, never Active ones; a rollback is another update. */
import { describe, expect, it } from 'vitest'
import { type BuildUpdate, type Fleet, FleetError, type InstanceSpec } from 'gamekeeper'
import type { ServerScript } from 'gamekeeper/memory'
import { aBuild, ask, failureOf, nth, playing, serversBy, type Stage, stage, statusOf, untilReady } from './stage.js'

const template = (image: string) => ({ spec: { containers: [{ name: 'game', image }] } })

async function begun(s: Stage, overrides: { standingBy: number; max: number }): Promise<Fleet> {
  const fleet = await s.open()
  const build = aBuild(overrides)
  await fleet.builds.create({ ...build, spec: { ...build.spec, template: template('one') } })
  await untilReady(s, fleet, overrides.standingBy)
  return fleet
}

const imagesOf = (s: Stage) =>
  s.backend
    .servers()
    .map(({ spec }) => JSON.stringify(spec.template).includes('"two"'))
    .reduce((sum, two) => (two ? { ...sum, two: sum.two + 1 } : { ...sum, one: sum.one + 1 }), { one: 0, two: 0 })

describe('a rolling update', () => {
  it('replaces every idle server and no Active server', async () => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 4, max: 10 })
    await fleet.allocate(ask(1))
    await untilReady(s, fleet, 4)
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.until(() => imagesOf(s).one === 1 && imagesOf(s).two === 4)
    await s.clock.advance(60_000)
    expect(imagesOf(s)).toEqual({ one: 1, two: 4 })
    expect(await serversBy(fleet, 'Active')).toMatchObject([{ status: { sessionID: ask(1).sessionID } }])
    expect(await statusOf(fleet)).toMatchObject({ rollout: { updated: 4, outdated: 1 }, crashesCount: 0 })
  })

  it('does not replace a server created before the update but started after it', async () => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 0, max: 4 })
    s.faults.store = ({ method }) => (method === 'servers.create' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await s.clock.advance(500)
    await fleet.builds.update('arena', { template: template('two') })
    await untilReady(s, fleet, 2)
    await s.clock.advance(60_000)
    expect(imagesOf(s)).toEqual({ one: 0, two: 2 })
    expect(s.eventsOf('ServerEnding')).toEqual([])
  })

  it('applies its grace period to a server created before the update but started after it', async () => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 0, max: 4 })
    s.faults.store = ({ method }) => (method === 'servers.create' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await s.clock.advance(500)
    await fleet.builds.update('arena', { template: aBuild({ graceSeconds: 600 }).spec.template })
    await untilReady(s, fleet, 1)
    expect(await s.records.servers.list()).toMatchObject([{ record: { graceSeconds: 600 } }])
  })

  it('leaves nothing behind when rolled back while a start is failing', async () => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 0, max: 4 })
    s.faults.backend = ({ method }) => (method === 'create' ? { kind: 'refuse' } : undefined)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await s.clock.advance(500)
    await fleet.builds.update('arena', { template: template('two') })
    s.faults.backend = () => undefined
    await s.clock.advance(700)
    await fleet.builds.update('arena', { template: template('one') })
    await s.clock.advance(60_000)
    expect(imagesOf(s)).toEqual({ one: 1, two: 0 })
  })

  it('never exceeds max, and never drops below three quarters of standingBy', async () => {
    const s = stage({ memory: { startLatencyMs: 500, readyAfterMs: 500 } })
    const fleet = await begun(s, { standingBy: 8, max: 8 })
    await fleet.builds.update('arena', { template: template('two') })
    while ((await statusOf(fleet)).rollout) {
      const status = await statusOf(fleet)
      expect(status.currentPending + status.currentInitializing + status.currentStandingBy).toBeLessThanOrEqual(8)
      expect(status.currentStandingBy).toBeGreaterThanOrEqual(6)
      await s.clock.advance(100)
    }
    await s.clock.advance(2_000)
    expect(imagesOf(s)).toEqual({ one: 0, two: 8 })
  })

  describe('without a free port', () => {
    const portRange = { first: 10_000, last: 10_007 }

    it('goes on as ports of replaced servers come free, and keeps three quarters of standingBy', async () => {
      const s = stage({ memory: { portRange, startLatencyMs: 500, readyAfterMs: 500 } })
      const fleet = await begun(s, { standingBy: 8, max: 20 })
      await fleet.builds.update('arena', { template: template('two') })
      while ((await statusOf(fleet)).rollout) {
        expect((await statusOf(fleet)).currentStandingBy).toBeGreaterThanOrEqual(6)
        await s.clock.advance(100)
      }
      expect(s.clock.elapsed()).toBeLessThan(60_000)
      await s.clock.advance(1_000)
      expect(imagesOf(s)).toEqual({ one: 0, two: 8 })
      expect(await statusOf(fleet)).not.toHaveProperty('conditions')
    })

    it('goes on while matches hold some of the ports', async () => {
      const s = stage({ memory: { portRange } })
      const fleet = await begun(s, { standingBy: 4, max: 20 })
      for (const n of [1, 2, 3, 4]) await fleet.allocate(ask(n))
      await untilReady(s, fleet, 4)
      await fleet.builds.update('arena', { template: template('two') })
      await s.clock.advance(60_000)
      expect(imagesOf(s)).toEqual({ one: 4, two: 4 })
      expect(await statusOf(fleet)).toMatchObject({ currentActive: 4, currentStandingBy: 4 })
    })

    it('keeps all but one batch of the old servers if another build takes the ports that come free', async () => {
      const s = stage({ memory: { portRange } })
      const fleet = await begun(s, { standingBy: 8, max: 20 })
      await fleet.builds.create(aBuild({ name: 'greedy', standingBy: 8, max: 8 }))
      await s.clock.advance(1_000)
      await fleet.builds.update('arena', { template: template('two') })
      s.faults.backend = ({ method, ref }) =>
        method === 'create' && ref?.name.startsWith('arena')
          ? { kind: 'refuse', error: new FleetError('ports-exhausted', 'no port is free') }
          : undefined
      await s.clock.advance(1_800_000)
      const built = (build: string) => s.backend.servers({ build }).length
      expect({ arena: built('arena'), greedy: built('greedy') }).toEqual({ arena: 6, greedy: 2 })
    })
  })

  it('allocates servers of the new template first', async () => {
    const s = stage({ memory: { startLatencyMs: 1_000 } })
    const fleet = await begun(s, { standingBy: 4, max: 10 })
    await fleet.builds.update('arena', { template: template('two') })
    // The second batch starts when the first is ready. Most outdated servers are still standing by at that point.
    await s.clock.until(() => imagesOf(s).two === 2)
    expect(imagesOf(s).one).toBeGreaterThan(1)
    await fleet.allocate(ask(1))
    const { spec } = await playing(s, fleet, 1)
    expect(JSON.stringify(spec.template)).toContain('"two"')
  })

  it('stops if the new servers never become ready, and can be rolled back with another update', async () => {
    const s = stage({
      memory: {
        script: ({ template: given }) => (JSON.stringify(given).includes('"two"') ? { autoReady: false } : {}),
      },
    })
    const fleet = await begun(s, { standingBy: 4, max: 10 })
    const before = (await serversBy(fleet, 'StandingBy')).map((server) => server.metadata.name)
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(30_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4, rollout: { updated: 1, outdated: 4 } })
    expect((await serversBy(fleet, 'StandingBy')).map((server) => server.metadata.name)).toEqual(before)
    await fleet.builds.update('arena', { template: template('one') })
    await s.clock.advance(30_000)
    expect((await statusOf(fleet)).rollout).toBeUndefined()
    expect((await serversBy(fleet, 'StandingBy')).map((server) => server.metadata.name)).toEqual(before)
    expect(imagesOf(s)).toEqual({ one: 4, two: 0 })
  })

  const two = (script: ServerScript) => (spec: InstanceSpec) =>
    JSON.stringify(spec.template).includes('"two"') ? script : {}

  it.each([
    ['room', 20, 60_000],
    ['no room', 8, 60_000],
    ['no room, and longer to get ready than until a crash is forgiven', 8, 10_000],
  ])(
    'with %s keeps half of the outdated servers when the new ones become ready and then crash',
    async (_, max, backoffResetMs) => {
      const script = two({ exitsWith: 1, exitsAfterMs: 25_000 })
      const s = stage({ memory: { readyAfterMs: 20_000, script }, limits: { backoffResetMs } })
      const fleet = await begun(s, { standingBy: 8, max })
      await fleet.builds.update('arena', { template: template('two') })
      await s.clock.advance(1_800_000)
      expect((await statusOf(fleet)).crashesCount).toBeGreaterThan(10)
      expect(imagesOf(s).one).toBeGreaterThanOrEqual(4)
      s.crash()
      const next = await s.open()
      await s.clock.advance(600_000)
      expect(imagesOf(s).one).toBeGreaterThanOrEqual(4)
      await next.builds.update('arena', { template: template('one') })
      await s.clock.until(async () => imagesOf(s).one === 8 && (await statusOf(next)).currentStandingBy === 8)
    },
  )

  it('continues when a server of the new template stays up after a crash', async () => {
    let crashes = 0
    const script = (spec: InstanceSpec) => {
      const isBad = JSON.stringify(spec.template).includes('"two"') && crashes++ === 0
      return isBad ? { exitsWith: 1, exitsAfterMs: 10_000 } : {}
    }
    const s = stage({ memory: { readyAfterMs: 5_000, script } })
    const fleet = await begun(s, { standingBy: 8, max: 8 })
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(30_000)
    expect(imagesOf(s).one).toBeGreaterThan(0)
    await s.clock.advance(120_000)
    expect(imagesOf(s)).toEqual({ one: 0, two: 8 })
  })

  it('is not held up when an outdated server crashes', async () => {
    const s = stage({ memory: { readyAfterMs: 2_000 } })
    const fleet = await begun(s, { standingBy: 8, max: 8 })
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(3_000)
    s.backend
      .servers()
      .find(({ spec }) => JSON.stringify(spec.template).includes('"one"'))
      ?.exit(1)
    await s.clock.advance(30_000)
    expect(imagesOf(s)).toEqual({ one: 0, two: 8 })
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it.each([
    ['a match', true, 9],
    ['one server that stays up', false, 8],
  ])(
    'that keeps crashing does not replace more outdated servers because of %s on the new template',
    async (_, isPlayed, max) => {
      let started = 0
      const script = ({ template: of }: InstanceSpec) => {
        const isGood = !JSON.stringify(of).includes('"two"') || started++ === 0
        return isGood ? {} : { exitsWith: 1, exitsAfterMs: 25_000 }
      }
      const s = stage({ memory: { readyAfterMs: 20_000, script } })
      const fleet = await begun(s, { standingBy: 8, max })
      await fleet.builds.update('arena', { template: template('two') })
      if (isPlayed) {
        await s.clock.until(async () => (await statusOf(fleet)).rollout?.updated === 2)
        await s.clock.advance(20_000)
        await fleet.allocate(ask(1))
        expect(JSON.stringify((await playing(s, fleet, 1)).spec.template)).toContain('"two"')
      }
      await s.clock.advance(1_800_000)
      expect(imagesOf(s).one).toBeGreaterThanOrEqual(isPlayed ? 3 : 4)
    },
  )

  it('completes except for one server when a broken machine kills every server placed on it', async () => {
    let bad: string | undefined
    const script = ({ template: of, ref }: InstanceSpec) => {
      const isThere = bad !== undefined && s.backend.servers().some((server) => server.ref.name === bad)
      if (!JSON.stringify(of).includes('"two"') || isThere) return {}
      bad = ref.name
      return { exitsWith: 1, exitsAfterMs: 15_000 }
    }
    const s: Stage = stage({ memory: { readyAfterMs: 5_000, script } })
    const fleet = await begun(s, { standingBy: 8, max: 12 })
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(3_600_000)
    expect(imagesOf(s).one).toBeLessThanOrEqual(1)
    expect((await statusOf(fleet)).currentStandingBy).toBeGreaterThanOrEqual(8)
  })

  it('continues when one server hangs, another crashes, and leadership changes', async () => {
    let started = 0
    const script = ({ template: of }: InstanceSpec) => {
      if (!JSON.stringify(of).includes('"two"')) return {}
      started++
      if (started === 2) return { exitsWith: 1, exitsAfterMs: 8_000 }
      return started === 3 ? { autoReady: false } : {}
    }
    const s = stage({ memory: { readyAfterMs: 5_000, script } })
    const fleet = await begun(s, { standingBy: 8, max: 8 })
    await fleet.builds.update('arena', { template: template('two') })
    const runFor = async (seconds: number) => {
      for (let i = 0; i < seconds; i++) {
        for (const server of s.backend.servers()) {
          if (started >= 3 && server.state === 'Initializing' && server.phase === 'running') {
            server.heartbeat({ state: 'Initializing', health: 'Healthy' })
          }
        }
        await s.clock.advance(1_000)
      }
    }
    await runFor(45)
    await fleet.close()
    await s.open()
    await runFor(1_200)
    expect(imagesOf(s)).toEqual({ one: 0, two: 8 })
  })

  it('is rolled back at once even if a server of the old template crashed long ago', async () => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 4, max: 8 })
    await s.clock.advance(120_000)
    nth(s.backend.servers(), 0).exit(1)
    await s.clock.advance(3_600_000)
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.until(() => imagesOf(s).one === 0)
    await s.clock.advance(3_600_000)
    await fleet.builds.update('arena', { template: template('one') })
    await s.clock.advance(30_000)
    expect(imagesOf(s)).toEqual({ one: 4, two: 0 })
  })

  it('is held up by a crash even if the host dies before counting the crash', async () => {
    const s = stage({ memory: { readyAfterMs: 20_000 } })
    const fleet = await begun(s, { standingBy: 8, max: 8 })
    await s.clock.advance(120_000)
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(21_000)
    s.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'refuse' } : undefined)
    const two = s.backend.servers().find(({ spec }) => JSON.stringify(spec.template).includes('"two"'))
    two?.exit(1)
    await s.clock.advance(10)
    const before = imagesOf(s).one
    s.crash()
    s.faults.store = () => undefined
    expect(await s.records.builds.list()).toMatchObject([{ record: { conditions: [] } }])
    await s.open()
    await s.clock.advance(30_000)
    expect([imagesOf(s).one, before]).toEqual([4, 4])
    await s.clock.advance(300_000)
    expect(imagesOf(s).one).toBe(0)
  })

  it('keeps an allocatable outdated server while the new one is Unhealthy', async () => {
    const s = stage({ memory: { heartbeatIntervalMs: 0, script: two({ autoReady: false }) } })
    const fleet = await s.open()
    const { metadata, spec } = aBuild({ standingBy: 1, max: 4 })
    const health = { silenceSeconds: 3_000 }
    await fleet.builds.create({ metadata, spec: { ...spec, template: template('one'), health } })
    await untilReady(s, fleet, 1)
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.until(() => imagesOf(s).two === 1)
    const next = nth(s.backend.servers(), 1)
    next.heartbeat({ state: 'Initializing', health: 'Healthy' })
    next.heartbeat({ state: 'StandingBy', health: 'Unhealthy' })
    await s.clock.advance(1_000)
    expect(s.eventsOf('ServerEnding')).toEqual([])
    await fleet.allocate(ask(1))
    expect(JSON.stringify((await playing(s, fleet, 1)).spec.template)).toContain('"one"')
  })

  it('continues after a host restart', async () => {
    const s = stage({ memory: { startLatencyMs: 2_000 } })
    const fleet = await begun(s, { standingBy: 4, max: 5 })
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.advance(1_000)
    s.crash()
    await s.open()
    await s.clock.until(() => imagesOf(s).one === 0 && imagesOf(s).two === 4)
  })

  it('gives up one server for its port, also when the host restarts before the server has gone', async () => {
    const s = stage({
      memory: { portRange: { first: 10_000, last: 10_003 }, script: () => ({ ignoresTerminate: true }) },
    })
    const fleet = await begun(s, { standingBy: 4, max: 8 })
    await fleet.builds.update('arena', { template: template('two') })
    await s.clock.until(() => s.eventsOf('ServerEnding').length === 1)
    s.crash()
    const successor = await s.open()
    await s.clock.advance(10_000)
    expect(await statusOf(successor)).toMatchObject({ currentStandingBy: 3 })
    await s.clock.advance(600_000)
    expect(imagesOf(s)).toEqual({ one: 0, two: 4 })
  })

  it.each([
    ['another buildID', { buildID: 'other' }, 'spec.buildID'],
    ['an unknown field', { image: 'x' }, 'spec.image'],
    ['an invalid template', { template: {} }, 'spec.template.spec'],
    ['more standing by than max', { standingBy: 11 }, 'spec.standingBy'],
  ])('rejects %s', async (_, change, field) => {
    const s = stage()
    const fleet = await begun(s, { standingBy: 1, max: 10 })
    const bad: BuildUpdate = JSON.parse(JSON.stringify(change))
    const failure = await failureOf(fleet.builds.update('arena', bad))
    expect(failure.code).toBe('invalid')
    expect(failure.message).toContain(field)
    expect(await fleet.builds.get('arena')).toMatchObject({ spec: { standingBy: 1, template: template('one') } })
  })

  it('clears an optional field that is set to undefined, which makes an Unhealthy build Healthy', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, crashesToMarkUnhealthy: 1 }))
    await untilReady(s, fleet, 1)
    s.backend.servers()[0]?.exit(1)
    await s.clock.until(async () => (await statusOf(fleet)).health === 'Unhealthy')
    await s.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 0 })
    await fleet.builds.update('arena', { crashesToMarkUnhealthy: undefined })
    await untilReady(s, fleet, 1)
    expect(await statusOf(fleet)).toMatchObject({ health: 'Healthy', crashesCount: 1 })
  })
})
