/** Games without an SDK, through the facade: when they are ready, how they learn of a session, and what ends it. */
import type { BuildSpec, Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { FleetError } from '../../src/contracts/errors.js'
import type { Prober } from '../../src/contracts/prober.js'
import type { PlayersReport } from '../../src/rules/game/probes.js'
import { aBuild, ask, only, serversBy, session, stage, type Stage, type StageOptions, untilReady } from './stage.js'

type GameOf = NonNullable<BuildSpec['game']>

const query = { protocol: 'a2s' } as const
const second = 1_000

/** Games that answer as the test says: by the port that they are reached at, else all alike. */
class Answers {
  ready = true
  /** Whether something else answers in the place of the game. */
  isWrong = false
  players: readonly string[] | undefined = []
  /** Ports at which nothing answers. */
  readonly silentPorts = new Set<number>()
  asked = 0

  async check(_: unknown, { port }: { readonly port: number }): Promise<void> {
    this.asked++
    if (!this.ready || this.silentPorts.has(port)) throw new FleetError('unavailable', 'no answer')
  }

  async playersAt({ port }: { readonly port: number }): Promise<PlayersReport> {
    this.asked++
    if (this.isWrong) throw new FleetError('invalid', 'not found')
    if (this.players === undefined || this.silentPorts.has(port)) throw new FleetError('unavailable', 'no answer')
    return { count: this.players.length, names: this.players }
  }

  close(): void {}
}

function proberOf(answers: Answers): Prober {
  return {
    check: (probe, address) => answers.check(probe, address),
    players: (_, address) => answers.playersAt(address),
    close: () => answers.close(),
  }
}

const probed: GameOf = {
  readiness: { tcp: {} },
  players: { query },
  session: { stdin: 'start {sessionID}' },
}

async function opened(
  game: GameOf = probed,
  build: Parameters<typeof aBuild>[0] = {},
  memory: NonNullable<StageOptions['memory']> = {},
) {
  const answers = new Answers()
  const scene = stage({ prober: proberOf(answers), memory })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 10, stdin: true, ...build, game }))
  return { answers, scene, fleet }
}

async function allocated({ clock }: Stage, fleet: Fleet, n = 1) {
  let name: string | undefined
  const call = fleet.allocate(ask(n), { confirm: true, waitMs: 60_000 }).then(async () => {
    const all = await fleet.servers.list()
    name = all.find(({ status }) => status.sessionID === session(n))?.metadata.name
  })
  await clock.until(async () => name !== undefined)
  await call
  return name ?? ''
}

const stateOf = async (fleet: Fleet, name: string) =>
  (await fleet.servers.list()).find(({ metadata }) => metadata.name === name)?.status

