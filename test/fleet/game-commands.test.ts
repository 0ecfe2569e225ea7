/** Games without an SDK that are asked and told by commands where they run, through the facade. */
import type { BuildSpec, Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import type { ExecOptions, ExecResult } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { aBuild, ask, only, serversBy, session, stage, type Stage, untilReady } from './stage.js'

type GameOf = NonNullable<BuildSpec['game']>

const second = 1_000
const passed: ExecResult = { exitCode: 0, output: '' }
const failed: ExecResult = { exitCode: 3, output: 'rcon: \n connection refused\r\n\n' }

interface Run {
  readonly server: string
  readonly command: readonly string[]
  readonly input: string | undefined
}

/** A backend that can end no command. How one ends is what the test says of its program: a result, an error, or nothing yet. */
class Programs {
  readonly answers = new Map<string, ExecResult | FleetError | Promise<ExecResult>>()
  readonly runs: Run[] = []
  readonly #running: string[] = []
  /** The most commands that ran at once, of all servers and of one. */
  most = { all: 0, ofServer: 0 }
  /** False: as an API server that hangs. */
  startsCommands = true

  async exec({ name }: Ref, command: readonly string[], { input, onStarted }: ExecOptions = {}): Promise<ExecResult> {
    this.runs.push({ server: name, command, input })
    this.#running.push(name)
    const ofServer = this.#running.filter((one) => one === name).length
    this.most = {
      all: Math.max(this.most.all, this.#running.length),
      ofServer: Math.max(this.most.ofServer, ofServer),
    }
    try {
      if (!this.startsCommands) return await new Promise(() => {})
      const answer = this.answers.get(command[0] ?? '') ?? passed
      if (FleetError.is(answer)) throw answer
      onStarted?.()
      return await answer
    } finally {
      this.#running.splice(this.#running.indexOf(name), 1)
    }
  }

  runsOf(program: string): readonly Run[] {
    return this.runs.filter(({ command }) => command[0] === program)
  }
}

/** A promise of a command that goes on until the test ends it. */
function hanging() {
  let end = (_: ExecResult) => {}
  const result = new Promise<ExecResult>((resolve) => (end = resolve))
  return { result, end }
}

const noProber = {
  check: async () => {},
  players: async () => ({ count: 0, names: [] }),
  close: () => {},
}

const game: GameOf = { readiness: { command: ['ready'] }, liveness: { command: ['alive'] } }

async function opened(spec: GameOf = game, build: Parameters<typeof aBuild>[0] = {}) {
  const programs = new Programs()
  const scene = stage({ prober: noProber, exec: (...call) => programs.exec(...call) })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 40, ...build, game: spec }))
  return { programs, scene, fleet }
}

/** Returns the server's name once its game knows its session. `meanwhile` is done until then. */
async function allocated(
  { clock }: Stage,
  fleet: Fleet,
  initialPlayers: readonly string[] = [],
  meanwhile = async () => {},
) {
  let isDone = false
  const request = { ...ask(1), initialPlayers, sessionCookie: 'c' }
  const call = fleet.allocate(request, { confirm: true, waitMs: 60_000 }).then(() => (isDone = true))
  await meanwhile()
  await clock.until(async () => isDone)
  await call
  const server = (await fleet.servers.list()).find(({ status }) => status.sessionID === session(1))
  return server?.metadata.name ?? ''
}

const stateOf = async (fleet: Fleet, name: string) =>
  (await fleet.servers.list()).find(({ metadata }) => metadata.name === name)?.status

const namesOf = async (fleet: Fleet) => (await fleet.servers.list()).map(({ metadata }) => metadata.name).toSorted()

