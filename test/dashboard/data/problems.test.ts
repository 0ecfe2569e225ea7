/** What is wrong, as the page reads it from its host: when it reads, and in which order builds follow. */
import { beforeEach, describe, expect, it } from 'vitest'
import { emptyModel, type Model, type StreamedEvent, withBuild } from '../../../src/dashboard/page/data/model.js'
import { type KnownProblems, nothingRead, problemReader } from '../../../src/dashboard/page/data/problem-reader.js'
import { mayChangeProblems, severityOf, worstFirst } from '../../../src/dashboard/page/data/problems.js'
import { readinessOf } from '../../../src/dashboard/page/data/readiness.js'
import { reduce } from '../../../src/dashboard/page/data/reduce.js'
import { FleetError } from '../../../src/index.js'
import type { FleetProblem } from '../../../src/rules/model/problems.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import { advance, fakeTimers } from './fake-timers.js'

const ref = (name: string) => ({ namespace: 'default', name })
const buildOf = (name: string, spec: object = {}, status: object = {}): GameServerBuild => ({
  apiVersion: 'v1',
  kind: 'GameServerBuild',
  metadata: ref(name),
  spec: { buildID: name, standingBy: 6, max: 12, portsToExpose: [], template: {}, ...spec },
  status: {
    currentActive: 0,
    currentStandingBy: 0,
    crashesCount: 0,
    currentPending: 0,
    currentInitializing: 0,
    health: 'Healthy',
    currentStandingByReadyDesired: '0/6',
    ...status,
  },
})
const problem = (name: string, severity: FleetProblem['severity']): FleetProblem => ({
  severity,
  kind: 'Crashing',
  title: `${name} is crashing`,
  action: 'Read the log.',
  build: ref(name),
})
let seq = 0
const about = (build: string, server: string) => ({
  seq: ++seq,
  at: 0,
  message: '',
  build: ref(build),
  server: ref(server),
})
const active = (build: string, server: string): StreamedEvent => ({
  type: 'ServerStateChanged',
  ...about(build, server),
  from: 'StandingBy',
  to: 'Active',
})

describe('what may have changed', () => {
  const model: Model = withBuild(withBuild(emptyModel, buildOf('arena', { max: 1 })), buildOf('duel'))

  it.each<readonly [string, boolean, StreamedEvent]>([
    ['a server of a healthy build', false, active('duel', 'd-1')],
    ['a server of a build that has a problem', true, active('lobby', 'l-1')],
    ['players', false, { type: 'PlayersChanged', ...about('lobby', 'l-1'), players: [] }],
    ['a server that is unhealthy', true, { type: 'ServerHealthChanged', ...about('duel', 'd-1'), health: 'Unhealthy' }],
    ['a server that is healthy', false, { type: 'ServerHealthChanged', ...about('duel', 'd-1'), health: 'Healthy' }],
    ['the spec of a build', true, { type: 'BuildUpdated', seq: 1, at: 0, message: '', build: ref('duel') }],
    ['the backend', true, { type: 'BackendUnavailable', seq: 1, at: 0, message: '' }],
    ['events that are lost', true, { type: 'EventsDropped', seq: 1, from: 1, message: '' }],
  ])('after an event about %s: %s', (_, expected, event) => {
    expect(mayChangeProblems(model, [problem('lobby', 'down')], [event])).toBe(expected)
  })

  it('after an event about a server of a build that has reached its max: true', () => {
    const event = active('arena', 'a-1')
    expect(mayChangeProblems(reduce(model, [event]), [], [event])).toBe(true)
  })
})

it('builds follow the order of their problems, the worst first, and then their names', () => {
  const builds = ['zeta', 'arena', 'practice', 'duel', 'lobby'].map((name) => buildOf(name))
  const known = [problem('duel', 'down'), problem('zeta', 'degraded'), problem('practice', 'drained')]
  expect(worstFirst(builds, known).map(({ metadata }) => metadata.name)).toEqual([
    ...['duel', 'zeta', 'practice'],
    ...['arena', 'lobby'],
  ])
  expect(severityOf(known, ref('zeta'))).toBe('degraded')
  expect(severityOf(known, ref('arena'))).toBeUndefined()
})

