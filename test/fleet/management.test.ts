/** Builds and servers through the facade: validation, representation, durability. */
import { minimalBuild } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, stage, type StageOptions, statusOf, untilReady } from './stage.js'

async function opened(options: StageOptions = {}) {
  const scene = stage(options)
  return { scene, fleet: await scene.open() }
}

describe('creating a build', () => {
  it('returns the stored build, including all counters', async () => {
    const { fleet } = await opened({ memory: { createLatencyMs: 1_000 } })
    const input = aBuild({ standingBy: 0, max: 3, crashesToMarkUnhealthy: 5, buildMetadata: { map: 'dust,2?a=b' } })
    expect(await fleet.builds.create(input)).toEqual({
      apiVersion: 'mps.gamekeeper.com/v1alpha1',
      kind: 'GameServerBuild',
      metadata: { name: 'arena', namespace: 'default', creationTimestamp: '2025-01-01T00:00:00.000Z' },
      spec: input.spec,
      status: {
        currentActive: 0,
        currentStandingBy: 0,
        crashesCount: 0,
        currentPending: 0,
        currentInitializing: 0,
        health: 'Healthy',
        currentStandingByReadyDesired: '0/0',
      },
    })
  })

  it('is durable when it resolves', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild())
    expect(only(await scene.records.builds.list()).record).toMatchObject({ name: 'arena', crashes: 0 })
  })

  it('ignores a status in the request', async () => {
    const { fleet } = await opened()
    const given = { ...aBuild({ standingBy: 0 }), status: { currentActive: 7, crashesCount: 9, health: 'Unhealthy' } }
    expect((await fleet.builds.create(given)).status).toMatchObject({ currentActive: 0, crashesCount: 0 })
  })

  it.each([
    ['spec.standingBy', aBuild({ standingBy: 3, max: 2 }), /standingBy is 3 and max is 2/],
    ['spec.max', aBuild({ standingBy: 0, max: -1 }), /integer ≥ 0/],
    ['metadata.name', aBuild({ name: 'Arena' }), /RFC 1123/],
    ['metadata.name', aBuild({ name: 'a'.repeat(58) }), /1 to 57/],
    ['spec.buildID', aBuild({ buildID: '' }), /1 to 128/],
    ['spec.portsToExpose[1]', aBuild({ portsToExpose: [7777, 7777] }), /repeat/],
    ['spec.crashesToMarkUnhealthy', aBuild({ crashesToMarkUnhealthy: 0 }), /≥ 1/],
  ])('rejects an invalid %s and names the field', async (field, input, what) => {
    const { scene, fleet } = await opened()
    const { code, message } = await failureOf(fleet.builds.create(input))
    expect([code, message.startsWith(field)]).toEqual(['invalid', true])
    expect(message).toMatch(what)
    expect(await scene.records.builds.list()).toEqual([])
  })

  it('rejects a duplicate name, and a duplicate buildID in any namespace', async () => {
    const { fleet } = await opened()
    await fleet.builds.create(aBuild())
    expect((await failureOf(fleet.builds.create(aBuild({ buildID: 'other' })))).code).toBe('exists')
    const other = await failureOf(fleet.builds.create(aBuild({ name: 'duel', namespace: 'games', buildID: 'arena' })))
    expect([other.code, other.message]).toEqual([
      'exists',
      'spec.buildID "arena" is already used by build default/arena',
    ])
  })

  it('creates one build when calls run concurrently', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'delay-reply', ms: 500 } : undefined)
    const calls = Promise.allSettled([
      fleet.builds.create(aBuild()),
      fleet.builds.create(aBuild()),
      fleet.builds.create(aBuild({ name: 'duel', buildID: 'arena' })),
    ])
    await scene.clock.advance(1_000)
    expect((await calls).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect((await fleet.builds.list()).length).toBe(1)
    scene.faults.store = () => undefined
    expect((await fleet.builds.create(aBuild({ name: 'duel' }))).spec.buildID).toBe('duel')
  })

  it('succeeds if only the store’s response is lost', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'lose-reply' } : undefined)
    await fleet.builds.create(aBuild())
    await untilReady(scene, fleet, 2)
    expect((await scene.records.builds.list()).length).toBe(1)
  })

  it('has no effect if the store rejects it, and can be retried', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'refuse' } : undefined)
    expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('unavailable')
    expect(await fleet.builds.list()).toEqual([])
    scene.faults.store = () => undefined
    await fleet.builds.create(aBuild())
    await untilReady(scene, fleet, 2)
  })

  describe('when the write succeeded but its response and read-back were lost', () => {
    async function lost() {
      const { scene, fleet } = await opened()
      scene.faults.store = ({ method }) =>
        method === 'builds.create' ? { kind: 'lose-reply' } : method === 'builds.get' ? { kind: 'refuse' } : undefined
      expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('unavailable')
      return { scene, fleet }
    }

    it('is detected by the resync, and the build can be deleted', async () => {
      const { scene, fleet } = await lost()
      await scene.clock.advance(120_000)
      expect(await fleet.builds.list()).toEqual([])
      scene.faults.store = () => undefined
      await scene.clock.advance(60_000)
      await untilReady(scene, fleet, 2)
      await fleet.builds.delete('arena')
      expect(await scene.records.builds.list()).toEqual([])
      expect(await fleet.builds.list()).toEqual([])
    })

    it('makes the next attempt fail with exists', async () => {
      const { scene, fleet } = await lost()
      expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('unavailable')
      scene.faults.store = () => undefined
      expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('exists')
      expect((await fleet.builds.get('arena')).spec.max).toBe(10)
      await untilReady(scene, fleet, 2)
    })

    it('reserves its buildID', async () => {
      const { scene, fleet } = await lost()
      scene.faults.store = () => undefined
      expect((await failureOf(fleet.builds.create(aBuild({ name: 'duel', buildID: 'arena' })))).code).toBe('exists')
      expect(only(await fleet.builds.list()).metadata.name).toBe('arena')
    })
  })

  it('takes effect even if its write succeeds after the call fails', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'delay-effect', ms: 5_000 } : undefined)
    expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('unavailable')
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    await untilReady(scene, fleet, 2)
  })

  it('fails with exists if another writer takes the name, and shows that build', async () => {
    const { scene, fleet } = await opened()
    await scene.records.builds.create({ ...minimalBuild({ namespace: 'default', name: 'arena' }) })
    expect((await failureOf(fleet.builds.create(aBuild()))).code).toBe('exists')
    await fleet.builds.delete('arena')
    await fleet.builds.create(aBuild())
    await untilReady(scene, fleet, 2)
  })

  it('copies its input, so later changes to the input have no effect', async () => {
    const { fleet } = await opened()
    const input = aBuild({ standingBy: 0, buildMetadata: { map: 'dust' } })
    await fleet.builds.create(input)
    Object.assign(input.spec, { max: 1_000 })
    Object.assign(input.spec.template.spec, { containers: [] })
    expect((await fleet.builds.get('arena')).spec).toEqual(
      aBuild({ standingBy: 0, buildMetadata: { map: 'dust' } }).spec,
    )
  })
})