describe('a readiness command', () => {
  it('makes a server ready once it passes, and says until then why it does not', async () => {
    const { programs, scene, fleet } = await opened({
      readiness: { command: ['ready', '$(PORT_7777)', '$(PF_GAMESERVER_NAME)'] },
    })
    programs.answers.set('ready', failed)
    await scene.clock.advance(10 * second)
    const { metadata, status } = only(await fleet.servers.list())
    const message = 'not ready yet: command ready exited with code 3: connection refused'
    expect(status).toMatchObject({ state: 'Initializing', message })
    programs.answers.set('ready', new FleetError('unavailable', 'no right to pods/exec'))
    await scene.clock.advance(5 * second)
    expect(only(await fleet.servers.list()).status.message).toBe(
      'not ready yet: command ready could not be run: no right to pods/exec',
    )
    programs.answers.delete('ready')
    await untilReady(scene, fleet, 1)
    expect(only(await fleet.servers.list()).status.message).toBeUndefined()
    // The games of this backend are in containers, and listen on the ports there.
    expect(programs.runs[0]?.command).toEqual(['ready', '7777', metadata.name])
  })

  it('is refused on a backend that runs none, by its field', async () => {
    const scene = stage({ prober: noProber, exec: null })
    const fleet = await scene.open()
    await expect(fleet.builds.create(aBuild({ game }))).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('spec.game.readiness.command needs a backend that runs commands'),
    })
  })
})

describe('a liveness command', () => {
  it('that fails has idle servers replaced, also all of them: an exit code is an answer', async () => {
    const { programs, scene, fleet } = await opened(game, { standingBy: 4 })
    await untilReady(scene, fleet, 4)
    await scene.clock.advance(10 * second)
    const before = new Set(await namesOf(fleet))
    programs.answers.set('alive', failed)
    await scene.clock.advance(60 * second)
    expect((await namesOf(fleet)).filter((name) => before.has(name))).toEqual([])
    const messages = scene.eventsOf('ServerEnding').map(({ message }) => message)
    expect(messages.join()).toContain('it does not answer: command alive exited with code 3: connection refused')
  })

  it.each([1, 4])('that the backend cannot run condemns none of %d servers, nor those of a new host', async (count) => {
    const { programs, scene, fleet } = await opened(game, { standingBy: count })
    await untilReady(scene, fleet, count)
    await scene.clock.advance(10 * second)
    const before = await namesOf(fleet)
    programs.answers.set('alive', new FleetError('unavailable', 'the engine is away'))
    await scene.clock.advance(600 * second)
    const message = 'it does not answer: command alive could not be run: the engine is away'
    expect(await stateOf(fleet, before[0] ?? '')).toMatchObject({ state: 'StandingBy', health: 'Healthy', message })
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(600 * second)
    expect(await namesOf(next)).toEqual(before)
    programs.answers.set('alive', failed)
    await scene.clock.advance(60 * second)
    expect(await namesOf(next)).not.toEqual(before)
  })

  it('that hangs counts as failed, and does not pile up where it cannot be ended', async () => {
    const { programs, scene, fleet } = await opened()
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet)
    const { result, end } = hanging()
    programs.answers.set('alive', result)
    await scene.clock.advance(100 * second)
    const message = 'it does not answer: command alive timed out after 2 s'
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Unhealthy', message })
    expect(programs.most.ofServer).toBe(1)
    programs.answers.delete('alive')
    end(passed)
    await scene.clock.advance(20 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
  })

  it('that the backend does not start in time says nothing of the game, and does not hide who plays', async () => {
    const players = { query: { protocol: 'a2s' } } as const
    const { programs, scene, fleet } = await opened({ ...game, players })
    await untilReady(scene, fleet, 1)
    const before = await namesOf(fleet)
    programs.startsCommands = false
    await scene.clock.advance(300 * second)
    expect(await namesOf(fleet)).toEqual(before)
    const { status } = only(await fleet.servers.list())
    expect(status).toMatchObject({ state: 'StandingBy', health: 'Healthy' })
    expect(status.message).toContain('command alive could not be run')
  })

  it('runs on at most 16 servers of a build at once, and on each in time', async () => {
    const { programs, scene, fleet } = await opened({ ...game, periodSeconds: 10 }, { standingBy: 40 })
    await untilReady(scene, fleet, 40)
    const slow = async () => {
      const { result, end } = hanging()
      scene.clock.after(second, () => end(passed))
      return result
    }
    const exec = programs.exec.bind(programs)
    programs.exec = (ref, command, options) => {
      programs.answers.set('alive', slow())
      return exec(ref, command, options)
    }
    programs.most = { all: 0, ofServer: 0 }
    await scene.clock.advance(120 * second)
    expect(programs.most).toEqual({ all: 16, ofServer: 1 })
    expect((await fleet.servers.list()).filter(({ status }) => status.health !== 'Healthy')).toEqual([])
  })
})

