/** For which of its builds a waiting caller is demand, when that changes during the wait. */
import { describe, expect, it } from 'vitest'
import type { Fleet, GameServerBuildInput, InstanceSpec } from 'gamekeeper'
import type { ServerScript } from 'gamekeeper/memory'
import { aBuild, only, session, type Stage, stage, statusOf, untilReady } from './stage.js'

type Spec = Partial<Pick<GameServerBuildInput['spec'], 'crashesToMarkUnhealthy' | 'standingBy'>>

async function withBuild(s: Stage, fleet: Fleet, name: string, max: number, more: Spec = {}) {
  const build = aBuild({ name, standingBy: 0, max })
  await fleet.builds.create({ ...build, spec: { ...build.spec, ...more } })
  await untilReady(s, fleet, 0, name)
}

const select = [{ builds: ['arena'] }, { builds: ['duel'] }]
const startingOf = async (fleet: Fleet, name: string) => {
  const { currentPending, currentInitializing } = await statusOf(fleet, name)
  return currentPending + currentInitializing
}
const serverOf = (allocated: Promise<{ readonly server: { readonly name: string } }>) =>
  allocated.then(({ server }) => server.name.replace(/-.*/, ''))

/** Every server of `arena` does what `script` says. */
const arenaThat = (script: ServerScript) => ({
  memory: {
    readyAfterMs: 5_000,
    script: ({ build }: InstanceSpec) => (build.name === 'arena' ? script : {}),
  },
})

describe('a waiting caller', () => {
  it('keeps the server that is starting for it when another build, or its own, is edited', async () => {
    const s = stage({ memory: { readyAfterMs: 20_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    await withBuild(s, fleet, 'duel', 5)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select }, { waitMs: 60_000 }))
    await s.clock.advance(5_000)
    await fleet.builds.patch('duel', { max: 6 })
    await s.clock.advance(2_000)
    await fleet.builds.update('arena', { crashesToMarkUnhealthy: 9 })
    await s.clock.advance(2_000)
    expect([await startingOf(fleet, 'arena'), await startingOf(fleet, 'duel')]).toEqual([1, 0])
    await s.clock.advance(15_000)
    expect(await waiting).toBe('arena')
  })

  it.each<[string, Spec]>([
    ['is backing off after a crash', {}],
    ['becomes Unhealthy', { crashesToMarkUnhealthy: 1 }],
  ])('gets a server of its next build when the first %s', async (_, more) => {
    const s = stage(arenaThat({ exitsWith: 1, exitsAfterMs: 1_000, autoReady: false }))
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 5, more)
    await withBuild(s, fleet, 'duel', 5)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select }, { waitMs: 60_000 }))
    await s.clock.advance(60_000)
    expect(await waiting).toBe('duel')
  })

  it('gets a server of its next build when those of the first are late', async () => {
    const s = stage({ ...arenaThat({ autoReady: false }), limits: { lateStartMs: 10_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 5)
    await withBuild(s, fleet, 'duel', 5)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select }, { waitMs: 60_000 }))
    await s.clock.advance(60_000)
    expect(await waiting).toBe('duel')
  })

  it('gets a server of its next build when a server that is not ready fills the first', async () => {
    const s = stage({ memory: { readyAfterMs: 5_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1, { standingBy: 1 })
    await untilReady(s, fleet, 1, 'arena')
    await withBuild(s, fleet, 'duel', 5)
    const { metadata } = only(await fleet.servers.list())
    s.backend.server(metadata).unhealthy()
    await s.clock.advance(2_000)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select }, { waitMs: 60_000 }))
    await s.clock.advance(10_000)
    expect(await waiting).toBe('duel')
  })

  it('gets a server of the build whose match ends first, if all are full', async () => {
    const s = stage({ memory: { readyAfterMs: 5_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    await withBuild(s, fleet, 'duel', 1)
    const playing = ['arena', 'duel'].map((buildID, i) =>
      fleet.allocate({ sessionID: session(i), buildID }, { waitMs: 60_000 }),
    )
    await s.clock.advance(10_000)
    const [, duel] = await Promise.all(playing)
    const waiting = serverOf(fleet.allocate({ sessionID: session(3), select }, { waitMs: 60_000 }))
    await s.clock.advance(1_000)
    await fleet.servers.delete(duel?.server.name ?? '')
    await s.clock.advance(60_000)
    expect(await waiting).toBe('duel')
  })

  it('is told the cause at the end of its wait', async () => {
    const s = stage({ ...arenaThat({ autoReady: false }), limits: { lateStartMs: 10_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 5)
    await withBuild(s, fleet, 'duel', 0)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select }, { waitMs: 30_000 }))
    const failure = expect(waiting).rejects.toMatchObject({
      code: 'none-standing-by',
      message: expect.stringMatching(
        /^no server of builds arena, duel that fits is standing by \(waited 30 s\): arena: servers are not standing by after 10 s: /,
      ),
    })
    await s.clock.advance(31_000)
    await failure
  })
})

describe('servers that are ready but do not fit', () => {
  const casual = [{ builds: ['arena'], matchExpressions: [{ key: 'cup', operator: 'DoesNotExist' as const }] }]

  async function withMisfits(standingBy: number) {
    const s = stage({ memory: { readyAfterMs: 5_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 10, { standingBy })
    await untilReady(s, fleet, standingBy, 'arena')
    for (const { metadata } of await fleet.servers.list()) {
      await fleet.servers.update(metadata.name, { labels: { cup: 'final' } })
    }
    return { s, fleet }
  }

  it('do not take the place of the server that a caller waits for when standingBy is lowered', async () => {
    const { s, fleet } = await withMisfits(3)
    const waiting = serverOf(fleet.allocate({ sessionID: session(1), select: casual }, { waitMs: 60_000 }))
    await s.clock.advance(2_000)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await s.clock.advance(10_000)
    expect(await waiting).toBe('arena')
    await s.clock.advance(10_000)
    expect(await statusOf(fleet, 'arena')).toMatchObject({ currentStandingBy: 1, currentActive: 1 })
  })

  it('do not starve a caller that comes while they are more than standingBy', async () => {
    const { s, fleet } = await withMisfits(3)
    const blocker = fleet.allocate({ sessionID: session(1), select: casual }, { waitMs: 4_000 }).catch(() => {})
    await s.clock.advance(1_000)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await s.clock.advance(4_000)
    await blocker
    const waiting = serverOf(fleet.allocate({ sessionID: session(2), select: casual }, { waitMs: 60_000 }))
    await s.clock.advance(30_000)
    expect(await waiting).toBe('arena')
  })

  it('cause one server for each caller at a time, and no more than that', async () => {
    const s = stage({ memory: { readyAfterMs: 2_000 } })
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 10)
    let most = 0
    fleet.on('ServerCreated', ({ server }) => {
      // Its game says at once that it is not for this caller.
      s.clock.after(500, () => void fleet.servers.update(server, { labels: { cup: 'final' } }).catch(() => {}))
    })
    const waiting = fleet.allocate({ sessionID: session(1), select: casual }, { waitMs: 30_000 }).catch(() => {})
    for (let i = 0; i < 30; i++) {
      await s.clock.advance(1_000)
      const { currentStandingBy } = await statusOf(fleet, 'arena')
      most = Math.max(most, currentStandingBy + (await startingOf(fleet, 'arena')))
    }
    await waiting
    expect(most).toBe(2)
    await s.clock.advance(10_000)
    expect(await statusOf(fleet, 'arena')).toMatchObject({ currentStandingBy: 0 })
  })
})
