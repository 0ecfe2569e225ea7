/** Games that end their session and go on: the server gets the next one, and no report about an earlier session ends a later one. */
import type { Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, session, type Stage, stage } from './stage.js'

/** One server, which is playing session 1. */
async function playing(options: Parameters<typeof stage>[0] = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
  await scene.clock.advance(10_000)
  await fleet.allocate(ask(1))
  await scene.clock.advance(2_000)
  const game = only(scene.backend.servers())
  expect([game.state, game.session?.sessionId]).toEqual(['Active', session(1)])
  return { scene, fleet, game }
}

async function status(fleet: Fleet) {
  const { state, sessionID } = only(await fleet.servers.list()).status
  return [state, sessionID]
}

const recordOf = async ({ records }: Stage) => only(await records.servers.list()).record

describe('a game that has ended its session', () => {
  it('stands by again and gets the next session', async () => {
    const { scene, fleet, game } = await playing()
    game.readyForNext()
    await scene.clock.advance(100)
    expect(await status(fleet)).toEqual(['StandingBy', undefined])
    expect(await recordOf(scene)).toMatchObject({ state: 'StandingBy', startedSessions: 1 })
    expect(await fleet.sessions.list()).toEqual([])
    const ended = only(scene.eventsOf('SessionEnded'))
    expect([ended.sessionID, ended.server.name]).toEqual([session(1), game.ref.name])
    await fleet.allocate(ask(2))
    await scene.clock.advance(2_000)
    expect([game.state, (await game.allocated).sessionId]).toEqual(['Active', session(2)])
    expect(await status(fleet)).toEqual(['Active', session(2)])
    expect(scene.eventsOf('ServerRemoved')).toEqual([])
  })

  it('goes to a caller that waits', async () => {
    const { scene, fleet, game } = await playing()
    const waiting = fleet.allocate(ask(2), { waitMs: 30_000 })
    await scene.clock.advance(5_000)
    game.readyForNext()
    await scene.clock.advance(100)
    expect(await waiting).toMatchObject({ SessionID: session(2), server: { name: game.ref.name } })
  })

  it('repeats its report, which never ends the next session, even one with the same id', async () => {
    const { scene, fleet, game } = await playing()
    game.readyForNext()
    await scene.clock.advance(100)
    for (const id of [1, 2]) {
      await fleet.allocate(ask(id))
      await scene.clock.advance(10_000)
      expect(await status(fleet)).toEqual(['Active', session(id)])
      game.readyForNext()
      await scene.clock.advance(100)
      expect(await status(fleet)).toEqual(['StandingBy', undefined])
    }
    expect((await recordOf(scene)).startedSessions).toBe(3)
  })

  it('is not harmed by a late heartbeat of an earlier session', async () => {
    const { scene, fleet, game } = await playing()
    game.readyForNext()
    await scene.clock.advance(100)
    const next = fleet.allocate(ask(2), { confirm: true })
    let isConfirmed = false
    void next.then(() => (isConfirmed = true))
    const { sessionHostId } = game.spec.sdk
    fleet.heartbeat(sessionHostId, { state: 'Active', players: ['amie'] })
    await scene.clock.advance(0)
    expect(isConfirmed).toBe(false)
    expect((await fleet.details.get(game.ref)).spec.connectedPlayers).toEqual([])
    const late = { state: 'StandingBy', players: [], endedSession: { sessionID: session(1), number: 1 } } as const
    await scene.clock.advance(2_000)
    await next
    fleet.heartbeat(sessionHostId, late)
    await scene.clock.advance(1_000)
    expect(await status(fleet)).toEqual(['Active', session(2)])
  })

  it('has no player, claim or confirmation left from it', async () => {
    const { scene, fleet, game } = await playing()
    game.players(['amie'])
    await fleet.builds.update('arena', { claimSeconds: 5 })
    game.readyForNext()
    await scene.clock.advance(100)
    await expect(fleet.sessions.ofPlayer('amie')).rejects.toThrow('amie')
    await fleet.allocate(ask(2))
    await scene.clock.advance(20_000)
    expect(only(scene.eventsOf('ServerEnding')).reason).toBe('Unclaimed')
  })

  it('begins a new session if the same sessionID is allocated again, and until then is not given to its caller', async () => {
    const { scene, fleet, game } = await playing()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'delay-reply', ms: 500 } : undefined)
    game.readyForNext()
    await scene.clock.advance(100)
    expect(await status(fleet)).toEqual(['Active', session(1)])
    let isAnswered = false
    const again = fleet.allocate(ask(1)).then((allocation) => {
      isAnswered = true
      return allocation
    })
    await scene.clock.advance(300)
    expect(isAnswered).toBe(false)
    await scene.clock.advance(3_000)
    expect((await again).SessionID).toBe(session(1))
    expect(scene.eventsOf('Allocated')).toHaveLength(2)
  })

  it('keeps what an operator changes while it is not known whether the end of its session is stored', async () => {
    const { scene, fleet, game } = await playing()
    let updates = 0
    scene.faults.store = ({ method }) => {
      if (method === 'servers.update') return updates++ === 0 ? { kind: 'lose-reply' } : { kind: 'refuse' }
      return method === 'servers.get' ? { kind: 'refuse' } : undefined
    }
    game.readyForNext()
    await scene.clock.advance(100)
    const changed = fleet.servers.update(game.ref.name, { labels: { map: 'dust' } }).catch(() => undefined)
    await scene.clock.advance(1_000)
    scene.faults.store = () => undefined
    await scene.clock.advance(60_000)
    await changed
    expect(await recordOf(scene)).toMatchObject({ state: 'StandingBy', data: { labels: { map: 'dust' } } })
    expect(scene.eventsOf('ServerDataChanged').map(({ message }) => message)).toHaveLength(1)
  })

  it('is not waited for by the caller of the session that it ended, once another has taken it', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await scene.clock.advance(10_000)
    const { server } = await fleet.allocate(ask(1))
    await fleet.allocate(ask(3))
    await scene.clock.advance(2_000)
    const [first, other] = [true, false].map((is) =>
      only(scene.backend.servers().filter(({ ref }) => (ref.name === server?.name) === is)),
    )
    const next = fleet.allocate(ask(2), { waitMs: 30_000 })
    const slow = (ms: number) => {
      scene.faults.store = ({ method, ref }) =>
        method === 'servers.update' && ref?.name === server?.name ? { kind: 'delay-reply', ms } : undefined
    }
    slow(500)
    first?.readyForNext()
    await scene.clock.advance(100)
    const again = fleet.allocate(ask(1), { waitMs: 30_000 })
    slow(3_000)
    await scene.clock.advance(500)
    other?.readyForNext()
    let answered: string | undefined
    void again.then((allocation) => (answered = allocation.server?.name))
    await scene.clock.advance(1_000)
    expect(answered).toBe(other?.ref.name)
    await scene.clock.advance(3_000)
    expect((await next).server?.name).toBe(server?.name)
  })
})