describe('a session command', () => {
  const told: GameOf = { ...game, session: { command: ['tell', 'match {sessionID} {cookie}', '{players}'] } }

  it('is run until it succeeds, with a back-off, and then never again', async () => {
    const { programs, scene, fleet } = await opened(told)
    await untilReady(scene, fleet, 1)
    programs.answers.set('tell', failed)
    const name = await allocated(scene, fleet, ['a\nb', '$(PORT_7777) {cookie}'], async () => {
      await scene.clock.advance(10 * second)
      expect(programs.runsOf('tell').length).toBeGreaterThan(1)
      expect(programs.runsOf('tell').length).toBeLessThan(8)
      programs.answers.delete('tell')
    })
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', sessionID: session(1) })
    const last = programs.runsOf('tell').at(-1)
    expect(last?.command).toEqual(['tell', `match ${session(1)} c`, 'a b,$(PORT_7777) {cookie}'])
    const { length } = programs.runsOf('tell')
    scene.crash()
    await scene.open()
    await scene.clock.advance(60 * second)
    expect(programs.runsOf('tell')).toHaveLength(length)
  })

  it('that succeeds after its time has told the game, and is not run again', async () => {
    const { programs, scene, fleet } = await opened(told)
    await untilReady(scene, fleet, 1)
    const { result, end } = hanging()
    programs.answers.set('tell', result)
    await allocated(scene, fleet, [], async () => {
      await scene.clock.advance(35 * second)
      end(passed)
    })
    await scene.clock.advance(60 * second)
    expect(programs.runsOf('tell')).toHaveLength(1)
  })

  it('that takes long does not make its server Unhealthy', async () => {
    const { programs, scene, fleet } = await opened(told)
    await untilReady(scene, fleet, 1)
    const { result, end } = hanging()
    programs.answers.set('tell', result)
    const name = await allocated(scene, fleet, [], async () => {
      await scene.clock.advance(25 * second)
      const states = (await fleet.servers.list()).map(({ status }) => `${status.state} ${status.health}`)
      expect(states.toSorted()).toEqual(['Active Healthy', 'StandingBy Healthy'])
      end(passed)
    })
    await scene.clock.advance(30 * second)
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(programs.most.ofServer).toBe(1)
  })
})

describe('a session file', () => {
  it('is written by a shell where the game runs, whose input is the session', async () => {
    const { programs, scene, fleet } = await opened({ ...game, session: { file: '$(PF_GAMESERVER_NAME).json' } })
    await untilReady(scene, fleet, 1)
    const name = await allocated(scene, fleet, ['amie'])
    const { command, input = '' } = only(programs.runsOf('sh'))
    expect(command.at(-2)).toBe(`${name}.json`)
    expect(JSON.parse(input)).toEqual({ sessionID: session(1), sessionCookie: 'c', initialPlayers: ['amie'] })
    expect(await serversBy(fleet, 'Active')).toHaveLength(1)
  })

  it('starts a game that waits for it, which is asked nothing before', async () => {
    const session = { file: 'session.json', startsGame: true }
    const { programs, scene, fleet } = await opened({ ...game, session })
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(60 * second)
    expect(programs.runs).toEqual([])
    programs.answers.set('ready', failed)
    const name = await allocated(scene, fleet, [], async () => {
      await scene.clock.advance(10 * second)
      expect(programs.runsOf('sh')).toHaveLength(1)
      expect(programs.runsOf('ready').length).toBeGreaterThan(5)
      programs.answers.delete('ready')
    })
    expect(await stateOf(fleet, name)).toMatchObject({ state: 'Active', health: 'Healthy' })
  })
})