describe('build metadata with keys that GSDK clients use for their own settings', () => {
  it('is reported once at creation, and once more when the keys change', async () => {
    const { scene, fleet } = await opened()
    const reported = () => scene.eventsOf('MetadataKeysReserved').map(({ build, keys }) => [build.name, ...keys])
    const buildMetadata = { map: 'dust', region: 'west', port_7777: '32400', SessionId: 'x' }
    await fleet.builds.create(aBuild({ buildMetadata }))
    expect(reported()).toEqual([['arena', 'region', 'port_7777', 'SessionId']])
    expect(scene.eventsOf('MetadataKeysReserved')[0]?.message).toBe(
      'build metadata has keys that the GSDK clients use for their own settings: region, port_7777, SessionId; games read the setting instead, so rename these keys',
    )
    await fleet.builds.update('arena', { max: 9 })
    await fleet.builds.update('arena', { buildMetadata: { ...buildMetadata, map: 'mill', region: 'east' } })
    expect(reported()).toHaveLength(1)
    await fleet.builds.update('arena', { buildMetadata: { map: 'mill', titleId: 'x' } })
    expect(reported()[1]).toEqual(['arena', 'titleId'])
    await fleet.builds.update('arena', { buildMetadata: { map: 'mill' } })
    expect(reported()).toHaveLength(2)
  })

  it('is reported once if the reply to the creation of its record is lost', async () => {
    const { scene, fleet } = await opened()
    scene.faults.store = ({ method }) => (method === 'builds.create' ? { kind: 'lose-reply' } : undefined)
    await fleet.builds.create(aBuild({ buildMetadata: { region: 'west' } }))
    expect(scene.eventsOf('MetadataKeysReserved').map(({ keys }) => keys)).toEqual([['region']])
  })

  it('is not reported if no key is in use', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ buildMetadata: { map: 'dust' } }))
    expect(scene.eventsOf('MetadataKeysReserved')).toEqual([])
  })
})