describe('a game without an SDK', () => {
  it('is ready once its probe passes, and says until then why it is not', async () => {
    const { answers, scene, fleet } = await opened()
    answers.ready = false
    await scene.clock.advance(20 * second)
    const { status } = only(await fleet.servers.list())
    expect(status).toMatchObject({ state: 'Initializing', message: 'not ready yet: no answer' })
    answers.ready = true
    await untilReady(scene, fleet, 1)
    expect(only(await fleet.servers.list()).status.message).toBeUndefined()
  })

  it('is ready after the seconds that its build gives it', async () => {
    const { scene, fleet } = await opened({ readiness: { runningSeconds: 30 } })
    await scene.clock.advance(28 * second)
    expect(await serversBy(fleet, 'StandingBy')).toHaveLength(0)
    await scene.clock.advance(8 * second)
    expect(await serversBy(fleet, 'StandingBy')).toHaveLength(1)
  })

  it('is told of its session once, also when another host takes over', async () => {
    const { scene, fleet } = await opened()
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    const game = scene.backend.server({ name })
    expect(game.stdin).toEqual([`start ${session(1)}`])
    await scene.clock.advance(10 * second)
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(60 * second)
    expect(await stateOf(next, name)).toMatchObject({ state: 'Active', sessionID: session(1) })
    expect(game.stdin).toHaveLength(1)
  })

  it('has its session at once if it is not told', async () => {
    const { scene, fleet } = await opened({ readiness: { tcp: {} } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    await scene.clock.advance(300 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(scene.backend.server({ name }).stdin).toEqual([])
  })
})

describe('a session of a game without an SDK', () => {
  it('ends when its players have left for so long, and never before one was there', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    await scene.clock.advance(600 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active' })
    answers.players = ['amie']
    await scene.clock.advance(30 * second)
    answers.players = []
    await scene.clock.advance(50 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active' })
    await scene.clock.advance(40 * second)
    expect(await stateOf(fleet, name)).toBeUndefined()
    expect(only(scene.eventsOf('SessionEnded'))).toMatchObject({ sessionID: session(1), reason: 'Finished' })
  })

  it.each([
    ['the game does not answer', 1],
    ['not one game answers', 4],
  ])('goes on when its players leave while %s: then they may have come back', async (_, standingBy) => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } }, { standingBy })
    await untilReady(scene, fleet, standingBy)
    const name = await allocated(scene, fleet)
    answers.players = ['amie']
    await scene.clock.advance(30 * second)
    answers.players = []
    await scene.clock.advance(30 * second)
    answers.players = undefined
    await scene.clock.advance(120 * second)
    answers.players = []
    await scene.clock.advance(30 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active' })
    await scene.clock.advance(60 * second)
    expect(await stateOf(fleet, name)).toBeUndefined()
  })

  it('is never ended because its game does not answer', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    answers.players = ['amie']
    await scene.clock.advance(30 * second)
    answers.silentPorts.add(
      (await fleet.servers.list()).map(({ status }) => Number(status.ports.split(':')[1]))[0] ?? 0,
    )
    answers.players = undefined
    await scene.clock.advance(3_600 * second)
    const message = 'it does not answer: no answer'
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Unhealthy', message })
    expect((await fleet.problems()).map(({ cause }) => cause)).toContain(message)
    answers.silentPorts.clear()
    answers.players = ['amie']
    await scene.clock.advance(10 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
  })

  it('ends by claimSeconds if nobody comes', async () => {
    const { scene, fleet } = await opened(probed, { claimSeconds: 60 })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    await scene.clock.advance(120 * second)
    expect(await stateOf(fleet, name)).toBeUndefined()
    expect(only(scene.eventsOf('SessionEnded'))).toMatchObject({ reason: 'Unclaimed' })
  })
})

describe('a game that starts with its session', () => {
  const onDemand: GameOf = { ...probed, session: { stdin: '{sessionID}', startsGame: true } }

  it('is asked nothing before, and its session is confirmed once it is ready', async () => {
    const { answers, scene, fleet } = await opened(onDemand)
    answers.ready = false
    answers.players = undefined
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(300 * second)
    const { metadata } = only(await fleet.servers.list())
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'StandingBy', health: 'Healthy' })
    expect(answers.asked).toBe(0)

    let isConfirmed = false
    const call = fleet.allocate(ask(1), { confirm: true, waitMs: 60 * second }).then(() => (isConfirmed = true))
    await scene.clock.advance(20 * second)
    const message = 'not ready yet: no answer'
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'Active', health: 'Healthy', message })
    expect(isConfirmed).toBe(false)
    answers.ready = true
    answers.players = ['amie']
    await scene.clock.advance(3 * second)
    await call
    expect(scene.backend.server({ name: metadata.name }).stdin).toEqual([session(1)])
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ health: 'Healthy' })
    expect((await fleet.servers.list()).find(({ metadata: { name } }) => name === metadata.name)?.status.message).toBe(
      undefined,
    )
  })

  it('is Unhealthy when it does not start in time, and keeps its session', async () => {
    const { answers, scene, fleet } = await opened(onDemand, { claimSeconds: 30 })
    answers.ready = false
    await untilReady(scene, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    await fleet.allocate(ask(1))
    await scene.clock.advance(50 * second)
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    await scene.clock.advance(20 * second)
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    await scene.clock.advance(3_600 * second)
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'Active', sessionID: session(1) })
  })

  it.each([
    ['before it is told', 0],
    ['while it starts', 2],
  ])('is told once when the host dies %s', async (_, seconds) => {
    const { answers, scene, fleet } = await opened(onDemand)
    answers.ready = false
    await untilReady(scene, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    await fleet.allocate(ask(1))
    await scene.clock.advance(seconds * second)
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(10 * second)
    let isConfirmed = false
    const again = next.allocate(ask(1), { confirm: true, waitMs: 60 * second }).then(() => (isConfirmed = true))
    await scene.clock.advance(10 * second)
    expect(isConfirmed).toBe(false)
    answers.ready = true
    await scene.clock.advance(60 * second)
    await again
    expect(await stateOf(next, metadata.name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(scene.backend.server({ name: metadata.name }).stdin).toEqual([session(1)])
  })

  it('is told also if its build has it start with its session no longer', async () => {
    const { answers, scene, fleet } = await opened(onDemand)
    answers.ready = false
    await untilReady(scene, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    const { spec } = await fleet.builds.get('arena')
    await fleet.builds.update('arena', { game: { ...spec.game, ...probed } })
    await scene.clock.advance(30 * second)
    await fleet.allocate(ask(1))
    await scene.clock.advance(30 * second)
    expect(scene.backend.server({ name: metadata.name }).stdin).toHaveLength(1)
    answers.ready = true
    await scene.clock.advance(30 * second)
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'Active', health: 'Healthy' })
  })

  it('ends with its players, as any other', async () => {
    const { answers, scene, fleet } = await opened({ ...onDemand, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    answers.players = ['amie']
    await scene.clock.advance(30 * second)
    answers.players = []
    await scene.clock.advance(90 * second)
    expect(await stateOf(fleet, name)).toBeUndefined()
  })
})

describe('what is wrong with a game without an SDK', () => {
  it('is said of its players although it lives', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, liveness: { tcp: {} } })
    await untilReady(scene, fleet, 1)
    answers.isWrong = true
    await scene.clock.advance(30 * second)
    const { status } = only(await fleet.servers.list())
    expect(status).toMatchObject({ state: 'StandingBy', message: 'who plays is not known: not found' })
    answers.isWrong = false
    await scene.clock.advance(10 * second)
    expect(only(await fleet.servers.list()).status.message).toBeUndefined()
  })

  it('is the reason of its end', async () => {
    const { answers, scene, fleet } = await opened(probed)
    await untilReady(scene, fleet, 1)
    answers.isWrong = true
    await scene.clock.advance(30 * second)
    const messages = scene.eventsOf('ServerEnding').map(({ message }) => message)
    expect(messages.join()).toContain('it does not answer: not found')
  })
})