describe('the end of a session', () => {
  it('is stored before the server is given to anyone else, and survives a host that dies before', async () => {
    const { scene, game } = await playing()
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'refuse' } : undefined)
    game.readyForNext()
    await scene.clock.advance(100)
    scene.crash()
    scene.faults.store = () => undefined
    const next = await scene.open()
    expect(await status(next)).toEqual(['Active', session(1)])
    await scene.clock.advance(5_000)
    expect(await status(next)).toEqual(['StandingBy', undefined])
    // Both hosts have heard of it, and only the second could store it.
    const uids = scene.eventsOf('SessionEnded').map(({ sessionUid }) => sessionUid)
    expect([uids.length, new Set(uids).size]).toEqual([2, 1])
  })

  it('is not undone by a game that a new host hears late', async () => {
    const { scene, game } = await playing()
    game.readyForNext()
    await scene.clock.advance(100)
    scene.crash()
    const next = await scene.open()
    next.heartbeat(game.spec.sdk.sessionHostId, { state: 'Active', players: [] })
    await scene.clock.advance(5_000)
    expect(await status(next)).toEqual(['StandingBy', undefined])
  })

  it('ends the match of a server whose record was older than the match', async () => {
    const { scene, fleet, game } = await playing()
    await fleet.close()
    const { reachedActiveOn: _, startedSessions: __, ...started } = await recordOf(scene)
    const old = { ...started, sessions: [] }
    const { revision } = only(await scene.records.servers.list())
    await scene.records.servers.update({ ...old, state: 'StandingBy' }, revision)
    const next = await scene.open()
    await scene.clock.advance(3_000)
    expect(await status(next)).toEqual(['Active', undefined])
    game.readyForNext()
    await scene.clock.advance(100)
    expect(await status(next)).toEqual(['StandingBy', undefined])
  })

  it('is written again if its outcome is unknown', async () => {
    const { scene, fleet, game } = await playing()
    let failures = 3
    scene.faults.store = ({ method }) => {
      if (!method.startsWith('servers.') || failures-- <= 0) return undefined
      return { kind: 'lose-reply' }
    }
    game.readyForNext()
    await scene.clock.advance(10_000)
    expect(await status(fleet)).toEqual(['StandingBy', undefined])
    expect(scene.eventsOf('SessionEnded')).toHaveLength(1)
    await fleet.allocate(ask(2))
    await scene.clock.advance(2_000)
    expect(game.session?.sessionId).toBe(session(2))
  })

  it('ends a server that a drain has left to its match', async () => {
    const { scene, fleet, game } = await playing()
    const drained = fleet.servers.drain(game.ref)
    await scene.clock.advance(5_000)
    expect(await status(fleet)).toEqual(['Active', session(1)])
    const waiting = fleet.allocate(ask(2), { waitMs: 60_000 })
    game.readyForNext()
    await scene.clock.advance(40_000)
    expect(await drained).toEqual({ remaining: 0 })
    expect(only(scene.eventsOf('ServerEnding')).reason).toBe('Drained')
    expect((await waiting).server.name).not.toBe(game.ref.name)
  })

  it('lets a rolling update replace a server that ran an earlier template', async () => {
    const { scene, fleet, game } = await playing()
    await fleet.builds.update('arena', { template: aBuild({ graceSeconds: 5 }).spec.template })
    await scene.clock.advance(5_000)
    game.readyForNext()
    await scene.clock.advance(30_000)
    expect(only(scene.eventsOf('ServerEnding')).reason).toBe('Replaced')
    expect((await status(fleet))[0]).toBe('StandingBy')
  })

  it('keeps a game from being told to terminate before that is stored, because another host could allocate its server', async () => {
    const { scene, fleet, game } = await playing()
    let writes = 0
    scene.faults.store = ({ method }) => {
      if (method !== 'servers.update') return undefined
      return writes++ === 0 ? { kind: 'delay-reply', ms: 500 } : { kind: 'refuse' }
    }
    game.readyForNext()
    await scene.clock.advance(100)
    const deleted = fleet.servers.delete(game.ref).catch(() => undefined)
    await scene.clock.advance(1_000)
    const { sessionHostId } = game.spec.sdk
    const beat = () => fleet.heartbeat(sessionHostId, { state: 'StandingBy', players: [] }).operation
    expect((await recordOf(scene)).state).toBe('StandingBy')
    expect(beat()).not.toBe('Terminate')
    scene.faults.store = () => undefined
    await scene.clock.advance(5_000)
    expect(scene.eventsOf('ServerRemoved')).toHaveLength(1)
    await deleted
  })

  it('does not stop a server that is terminating', async () => {
    const { scene, fleet, game } = await playing({ memory: { script: () => ({ ignoresTerminate: true }) } })
    await fleet.servers.delete(game.ref)
    game.readyForNext()
    await scene.clock.advance(1_000)
    expect((await fleet.servers.get(game.ref)).status.state).toBe('Terminating')
    expect(scene.eventsOf('SessionEnded')).toEqual([])
  })

  it('does not delay the replacement of a game that then exits', async () => {
    const { scene, fleet, game } = await playing()
    game.readyForNext()
    await scene.clock.advance(100)
    game.exit(0)
    await scene.clock.advance(2_000)
    expect((await status(fleet))[0]).toBe('StandingBy')
    expect((await fleet.builds.get('arena')).status.crashesCount).toBe(0)
  })
})
