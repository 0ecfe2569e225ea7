/** What a build may say of a game without an SDK, and what is wrong with the rest. */
import { describe, expect, it } from 'vitest'
import { checkForBackend, readBuildInput } from '../../../src/rules/validation/build-schema.js'

const game = { readiness: { tcp: {} } }
const withoutStdin = { spec: { containers: [{ name: 'game' }] } }

function problemOf(spec: object): string | undefined {
  const container = { name: 'game', image: 'game:1', stdin: true }
  const template = { spec: { containers: [container] } }
  const base = { buildID: 'b', standingBy: 1, max: 2, portsToExpose: [7777], template, sdk: 'none', game }
  const read = readBuildInput({ metadata: { name: 'arena' }, spec: { ...base, ...spec } })
  return read.ok ? undefined : `${read.problem.field} ${read.problem.message}`
}

describe('a game without an SDK', () => {
  it.each([
    {},
    { game: { readiness: { log: 'Done (*s)!' }, end: { log: 'over' } } },
    { game: { readiness: { runningSeconds: 0 } }, portsToExpose: [] },
    { game: { readiness: { udp: { send: 'ffffffff54', expect: 'FF' } } } },
    { game: { readiness: { http: { path: '/ready?x=1', port: 7777 } } } },
    { game: { ...game, session: { stdin: 'x', startsGame: true } } },
    { game: { ...game, players: { query: { protocol: 'a2s' } }, end: { emptySeconds: 60 } } },
    { game: { ...game, players: { http: { path: '/status', field: 'players.0.count' } } } },
    { game: { readiness: { command: ['ready', '$(PORT_7777)', ''] } } },
    { game: { readiness: { command: ['ready'] }, liveness: { command: ['alive', '$$(PORT_1)'] } }, portsToExpose: [] },
    { game: { ...game, session: { command: ['tell', '{sessionID}'] } }, template: withoutStdin },
    {
      game: { ...game, session: { command: ['sh', '-c', 'start "$1"', 'sh', '{players}'] } },
      template: withoutStdin,
    },
    { game: { ...game, session: { file: '/run/$(PF_GAMESERVER_NAME).json' } }, template: withoutStdin },
    {
      game: {
        ...game,
        session: { stdin: 'start {sessionID}' },
        periodSeconds: 60,
        timeoutSeconds: 1,
        failureThreshold: 9,
      },
    },
  ])('%j', (spec) => expect(problemOf(spec)).toBeUndefined())

  it.each([
    [{ sdk: undefined }, 'spec.game is only for a game without an SDK'],
    [{ sdk: 'gsdk' }, 'spec.game is only for a game without an SDK'],
    [{ sdk: 'agones' }, 'spec.sdk must be'],
    [{ game: undefined }, 'spec.game must say how to tell that a game without an SDK is ready'],
    [{ game: {} }, 'spec.game.readiness must be an object with one probe, but is absent'],
    [{ game: { readiness: {} } }, 'spec.game.readiness must have'],
    [{ game: { readiness: { tcp: {}, log: 'x' } } }, 'spec.game.readiness.'],
    [
      { game: { readiness: { tcp: { port: 1 } } } },
      'spec.game.readiness must ask at port 1, which must be in spec.portsToExpose',
    ],
    [{ portsToExpose: [] }, 'spec.game.readiness must ask at a port in spec.portsToExpose, which is empty'],
    [{ game: { ...game, liveness: { tcp: { port: 8 } } } }, 'spec.game.liveness must ask at port 8'],
    [{ game: { ...game, players: { query: { protocol: 'a2s', port: 8 } } } }, 'spec.game.players must ask at port 8'],
    [{ game: { readiness: { udp: { send: 'xyz' } } } }, 'spec.game.readiness.udp.send must be bytes in hexadecimal'],
    [{ game: { readiness: { http: { path: 'health' } } } }, 'spec.game.readiness.http.path must be a path'],
    [{ game: { readiness: { http: { path: '/a b' } } } }, 'spec.game.readiness.http.path must be a path'],
    [{ game: { ...game, end: { emptySeconds: 60 } } }, 'spec.game.end.emptySeconds needs spec.game.players'],
    [{ game: { ...game, end: {} } }, 'spec.game.end must'],
    [{ claimSeconds: 60 }, 'spec.claimSeconds needs spec.game.players'],
    [{ seatsPerSession: 8 }, 'spec.seatsPerSession needs spec.game.players'],
    [{ sessionsPerServer: 2 }, 'spec.sessionsPerServer must be 1 for a game without an SDK'],
    [
      { game: { ...game, session: { stdin: 'x' } }, template: withoutStdin },
      'spec.game.session.stdin needs a standard input',
    ],
    [{ game: { ...game, session: {} } }, 'spec.game.session must have'],
    [{ game: { ...game, session: { stdin: 'x', file: 'y' } } }, 'spec.game.session.'],
    [{ game: { ...game, session: { command: ['', 'a'] } } }, 'spec.game.session.command must begin with a program'],
    [
      { game: { ...game, session: { command: ['/bin/sh', '-c', 'start {players}'] } } },
      'spec.game.session.command[2] must not contain {players}, which the shell would run',
    ],
    [{ game: { ...game, session: { command: [] } } }, 'spec.game.session.command must'],
    [{ game: { readiness: { command: 'ready' } } }, 'spec.game.readiness.command must be a program and its arguments'],
    [{ game: { readiness: { command: ['a\n'] } } }, 'spec.game.readiness.command[0] must'],
    [{ game: { readiness: { command: ['a'], tcp: {} } } }, 'spec.game.readiness.'],
    [{ game: { ...game, players: { command: ['a'] } } }, 'spec.game.players.command'],
    [
      { game: { ...game, liveness: { command: ['a', '$(PORT_8)'] } } },
      'spec.game.liveness.command names $(PORT_8), which is no port in spec.portsToExpose',
    ],
    [{ game: { ...game, session: { file: '$(PORT_8)' } } }, 'spec.game.session.file names $(PORT_8)'],
    [
      { game: { readiness: { runningSeconds: 1 }, session: { stdin: 'x', startsGame: true } } },
      'spec.game.readiness.runningSeconds counts from the start of the process',
    ],
  ])('%j: %s', (spec, problem) => expect(problemOf(spec)).toContain(problem))
})

it.each([
  { readiness: { command: ['ready'] } },
  { ...game, liveness: { command: ['alive'] } },
  { ...game, session: { command: ['tell'] } },
  { ...game, session: { file: 'session.json' } },
])('a backend that runs no commands refuses %j', (refused) => {
  const base = { buildID: 'b', standingBy: 1, max: 2, portsToExpose: [7777], template: withoutStdin, sdk: 'none' }
  const read = readBuildInput({ metadata: { name: 'arena' }, spec: { ...base, game: refused } })
  if (!read.ok) throw new Error(read.problem.message)
  expect(checkForBackend(read.value, 'pod', true).ok).toBe(true)
  const message = expect.stringContaining('needs a backend that runs commands')
  const field = expect.stringMatching(
    /^spec\.game\.(readiness\.command|liveness\.command|session\.command|session\.file)$/,
  )
  expect(checkForBackend(read.value, 'pod', false)).toMatchObject({ ok: false, problem: { field, message } })
})
