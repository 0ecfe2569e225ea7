/** How the fleet responds to heartbeats. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, playing, session, stage, untilReady } from './stage.js'

const players = { players: [] as readonly string[] }

async function opened(overrides: Parameters<typeof aBuild>[0] = {}) {
  const scene = stage({ memory: { script: 'manual' } })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1, ...overrides }))
  await scene.clock.settle()
  return { scene, fleet, server: only(scene.backend.servers()) }
}

async function matched(overrides: Parameters<typeof aBuild>[0] = {}) {
  const all = await opened(overrides)
  all.server.ready()
  await all.fleet.allocate({
    ...ask(1, { sessionCookie: 'ночь, 夜?&="\\' }),
    initialPlayers: ['amie', 'bo'],
  })
  return all
}

const config = {
  sessionId: session(1),
  sessionCookie: 'ночь, 夜?&="\\',
  initialPlayers: ['amie', 'bo'],
}

describe('before a match', () => {
  it.each(['Initializing', 'StandingBy', 'Active', 'Invalid'] as const)(
    'the fleet responds to a heartbeat %s with Continue and no session',
    async (state) => {
      const { server } = await opened()
      expect(server.heartbeat({ state })).toEqual({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 })
    },
  )

  it('no answer contains a session that is not durable yet', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const call = fleet.allocate(ask(1))
    await scene.clock.advance(500)
    expect(server.heartbeat()).toEqual({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 })
    await scene.clock.advance(600)
    await call
    expect(server.heartbeat({ state: 'StandingBy' })).toMatchObject({ operation: 'Active' })
  })
})

describe('during a match', () => {
  it('the first StandingBy heartbeat gets Active and the complete session', async () => {
    const { server } = await matched()
    expect(server.heartbeat()).toEqual({
      operation: 'Active',
      nextHeartbeatIntervalMs: 1_000,
      sessionConfig: config,
    })
  })

  it('every later heartbeat gets Continue and the complete session', async () => {
    const { server } = await matched()
    server.heartbeat()
    for (const state of ['Active', 'Active', 'Initializing', 'Invalid'] as const) {
      expect(server.heartbeat({ state })).toEqual({
        operation: 'Continue',
        nextHeartbeatIntervalMs: 1_000,
        sessionConfig: config,
      })
    }
  })

  it('the session omits fields that the allocation did not set, instead of sending null', async () => {
    const { fleet, server } = await opened()
    server.ready()
    await fleet.allocate(ask(1))
    expect(server.heartbeat().sessionConfig).toEqual({ sessionId: session(1), initialPlayers: [] })
  })

  it('the build metadata is in the configuration and never in an answer, where it would overwrite a client’s settings', async () => {
    const buildMetadata = { map: 'dust,2?a=b', region: 'west', sessionId: 'x' }
    const { server } = await matched({ buildMetadata })
    expect(server.heartbeat().sessionConfig).toEqual(config)
    expect(server.spec.sdk.buildMetadata).toEqual(buildMetadata)
  })

  it('a game that missed the first answer gets its session with its next heartbeat, even after a silence', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    server.silence()
    await fleet.allocate(ask(1))
    await scene.clock.advance(60_000)
    expect(server.heartbeat().operation).toBe('Active')
    expect((await playing(scene, fleet, 1)).state).toBe('Active')
  })
})

describe('during termination', () => {
  it.each(['StandingBy', 'Active', 'Initializing', 'Invalid'] as const)(
    'a heartbeat %s from a Terminating server gets Terminate',
    async (state) => {
      const { fleet, server } = await matched()
      server.heartbeat()
      await fleet.servers.delete(server.ref)
      expect(server.heartbeat({ state }).operation).toBe('Terminate')
    },
  )

  it('an idle game gets Terminate only once its record is Terminating', async () => {
    const { scene, fleet, server } = await opened()
    server.ready()
    await scene.clock.settle()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(500)
    expect(only(await fleet.servers.list()).status.state).toBe('Terminating')
    expect(server.heartbeat().operation).toBe('Continue')
    await scene.clock.advance(600)
    expect(server.heartbeat().operation).toBe('Terminate')
  })

  it('a game with a match gets Terminate at once, even while the store is slow', async () => {
    const { scene, fleet, server } = await matched()
    server.heartbeat()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 1_000 } : undefined)
    const deletion = fleet.servers.delete(server.ref)
    await scene.clock.settle()
    expect(server.heartbeat().operation).toBe('Terminate')
    await scene.clock.advance(5_000)
    await deletion
  })

  it('a game whose build was deleted gets Terminate', async () => {
    const { fleet, server } = await matched()
    server.heartbeat()
    await fleet.builds.delete('arena')
    expect(server.heartbeat().operation).toBe('Terminate')
  })
})

describe('a heartbeat with an unknown id', () => {
  it('gets Terminate, which does not reveal whether the server name exists', async () => {
    const { fleet, server } = await opened()
    const terminate = { operation: 'Terminate', nextHeartbeatIntervalMs: 1_000 }
    for (const id of [`${server.ref.name}.guess`, `${server.ref.name}.`, 'nobody.guess', 'nobody.']) {
      expect(fleet.knowsServer(id)).toBe(false)
      expect(fleet.heartbeat(id, { state: 'StandingBy', ...players })).toEqual(terminate)
      expect(fleet.heartbeat(id, { state: 'Active', ...players })).toEqual(terminate)
    }
    for (const id of [server.ref.name, 'nobody', '', '.']) {
      expect(fleet.heartbeat(id, { state: 'Active', ...players })).toEqual(terminate)
    }
  })

  it('does not count as a heartbeat of the named server', async () => {
    const { scene, fleet, server } = await opened()
    fleet.heartbeat(`${server.ref.name}.guess`, { state: 'StandingBy', ...players, players: ['mallory'] })
    await scene.clock.advance(1_000)
    expect(only(await fleet.servers.list()).status.state).toBe('Initializing')
    expect((await fleet.details.get(server.ref)).spec.connectedPlayers).toEqual([])
  })

  it('gets Continue until instances have been listed for the first time', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(scene, fleet, 1)
    const server = only(scene.backend.servers())
    await fleet.close()
    await scene.records.servers.delete(server.ref, (await scene.records.servers.get(server.ref))?.revision ?? '')
    scene.faults.backend = ({ method }) => (method === 'list' ? { kind: 'delay-reply', ms: 5_000 } : undefined)
    const opening = scene.open()
    await scene.clock.advance(1_000)
    expect(server.heartbeat().operation).toBe('Continue')
    await scene.clock.advance(5_000)
    await opening
    expect(server.phase === 'running' ? server.heartbeat().operation : 'Terminate').toBe('Terminate')
  })
})

describe('the heartbeat interval', () => {
  it('is the configured interval', async () => {
    const scene = stage({ memory: { script: 'manual' }, limits: { heartbeatIntervalMs: 5_000, silenceMs: 20_000 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.settle()
    const server = only(scene.backend.servers())
    expect(server.ready().nextHeartbeatIntervalMs).toBe(5_000)
    await scene.clock.advance(120_000)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
  })

  it('is short enough that a game that follows it is never considered silent', async () => {
    const scene = stage({ limits: { heartbeatIntervalMs: 15_000 } })
    await expect(scene.open()).rejects.toMatchObject({
      code: 'invalid',
      message: 'limits.silenceMs must be at least twice limits.heartbeatIntervalMs, which is 15000, but is 10000',
    })
  })

  it('is at least one second', async () => {
    const scene = stage({ limits: { heartbeatIntervalMs: 500 } })
    await expect(scene.open()).rejects.toMatchObject({ code: 'invalid' })
  })
})