describe('patching a build', () => {
  it.each([
    ['standingBy alone', { standingBy: 4 }, { standingBy: 4, max: 10 }],
    ['max alone', { max: 3 }, { standingBy: 2, max: 3 }],
    ['both', { standingBy: 0, max: 1 }, { standingBy: 0, max: 1 }],
  ])('changes only %s', async (_, change, after) => {
    const { scene, fleet } = await opened()
    const before = await fleet.builds.create(aBuild({ crashesToMarkUnhealthy: 3, buildMetadata: { map: 'dust' } }))
    expect((await fleet.builds.patch('arena', change)).spec).toEqual({ ...before.spec, ...after })
    expect(only(await scene.records.builds.list()).record.spec).toEqual({ ...before.spec, ...after })
  })

  it.each([
    ['nothing', {}, 'the change must set at least one of'],
    ['another field', { standingBy: 1, buildID: 'other' }, 'buildID'],
    ['a fraction', { standingBy: 1.5 }, 'standingBy'],
    ['a number below 0', { max: -1 }, 'max'],
    ['standingBy above the current max', { standingBy: 11 }, 'standingBy'],
    ['max below the current standingBy', { max: 1 }, 'standingBy'],
  ])('rejects %s and changes nothing', async (_, change, field) => {
    const { fleet } = await opened()
    const before = await fleet.builds.create(aBuild())
    const { code, message } = await failureOf(fleet.builds.patch('arena', change))
    expect([code, message.startsWith(field)]).toEqual(['invalid', true])
    expect((await fleet.builds.get('arena')).spec).toEqual(before.spec)
  })

  it('keeps standingBy ≤ max when patches run concurrently', async () => {
    const { fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 10 }))
    const calls = await Promise.allSettled([
      fleet.builds.patch('arena', { standingBy: 8 }),
      fleet.builds.patch('arena', { max: 5 }),
    ])
    expect(calls.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect((await fleet.builds.get('arena')).spec).toMatchObject({ standingBy: 8, max: 10 })
  })

  it('does not lose crashes that are counted concurrently', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 5, max: 10 }))
    await untilReady(scene, fleet, 5)
    for (const server of scene.backend.servers()) server.exit(1)
    await Promise.all([4, 3, 2].map((standingBy) => fleet.builds.patch('arena', { standingBy })))
    await scene.clock.advance(10_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 5, currentStandingByReadyDesired: '2/2' })
  })

  it('has no effect if the store rejects it', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(scene, fleet, 1)
    scene.faults.store = ({ method }) => (method === 'builds.update' ? { kind: 'refuse' } : undefined)
    expect((await failureOf(fleet.builds.patch('arena', { standingBy: 5 }))).code).toBe('unavailable')
    await scene.clock.advance(60_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingByReadyDesired: '1/1' })
  })
})

describe('a missing resource', () => {
  it('is reported as not-found', async () => {
    const { fleet } = await opened()
    for (const call of [
      fleet.builds.get('arena'),
      fleet.builds.patch('arena', { max: 1 }),
      fleet.builds.delete('arena'),
      fleet.servers.get('arena-aaaaa'),
      fleet.servers.delete('arena-aaaaa'),
      fleet.servers.list({ build: 'arena' }),
      fleet.details.get('arena-aaaaa'),
      fleet.details.ofBuild('arena'),
    ]) {
      expect((await failureOf(call)).code).toBe('not-found')
    }
    expect([await fleet.builds.list(), await fleet.servers.list()]).toEqual([[], []])
  })
})