describe('idle games without an SDK', () => {
  it('are still asked when an answer of the backend comes late, which says that they are pending', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 0 }, { startLatencyMs: 2 * second })
    scene.faults.backend = ({ method }) => (method === 'create' ? { kind: 'delay-reply', ms: 8 * second } : undefined)
    await fleet.builds.update('arena', { standingBy: 1 })
    await untilReady(scene, fleet, 1)
    const { metadata } = only(await fleet.servers.list())
    await scene.clock.advance(10 * second)
    const { asked } = answers
    await scene.clock.advance(15 * second)
    expect(answers.asked).toBeGreaterThan(asked)
    expect(await stateOf(fleet, metadata.name)).toMatchObject({ state: 'StandingBy' })
  })

  it('are replaced when they do not answer, and others do', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    const before = await fleet.servers.list()
    const [first] = before
    answers.silentPorts.add(Number(first?.status.ports.split(':')[1]))
    await scene.clock.advance(120 * second)
    expect(await stateOf(fleet, first?.metadata.name ?? '')).toBeUndefined()
    expect(await serversBy(fleet, 'StandingBy')).toHaveLength(4)
  })

  it('stay when not one of them answers: the network of this host may be away', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    const names = (await fleet.servers.list()).map(({ metadata }) => metadata.name).toSorted()
    answers.players = undefined
    await scene.clock.advance(600 * second)
    expect((await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name).toSorted()).toEqual(names)
  })

  it('are replaced when all of them answer wrongly: then this host reaches them', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    const names = new Set((await fleet.servers.list()).map(({ metadata }) => metadata.name))
    answers.isWrong = true
    await scene.clock.advance(60 * second)
    expect((await fleet.servers.list()).filter(({ metadata }) => names.has(metadata.name))).toEqual([])
  })

  it('of an earlier template are asked what that was made for', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 2 })
    await untilReady(scene, fleet, 2)
    const names = (await fleet.servers.list()).map(({ metadata }) => metadata.name).toSorted()
    // New servers never become ready, so that the old ones stay.
    answers.ready = false
    const { spec } = await fleet.builds.get('arena')
    const template = { ...spec.template, metadata: { annotations: { version: '2' } } }
    const other: GameOf = { ...probed, liveness: { tcp: {} } }
    await fleet.builds.update('arena', { ...spec, template, game: other })
    await scene.clock.advance(120 * second)
    const ready = (await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name).toSorted()
    expect(ready).toEqual(names)
  })

  it('are asked in the rhythm of their build, and no more when they are gone', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, periodSeconds: 10 }, { standingBy: 2 })
    await untilReady(scene, fleet, 2)
    answers.asked = 0
    await scene.clock.advance(600 * second)
    expect(answers.asked).toBeGreaterThan(100)
    expect(answers.asked).toBeLessThan(140)
    await fleet.builds.delete('arena')
    await scene.clock.advance(30 * second)
    answers.asked = 0
    await scene.clock.advance(60 * second)
    expect(answers.asked).toBe(0)
  })
})