const counts = (Active: number, StandingBy: number, Initializing = 0) => ({
  ...{ Active, StandingBy, Initializing, Pending: 0, Terminating: 0 },
})
const draining = { conditions: [{ type: 'Draining', status: 'True', reason: '', message: '', lastTransitionTime: '' }] }

it.each([
  ['3 of 6 ready', 'amber', false, buildOf('a'), counts(0, 3)],
  ['6 of 6 ready', 'good', false, buildOf('a'), counts(6, 6)],
  ['0 of 6 ready', 'red', false, buildOf('a'), counts(2, 0)],
  ['0 of 6 ready', 'red', true, buildOf('a'), counts(12, 0)],
  ['2 of 6 ready', 'amber', true, buildOf('a'), counts(10, 2)],
  ['2 of 6 ready', 'amber', false, buildOf('a'), counts(6, 2, 4)],
  ['0 of 0 ready', 'grey', false, buildOf('a', { standingBy: 0 }), counts(1, 0)],
  ['0 of 6 ready', 'grey', false, buildOf('a', {}, draining), counts(12, 0)],
  ['2 of 3 ready', 'amber', false, buildOf('a', {}, { scaling: { standingBy: 3 } }), counts(0, 2)],
  ['0 of 0 ready', 'grey', false, buildOf('a', {}, { scaling: { standingBy: 0 } }), counts(0, 0)],
])('a card says %s in %s, max reached: %s', (text, colour, isMaxReached, build, of) => {
  expect(readinessOf(build, of)).toEqual({ text, colour, isMaxReached })
})

describe('the reader', () => {
  beforeEach(fakeTimers)

  function reader() {
    const state: { value: KnownProblems } = { value: nothingRead }
    const asked: { resolve(list: readonly FleetProblem[]): void; reject(error: Error): void }[] = []
    const problems = () =>
      new Promise<readonly FleetProblem[]>((resolve, reject) => void asked.push({ resolve, reject }))
    const running = new AbortController()
    const reading = problemReader({ problems }, state)
    reading.restart(running.signal)
    return { state, asked, reading }
  }

  it('reads at once, and after a burst of changes once more, a second later', async () => {
    const { state, asked, reading } = reader()
    await advance(0)
    expect(asked).toHaveLength(1)
    asked[0]?.resolve([])
    for (let n = 0; n < 9; n++) reading.request()
    await advance(999)
    expect(asked).toHaveLength(1)
    await advance(1)
    expect(asked).toHaveLength(2)
    asked[1]?.resolve([problem('arena', 'down')])
    await advance(60_000)
    expect(asked).toHaveLength(2)
    expect(state.value).toEqual({ list: [problem('arena', 'down')] })
  })

  it('reads again what has changed while it was reading', async () => {
    const { asked, reading } = reader()
    await advance(1_000)
    reading.request()
    await advance(5_000)
    expect(asked).toHaveLength(1)
    asked[0]?.resolve([])
    await advance(1_000)
    expect(asked).toHaveLength(2)
  })

  it('says since when it cannot read, keeps what it knows, and tries again', async () => {
    const { state, asked, reading } = reader()
    await advance(0)
    const readAt = Date.now()
    asked[0]?.resolve([problem('arena', 'down')])
    await advance(2_000)
    reading.request()
    await advance(0)
    asked[1]?.reject(new FleetError('unavailable', 'the store is away'))
    await advance(0)
    expect(state.value).toMatchObject({
      list: [problem('arena', 'down')],
      failure: { at: readAt, error: { message: 'the store is away' } },
    })
    await advance(6_000)
    asked[2]?.resolve([])
    await advance(0)
    expect(state.value).toEqual({ list: [] })
  })

  it('forgets an answer to an earlier connection', async () => {
    const { state, asked, reading } = reader()
    await advance(0)
    reading.restart(new AbortController().signal)
    asked[0]?.resolve([problem('arena', 'down')])
    await advance(2_000)
    expect(state.value).toEqual(nothingRead)
    asked[1]?.resolve([])
    await advance(0)
    expect(state.value).toEqual({ list: [] })
  })
})
