/** Decisions, "Life of a server": every row, in every state. */
import { isDeepStrictEqual } from 'node:util'
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { gameStates } from '../../../src/rules/game/heartbeat.js'
import {
  callsForPause,
  isIdle,
  type ServerEvent,
  transition,
  wasRefused,
} from '../../../src/rules/lifecycle/lifecycle.js'
import { type EndingReason, type Server, serverStates, type ServerState } from '../../../src/rules/model/resources.js'
import { aServer, createdAt, frozen, place, session } from '../support.js'

const now = createdAt + 60_000

type Outcome = 'unchanged' | Partial<Server>

const becomesInitializing = { state: 'Initializing', reachedInitializingOn: now } as const
const removed = (reason: EndingReason, crash: boolean, message: string): Outcome => ({
  state: 'Terminating',
  ending: { reason, crash, message, at: now },
})
const says = (claims: (typeof gameStates)[number], health: 'Healthy' | 'Unhealthy' = 'Healthy'): ServerEvent => ({
  type: 'heartbeat',
  claims,
  health,
})

interface Row {
  readonly row: string
  readonly event: ServerEvent
  readonly Pending: Outcome
  readonly Initializing: Outcome
  readonly StandingBy: Outcome
  readonly Active: Outcome
  /** Left out where nothing changes: what ends stays as it ended. */
  readonly Terminating?: Outcome
}

/** A row with one outcome for all states, or one for those in which nobody plays and one for Active. */
const inAnyState = (row: string, event: ServerEvent, outcome: Outcome): Row => ifIdle(row, event, outcome, outcome)
const ifIdle = (row: string, event: ServerEvent, idle: Outcome, active: Outcome): Row => ({
  row,
  event,
  Pending: idle,
  Initializing: idle,
  StandingBy: idle,
  Active: active,
})

const alive = { health: 'Healthy' } as const
const ready = { state: 'StandingBy', health: 'Healthy', reachedStandingByOn: now } as const