describe('a session of a game without an SDK and claimSeconds', () => {
  it('goes on while nobody knows who plays', async () => {
    const { answers, scene, fleet } = await opened(
      { ...probed, liveness: { tcp: {} }, periodSeconds: 10 },
      { claimSeconds: 30 },
    )
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(60 * second)
    answers.players = undefined
    const name = await allocated(scene, fleet)
    await scene.clock.advance(300 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    answers.players = ['amie']
    await scene.clock.advance(20 * second)
    answers.players = []
    await scene.clock.advance(300 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active' })
  })
})

describe('a build that says how a game is told', () => {
  it('later than its sessions began does not disturb them', async () => {
    const { scene, fleet } = await opened({ readiness: { tcp: {} } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    const { spec } = await fleet.builds.get('arena')
    await fleet.builds.update('arena', { ...spec, game: probed })
    await scene.clock.advance(60 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(scene.backend.server({ name }).stdin).toEqual([])
    const another = await allocated(scene, fleet, 2)
    expect(scene.backend.server({ name: another }).stdin).toEqual([`start ${session(2)}`])
  })
})

/** A player comes and leaves, and then another host takes over. */
async function hostAfterAVisit(scene: Stage, answers: Answers): Promise<Fleet> {
  answers.players = ['amie']
  await scene.clock.advance(30 * second)
  answers.players = []
  await scene.clock.advance(30 * second)
  scene.crash()
  return scene.open()
}

describe('a new host', () => {
  it('does not condemn servers of an earlier template by the questions of the new one', async () => {
    const { answers, scene, fleet } = await opened(probed, { standingBy: 2 })
    await untilReady(scene, fleet, 2)
    const names = (await fleet.servers.list()).map(({ metadata }) => metadata.name).toSorted()
    // New servers never become ready, so that the old ones stay.
    answers.ready = false
    const { spec } = await fleet.builds.get('arena')
    const template = { ...spec.template, metadata: { annotations: { version: '2' } } }
    await fleet.builds.update('arena', { ...spec, template, game: { ...probed, liveness: { tcp: {} } } })
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(120 * second)
    const ready = (await serversBy(next, 'StandingBy')).map(({ metadata }) => metadata.name).toSorted()
    expect(ready).toEqual(names)
  })

  it('keeps what is known of players until the game says who plays', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    answers.players = ['ben', 'amie']
    await scene.clock.advance(30 * second)
    scene.crash()
    answers.players = undefined
    const next = await scene.open()
    await scene.clock.advance(300 * second)
    expect((await next.details.get(name)).spec.connectedPlayers).toEqual(['amie', 'ben'])
    expect(await stateOf(next, name)).toMatchObject({ state: 'Active', health: 'Unhealthy' })
  })

  it('does not take players of an idle server for those of the session that follows', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const next = await hostAfterAVisit(scene, answers)
    await scene.clock.advance(30 * second)
    const name = await allocated(scene, next)
    await scene.clock.advance(300 * second)
    expect(await stateOf(next, name)).toMatchObject({ state: 'Active' })
  })

  it('ends a session whose players left before it began to lead', async () => {
    const { answers, scene, fleet } = await opened({ ...probed, end: { emptySeconds: 60 } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    const next = await hostAfterAVisit(scene, answers)
    await scene.clock.advance(40 * second)
    expect(await stateOf(next, name)).toMatchObject({ state: 'Active' })
    await scene.clock.advance(60 * second)
    expect(await stateOf(next, name)).toBeUndefined()
  })
})
