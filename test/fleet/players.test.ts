/** Connected players: shown at once, written at most once a second, and restored after restarts. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, playing, stage, untilReady } from './stage.js'

async function matched(sessions = 1) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: sessions + 1 }))
  await untilReady(scene, fleet, 1)
  for (let n = 1; n <= sessions; n++) {
    await fleet.allocate(ask(n), { waitMs: 1_000 })
    await untilReady(scene, fleet, 1)
  }
  await scene.clock.advance(2_000)
  const server = await playing(scene, fleet, 1)
  const shown = async () => (await fleet.details.get(server.ref)).spec
  const kept = async () => (await scene.records.details.get(server.ref))?.record.players
  const writes = () => scene.calls.filter(({ method }) => /^details\.(create|update)$/.test(method)).length
  return { scene, fleet, server, shown, kept, writes }
}

describe('the players of a server', () => {
  it('are initially an empty list, with a count of 0', async () => {
    const { fleet, server, kept } = await matched()
    expect(await fleet.details.get(server.ref)).toEqual({
      apiVersion: 'mps.gamekeeper.com/v1alpha1',
      kind: 'GameServerDetail',
      metadata: server.ref,
      spec: { connectedPlayersCount: 0, connectedPlayers: [] },
    })
    expect(await kept()).toBeUndefined()
  })

  it('are visible at once and written within a second', async () => {
    const { scene, server, shown, kept } = await matched()
    server.players(['amie', 'bo'])
    expect(await shown()).toEqual({ connectedPlayersCount: 2, connectedPlayers: ['amie', 'bo'] })
    await scene.clock.advance(1_000)
    expect(await kept()).toEqual(['amie', 'bo'])
  })

  it('are updated even if their number stays the same', async () => {
    const { scene, server, shown, kept } = await matched()
    server.players(['amie', 'bo'])
    await scene.clock.advance(1_000)
    server.players(['amie', 'cem'])
    expect((await shown()).connectedPlayers).toEqual(['amie', 'cem'])
    await scene.clock.advance(1_000)
    expect(await kept()).toEqual(['amie', 'cem'])
  })

  it('are an empty list again after all have left', async () => {
    const { scene, server, shown, kept } = await matched()
    server.players(['amie'])
    await scene.clock.advance(1_000)
    server.players([])
    expect(await shown()).toEqual({ connectedPlayersCount: 0, connectedPlayers: [] })
    await scene.clock.advance(3_000)
    expect(await kept()).toEqual([])
  })

  it('are written at most once a second, with the latest list', async () => {
    const { scene, server, kept, writes } = await matched()
    const before = writes()
    for (let i = 0; i < 100; i++) {
      server.players([`player-${i}`])
      await scene.clock.advance(50)
    }
    await scene.clock.advance(1_000)
    expect(writes() - before).toBeLessThanOrEqual(6)
    expect(await kept()).toEqual(['player-99'])
  })

  it('are not written while heartbeats repeat the same list', async () => {
    const { scene, server, writes } = await matched()
    server.players(['amie'])
    await scene.clock.advance(2_000)
    const before = writes()
    await scene.clock.advance(600_000)
    expect(writes()).toBe(before)
  })

  it('are emitted as an event on each change', async () => {
    const { scene, server } = await matched()
    server.players(['amie'])
    server.players(['amie'])
    server.players([])
    await scene.clock.settle()
    expect(scene.eventsOf('PlayersChanged').map(({ players }) => players)).toEqual([['amie'], []])
    expect(scene.eventsOf('PlayersChanged').map(({ message }) => message)).toEqual([
      expect.stringMatching(/^1 player on /),
      expect.stringMatching(/^0 players on /),
    ])
  })

  it('are aggregated in the detail of the build', async () => {
    const { scene, fleet } = await matched(2)
    const [first, second] = [await playing(scene, fleet, 1), await playing(scene, fleet, 2)]
    first.players(['amie', 'bo'])
    second.players(['cem'])
    const detail = await fleet.details.ofBuild('arena')
    expect(detail.metadata).toEqual({ namespace: 'default', name: 'arena' })
    expect(detail.spec.connectedPlayersCount).toBe(3)
    expect([...detail.spec.connectedPlayers].toSorted()).toEqual(['amie', 'bo', 'cem'])
    expect(detail.items.length).toBe(3)
    const own = detail.items.find(({ metadata }) => metadata.name === second.ref.name)
    expect(own?.spec.connectedPlayers).toEqual(['cem'])
  })

  it('are restored after a restart, before the first heartbeat', async () => {
    const { scene, fleet, server } = await matched()
    server.players(['amie'])
    await scene.clock.advance(1_000)
    server.silence()
    await fleet.close()
    const next = await scene.open()
    expect((await next.details.get(server.ref)).spec.connectedPlayers).toEqual(['amie'])
  })

  describe('that were reported just before the host was killed', () => {
    /** The list that the next host shows before it receives a heartbeat. */
    async function shownAfterKill({ scene, server }: Awaited<ReturnType<typeof matched>>) {
      server.silence()
      await scene.clock.settle()
      scene.crash()
      const next = await scene.open()
      return (await next.details.get(server.ref)).spec.connectedPlayers
    }

    it('are shown if they were the first', async () => {
      const match = await matched()
      match.server.players(['amie', 'bo'])
      expect(await shownAfterKill(match)).toEqual(['amie', 'bo'])
    })

    it('are shown if the last change was a second ago', async () => {
      const match = await matched()
      match.server.players(['amie'])
      await match.scene.clock.advance(1_000)
      match.server.players(['amie', 'bo'])
      expect(await shownAfterKill(match)).toEqual(['amie', 'bo'])
    })

    it('are not replaced by nobody, whenever the list was empty before', async () => {
      for (const emptyMs of [1, 100, 999, 1_000, 1_999, 2_000, 2_500, 3_000, 3_001]) {
        const match = await matched()
        match.server.players(['amie'])
        await match.scene.clock.advance(300)
        match.server.players([])
        await match.scene.clock.advance(emptyMs)
        match.server.players(['bo'])
        expect(await shownAfterKill(match), `empty for ${emptyMs} ms`).not.toEqual([])
      }
    })

    it('are shown if they connected while an empty list was being written', async () => {
      const match = await matched()
      const { scene, server } = match
      server.players(['amie'])
      await scene.clock.advance(1_000)
      server.players([])
      scene.faults.store = ({ method }) => (method === 'details.update' ? { kind: 'delay-reply', ms: 200 } : undefined)
      await scene.clock.until(async () => (await match.kept())?.length === 0)
      server.players(['bo'])
      await scene.clock.advance(400)
      expect(await shownAfterKill(match)).toEqual(['bo'])
    })
  })

  it('cost about one write a second, however often they come and go', async () => {
    for (const everyMs of [100, 700, 1_000, 1_500, 2_100, 2_600]) {
      const { scene, server, writes } = await matched()
      const before = writes()
      for (let i = 0; i * everyMs < 60_000; i++) {
        server.players(i % 2 === 0 ? [`player-${i}`] : [])
        await scene.clock.advance(everyMs)
      }
      expect(writes() - before, `a change every ${everyMs} ms`).toBeLessThanOrEqual(62)
    }
  })

  it('are written before the host closes', async () => {
    const { fleet, server, kept } = await matched()
    server.players(['amie'])
    await fleet.close()
    expect(await kept()).toEqual(['amie'])
  })

  it('are written once the store recovers, without delaying anything else', async () => {
    const { scene, fleet, server, kept, shown } = await matched()
    scene.faults.store = ({ method }) => (method.startsWith('details.') ? { kind: 'refuse' } : undefined)
    server.players(['amie'])
    await scene.clock.advance(30_000)
    expect((await shown()).connectedPlayers).toEqual(['amie'])
    await fleet.allocate(ask(7))
    server.players(['amie', 'bo'])
    await scene.clock.advance(5_000)
    scene.faults.store = () => undefined
    await scene.clock.advance(2_000)
    expect(await kept()).toEqual(['amie', 'bo'])
  })

  it('are written even if replies are lost', async () => {
    const { scene, server, kept } = await matched()
    let calls = 0
    scene.faults.store = ({ method }) =>
      method.startsWith('details.') && calls++ % 2 === 0 ? { kind: 'lose-reply' } : undefined
    for (const players of [['amie'], ['amie', 'bo'], [], ['cem']]) {
      server.players(players)
      await scene.clock.advance(3_000)
    }
    await scene.clock.advance(5_000)
    expect(await kept()).toEqual(['cem'])
  })

  it('are deleted with their server', async () => {
    const { scene, server, kept } = await matched()
    server.players(['amie'])
    await scene.clock.advance(1_000)
    expect(await kept()).toEqual(['amie'])
    server.players(['amie', 'bo'])
    server.exit(0)
    await scene.clock.advance(5_000)
    expect(await scene.records.details.list()).toEqual([])
  })

  it.each(['refuse', 'lose-reply'] as const)('are deleted once the store does so, after %s', async (kind) => {
    const { scene, server, kept } = await matched()
    server.players(['amie'])
    await scene.clock.advance(1_000)
    let isUnknown = true
    scene.faults.store = ({ method }) => {
      if (method === 'details.update') return { kind: 'delay-reply', ms: 500 }
      return isUnknown && /^details\.(delete|get)$/.test(method) ? { kind } : undefined
    }
    server.players(['amie', 'bo'])
    server.exit(0)
    await scene.clock.advance(5_000)
    expect(await scene.records.servers.get(server.ref)).toBeUndefined()
    if (kind === 'refuse') expect(await kept()).toEqual(['amie', 'bo'])
    isUnknown = false
    await scene.clock.advance(2_000)
    expect(await scene.records.details.list()).toEqual([])
  })

  it('are deleted by the next host if their server was removed while no host was running', async () => {
    const { scene, server } = await matched()
    server.players(['amie'])
    await scene.clock.advance(1_000)
    scene.crash()
    for (const { record, revision } of await scene.records.servers.list()) {
      if (record.name === server.ref.name) await scene.records.servers.delete(record, revision)
    }
    server.exit(0)
    await scene.open()
    await scene.clock.advance(5_000)
    expect(await scene.records.details.list()).toEqual([])
  })

  it('can connect before the server has a session', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await untilReady(scene, fleet, 1)
    only(scene.backend.servers()).players(['early'])
    expect((await fleet.details.ofBuild('arena')).spec.connectedPlayers).toEqual(['early'])
  })
})