describe('namespaces', () => {
  it('separate builds that have the same name, along with their servers, lists, and details', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await fleet.builds.create(aBuild({ namespace: 'games', buildID: 'arena-games', standingBy: 2 }))
    await scene.clock.settle()
    const games = { namespace: 'games', name: 'arena' }
    expect((await fleet.builds.get(games)).status.currentStandingBy).toBe(2)
    expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(1)
    const listed = await fleet.servers.list({ build: games })
    expect(listed.map(({ metadata }) => metadata.namespace)).toEqual(['games', 'games'])
    expect((await fleet.servers.list({ build: 'arena' })).length).toBe(1)
    expect((await fleet.servers.list()).length).toBe(3)
    await fleet.allocate(ask(1, { buildID: 'arena-games' }))
    expect((await playing(scene, fleet, 1)).ref.namespace).toBe('games')
    await fleet.builds.delete('arena')
    await scene.clock.advance(60_000)
    expect((await fleet.servers.list()).every(({ metadata }) => metadata.namespace === 'games')).toBe(true)
    expect((await failureOf(fleet.servers.get(only(listed.slice(0, 1)).metadata.name))).code).toBe('not-found')
  })

  it('survive a restart', async () => {
    const { scene, fleet } = await opened()
    const games = { namespace: 'games', name: 'arena' }
    await fleet.builds.create(aBuild({ namespace: 'games', standingBy: 2 }))
    await fleet.builds.create(aBuild({ buildID: 'other', standingBy: 1 }))
    await scene.clock.settle()
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(60_000)
    expect((await next.builds.get(games)).status).toMatchObject({ currentStandingBy: 2 })
    expect(scene.backend.servers().length).toBe(3)
  })
})

describe('a server resource', () => {
  it('has its address, ports, and times, and its session while Active', async () => {
    const { scene, fleet } = await opened({ memory: { nodes: ['north'] } })
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1, portsToExpose: [7778, 7777] }))
    await untilReady(scene, fleet, 1)
    const server = only(scene.backend.servers())
    const [first, second] = server.instance.ports
    const status = {
      state: 'StandingBy',
      health: 'Healthy',
      publicIP: '127.0.0.1',
      ports: `7778:${first?.public},7777:${second?.public}`,
      nodeName: 'north',
      reachedInitializingOn: '2025-01-01T00:00:00.000Z',
      reachedStandingByOn: '2025-01-01T00:00:00.000Z',
    }
    expect((await fleet.servers.get(server.ref)).status).toEqual(status)
    await scene.clock.advance(5_000)
    const { SessionID } = await fleet.allocate(ask(1))
    expect((await fleet.servers.get(server.ref)).status).toEqual({
      ...status,
      state: 'Active',
      sessionID: SessionID,
      reachedActiveOn: '2025-01-01T00:00:05.000Z',
    })
  })

  it('never contains its secret token', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild())
    await untilReady(scene, fleet, 2)
    await fleet.allocate(ask(1))
    const secrets = (await scene.records.servers.list()).map(({ record }) => record.token)
    const shown = JSON.stringify([await fleet.servers.list(), await fleet.builds.list(), scene.events])
    for (const secret of secrets) expect(shown).not.toContain(secret)
  })
})

describe('a call whose signal has already fired', () => {
  it('rejects with aborted and has no effect', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ standingBy: 1 }))
    await untilReady(scene, fleet, 1)
    const server = only(scene.backend.servers()).ref
    const signal = AbortSignal.abort()
    const before = scene.calls.length
    for (const call of [
      fleet.builds.create(aBuild({ name: 'duel' }), { signal }),
      fleet.builds.get('arena', { signal }),
      fleet.builds.list({ signal }),
      fleet.builds.patch('arena', { standingBy: 0 }, { signal }),
      fleet.builds.delete('arena', { signal }),
      fleet.servers.get(server, { signal }),
      fleet.servers.list({ signal }),
      fleet.servers.delete(server, { signal }),
      fleet.details.get(server, { signal }),
      fleet.details.ofBuild('arena', { signal }),
      fleet.allocate(ask(1), { signal }),
      fleet.drain({ signal }),
    ]) {
      expect((await failureOf(call)).code).toBe('aborted')
    }
    await scene.clock.advance(1_000)
    expect(scene.calls.length).toBe(before)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingByReadyDesired: '1/1' })
  })
})