const rows: readonly Row[] = [
  {
    row: 'Pending | its process runs | Initializing',
    event: { type: 'running', ...place },
    Pending: { ...place, ...becomesInitializing },
    Initializing: 'unchanged',
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'its process runs, nobody knows where yet',
    event: { type: 'running', ports: [] },
    Pending: becomesInitializing,
    Initializing: 'unchanged',
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'its process runs at another address',
    event: { type: 'running', address: '203.0.113.10', node: 'node-1', ports: place.ports },
    Pending: { ...place, address: '203.0.113.10', ...becomesInitializing },
    Initializing: { address: '203.0.113.10' },
    StandingBy: { address: '203.0.113.10' },
    Active: { address: '203.0.113.10' },
  },
  {
    row: 'its process runs with other ports on another node',
    event: { type: 'running', node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    Pending: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }], ...becomesInitializing },
    Initializing: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    StandingBy: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    Active: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
  },
  {
    row: 'Pending, Initializing | heartbeat StandingBy | StandingBy; Active lags and stays',
    event: says('StandingBy'),
    Pending: { ...ready, reachedInitializingOn: now },
    Initializing: ready,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  ...(['Initializing', 'Invalid'] as const).map((claims): Row => ({
    row: `heartbeat ${claims}: a sign of life, and a state never goes backwards`,
    event: says(claims),
    Pending: { ...alive, ...becomesInitializing },
    Initializing: alive,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  })),
  {
    row: 'heartbeat Active: no game makes itself Active',
    event: says('Active'),
    Pending: { ...alive, ...becomesInitializing },
    Initializing: alive,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'heartbeat that is believed to be Unhealthy',
    event: says('StandingBy', 'Unhealthy'),
    Pending: { ...ready, health: 'Unhealthy', reachedInitializingOn: now },
    Initializing: { ...ready, health: 'Unhealthy' },
    StandingBy: { health: 'Unhealthy' },
    Active: { health: 'Unhealthy' },
  },
  ...(['Terminating', 'Terminated', 'Quarantined'] as const).map((claims) =>
    ifIdle(
      `heartbeat ${claims}: is not handed out any more; a match goes on`,
      says(claims),
      removed('Exited', false, `the game reported the state ${claims}`),
      'unchanged',
    ),
  ),
  {
    row: 'StandingBy | allocation | Active',
    event: { type: 'allocated', session },
    Pending: 'unchanged',
    Initializing: 'unchanged',
    StandingBy: { state: 'Active', session, reachedActiveOn: now },
    Active: 'unchanged',
  },
  inAnyState(
    'any | process exits 0 | removed; not a crash',
    { type: 'exited', exitCode: 0 },
    removed('Exited', false, 'the process exited with code 0'),
  ),
  inAnyState(
    'any | process exits otherwise | removed; one crash',
    { type: 'exited', exitCode: 1, reason: 'out of memory' },
    removed('NonZeroExit', true, 'the process exited with code 1: out of memory'),
  ),
  inAnyState(
    'any | process is killed | removed; one crash',
    { type: 'exited', exitCode: 137 },
    removed('NonZeroExit', true, 'the process exited with code 137'),
  ),
  inAnyState(
    'any | process went down with its engine | removed; not a crash, whatever its code',
    { type: 'exited', exitCode: 137, reason: 'the Docker engine went down', interrupted: true },
    removed('Gone', false, 'the process was interrupted with its engine or machine: the Docker engine went down'),
  ),
  ifIdle(
    'any | process ends with a code that nobody knows | removed; one crash before Active',
    { type: 'exited' },
    removed('Gone', true, 'the process ended with an unknown exit code'),
    removed('Gone', false, 'the process ended with an unknown exit code'),
  ),
  ifIdle(
    'any | is gone for an unknown reason before Active | removed; one crash',
    { type: 'gone' },
    removed('Gone', true, 'its instance disappeared'),
    removed('Gone', false, 'its instance disappeared'),
  ),
  ifIdle(
    'Pending, Initializing, StandingBy | no first heartbeat within 60 s of running | removed; one crash',
    { type: 'silent', spoke: false, limitMs: 60_000 },
    removed('NeverSpoke', true, 'no heartbeat within 60 s of process start'),
    { health: 'Unhealthy' },
  ),
  ifIdle(
    'Pending, Initializing, StandingBy | silent for 10 s after one | removed; one crash; Active is Unhealthy and stays',
    { type: 'silent', spoke: true, limitMs: 10_000 },
    removed('Silent', true, 'no heartbeat for 10 s'),
    { health: 'Unhealthy' },
  ),
  {
    row: 'Pending, Initializing | not standing by within the limit of its build | removed; one crash',
    event: { type: 'neverReady', limitMs: 90_000 },
    Pending: removed('NeverReady', true, 'not standing by within 90 s of process start'),
    Initializing: removed('NeverReady', true, 'not standing by within 90 s of process start'),
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  inAnyState(
    'Active for longer than its build allows | Terminating; not a crash',
    { type: 'end', reason: 'SessionTooLong', message: 'its session lasts too long' },
    removed('SessionTooLong', false, 'its session lasts too long'),
  ),
  inAnyState(
    'an operator drains it | Terminating; not a crash',
    { type: 'end', reason: 'Drained', message: 'it is drained' },
    removed('Drained', false, 'it is drained'),
  ),
  ifIdle(
    'StandingBy and before | the game reports Unhealthy, 3 beats running | removed; one crash',
    { type: 'reportedUnhealthy', reports: 3 },
    removed('ReportedUnhealthy', true, 'the game reported Unhealthy 3 times in a row'),
    { health: 'Unhealthy' },
  ),
  inAnyState(
    'any | delete through the API | Terminating',
    { type: 'end', reason: 'Deleted', message: 'deleted by an operator' },
    removed('Deleted', false, 'deleted by an operator'),
  ),
  inAnyState(
    'build deleted | all its servers, Active ones included | Terminating',
    { type: 'end', reason: 'BuildDeleted', message: 'build arena was deleted' },
    removed('BuildDeleted', false, 'build arena was deleted'),
  ),
  ...(['ScaledDown', 'Replaced'] as const).map((reason) =>
    ifIdle(
      `idle | ${reason} | Terminating; an Active server is never removed by scaling`,
      { type: 'end', reason, message: 'too many' },
      removed(reason, false, 'too many'),
      'unchanged',
    ),
  ),
]

const cases = rows.flatMap((row) =>
  serverStates.map((state) => ({
    name: `${row.row} — from ${state}`,
    state,
    event: frozen(row.event),
    outcome: row[state] ?? 'unchanged',
  })),
)

describe('transition', () => {
  it.each(cases)('$name', ({ state, event, outcome }) => {
    const before = aServer(state)
    const after = transition(before, event, now)
    if (outcome === 'unchanged') expect(after).toBe(before)
    else expect(after).toEqual({ ...before, ...outcome })
  })

  it('keeps the session that a server was handed to first', () => {
    const other = frozen({ id: 'B3E5C8C0-0000-4000-8000-0000000000FF', initialPlayers: [] })
    const active = transition(aServer('StandingBy'), { type: 'allocated', session }, now)
    expect(transition(active, { type: 'allocated', session: other }, now + 1)).toBe(active)
  })

  it('keeps the first ending: a kill after a delete is no crash', () => {
    const ending = transition(aServer('Active'), { type: 'end', reason: 'Deleted', message: 'deleted' }, now)
    expect(transition(ending, { type: 'exited', exitCode: 137 }, now + 1)).toBe(ending)
    expect(transition(ending, { type: 'gone' }, now + 1)).toBe(ending)
  })

  it('lets a silent Active server be Healthy again when it speaks', () => {
    const silent = transition(aServer('Active'), { type: 'silent', spoke: true, limitMs: 10_000 }, now)
    expect(silent).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    expect(transition(silent, says('Active'), now)).toEqual(aServer('Active'))
  })

  it('takes ports of other numbers, and one port more, as news', () => {
    const running = (ports: typeof place.ports): ServerEvent => ({ type: 'running', ...place, ports })
    const two = [...place.ports, { container: 7778, public: 10_004 }]
    expect(transition(aServer('StandingBy'), running(two), now).ports).toEqual(two)
    const moved = [{ container: 7778, public: 10_003 }]
    expect(transition(aServer('StandingBy'), running(moved), now).ports).toEqual(moved)
  })
})

describe('isIdle', () => {
  it.each<[ServerState, boolean]>([
    ['Pending', true],
    ['Initializing', true],
    ['StandingBy', true],
    ['Active', false],
    ['Terminating', false],
  ])('of a server that is %s is %s', (state, idle) => {
    expect(isIdle(aServer(state))).toBe(idle)
  })
})

const anyEvent: fc.Arbitrary<ServerEvent> = fc.oneof(
  { arbitrary: fc.constantFrom(...rows.map(({ event }) => event)), weight: 3 },
  fc.record({ type: fc.constant('heartbeat' as const), claims: fc.constantFrom(...gameStates), health: health() }),
  fc.record({
    type: fc.constant('running' as const),
    ...{ address: fc.constantFrom('203.0.113.9', '203.0.113.10') },
    ports: fc.constantFrom([], place.ports, [{ container: 7777, public: 10_004 }]),
  }),
)

function health(): fc.Arbitrary<'Healthy' | 'Unhealthy'> {
  return fc.constantFrom('Healthy', 'Unhealthy')
}

describe('whatever happens to a server, in whatever order', () => {
  const order = (server: Server) => serverStates.indexOf(server.state)

  test.prop([fc.array(anyEvent, { maxLength: 20 })])('it only ever goes on, and its record is true', (events) => {
    let server = aServer('Pending')
    for (const [i, event] of events.entries()) {
      const next = frozen(transition(server, event, now + i))
      expect(next === server || !isDeepStrictEqual(next, server), 'an equal record is the same record').toBe(true)
      expect(order(next)).toBeGreaterThanOrEqual(order(server))
      expect(next.ending !== undefined).toBe(next.state === 'Terminating')
      if (next.state === 'Active') expect(next.session).toBe(session)
      if (isIdle(next)) expect(next.session).toBeUndefined()
      expect(next.reachedActiveOn !== undefined).toBe(next.session !== undefined)
      expect(next.state === 'Pending' && next.reachedInitializingOn !== undefined).toBe(false)
      server = next
    }
  })

  test.prop([fc.array(anyEvent, { maxLength: 20 })])(
    'an Active server is never ended by scaling or by a change of its template',
    (events) => {
      let server = aServer('Active')
      for (const event of events) server = transition(server, event, now)
      const ends = ['Exited', 'NonZeroExit', 'Gone', 'Deleted', 'BuildDeleted', 'Drained', 'SessionTooLong']
      expect(server.ending === undefined || ends.includes(server.ending.reason)).toBe(true)
    },
  )
})

describe('the successor of a server that ended', () => {
  const machineRefused: ServerEvent = { type: 'exited', interrupted: true, reason: 'OutOfcpu' }
  it.each<[string, ServerState, ServerEvent, { readonly waits: boolean; readonly refused: boolean }]>([
    ['crashed', 'Initializing', { type: 'exited', exitCode: 1 }, { waits: true, refused: false }],
    [
      'exited though nobody had played on it',
      'StandingBy',
      { type: 'exited', exitCode: 0 },
      { waits: true, refused: false },
    ],
    ['exited after its match', 'Active', { type: 'exited', exitCode: 0 }, { waits: false, refused: false }],
    ['no machine took', 'Pending', machineRefused, { waits: true, refused: true }],
    ['its machine lost before it stood by', 'Initializing', machineRefused, { waits: true, refused: true }],
    ['its machine lost while it stood by', 'StandingBy', machineRefused, { waits: false, refused: false }],
    ['its machine lost with a match on it', 'Active', machineRefused, { waits: false, refused: false }],
    [
      'scaling took',
      'Initializing',
      { type: 'end', reason: 'ScaledDown', message: 'too many' },
      { waits: false, refused: false },
    ],
  ])('waits, or not: one that %s', (_, state, event, { waits, refused }) => {
    const ended = transition(aServer(state), event, now)
    expect(ended.state).toBe('Terminating')
    expect([callsForPause(ended), wasRefused(ended)]).toEqual([waits, refused])
  })

  it('is not asked about while a server goes on', () => {
    for (const state of ['Pending', 'StandingBy', 'Active'] as const) {
      expect([callsForPause(aServer(state)), wasRefused(aServer(state))]).toEqual([false, false])
    }
  })
})
