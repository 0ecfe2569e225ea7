/** Transitions of a server: every event in every state. */
import { isDeepStrictEqual } from 'node:util'
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { gameStates } from '../../../src/rules/game/heartbeat.js'
import {
  disappearedBeforeStandingBy,
  isIdle,
  needsBackoff,
  type ServerEvent,
  transition,
} from '../../../src/rules/lifecycle/lifecycle.js'
import { endedNumber, lastNumber } from '../../../src/rules/lifecycle/server-sessions.js'
import { type EndingReason, type Server, type ServerState, serverStates } from '../../../src/rules/model/resources.js'
import { aServer, createdAt, frozen, place, running, session } from '../support.js'

const now = createdAt + 60_000

type Outcome = 'unchanged' | Partial<Server>

const becomesInitializing = { state: 'Initializing', reachedInitializingOn: now } as const
const removed = (reason: EndingReason, crash: boolean, message: string, exitCode?: number): Outcome => ({
  state: 'Terminating',
  ending: { reason, crash, message, at: now, ...(exitCode !== undefined && { exitCode }) },
})
const says = (gameState: (typeof gameStates)[number], health: 'Healthy' | 'Unhealthy' = 'Healthy'): ServerEvent => ({
  type: 'heartbeat',
  gameState,
  health,
})

interface Row {
  readonly row: string
  readonly event: ServerEvent
  readonly Pending: Outcome
  readonly Initializing: Outcome
  readonly StandingBy: Outcome
  readonly Active: Outcome
  /** Default: unchanged. */
  readonly Terminating?: Outcome
}

/** A row with the same outcome for all states. `ifIdle` has a different outcome for Active. */
const inAnyState = (row: string, event: ServerEvent, outcome: Outcome): Row => ifIdle(row, event, outcome, outcome)
const ifIdle = (row: string, event: ServerEvent, idle: Outcome, active: Outcome): Row => ({
  row,
  event,
  Pending: idle,
  Initializing: idle,
  StandingBy: idle,
  Active: active,
})

/** A server that was never standing by has failed to start. */
const ifReady = (row: string, event: ServerEvent, starting: Outcome, standingBy: Outcome, active: Outcome): Row => ({
  ...{ row, event, Pending: starting, Initializing: starting, StandingBy: standingBy, Active: active },
})

const alive = { health: 'Healthy' } as const
const ready = { state: 'StandingBy', health: 'Healthy', reachedStandingByOn: now } as const

const rows: readonly Row[] = [
  {
    row: 'process running: Pending becomes Initializing',
    event: { type: 'running', ...place },
    Pending: { ...place, ...becomesInitializing },
    Initializing: 'unchanged',
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'process running without an address',
    event: { type: 'running', ports: [] },
    Pending: becomesInitializing,
    Initializing: 'unchanged',
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'process running at another address',
    event: { type: 'running', address: '203.0.113.10', node: 'node-1', ports: place.ports },
    Pending: { ...place, address: '203.0.113.10', ...becomesInitializing },
    Initializing: { address: '203.0.113.10' },
    StandingBy: { address: '203.0.113.10' },
    Active: { address: '203.0.113.10' },
  },
  {
    row: 'process running with other ports on another node',
    event: { type: 'running', node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    Pending: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }], ...becomesInitializing },
    Initializing: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    StandingBy: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
    Active: { node: 'node-2', ports: [{ container: 7777, public: 10_004 }] },
  },
  {
    row: 'heartbeat StandingBy: Pending and Initializing become StandingBy; Active stays',
    event: says('StandingBy'),
    Pending: { ...ready, reachedInitializingOn: now },
    Initializing: ready,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  ...(['Initializing', 'Invalid'] as const).map((gameState): Row => ({
    row: `heartbeat ${gameState}: the server is alive, and no state goes back`,
    event: says(gameState),
    Pending: { ...alive, ...becomesInitializing },
    Initializing: alive,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  })),
  {
    row: 'heartbeat Active: a game cannot make itself Active',
    event: says('Active'),
    Pending: { ...alive, ...becomesInitializing },
    Initializing: alive,
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  {
    row: 'a match found without a session: the server becomes Active',
    event: { type: 'foundActive', health: 'Healthy' },
    Pending: { ...ready, state: 'Active', reachedInitializingOn: now, reachedActiveOn: now },
    Initializing: { ...ready, state: 'Active', reachedActiveOn: now },
    StandingBy: { state: 'Active', reachedActiveOn: now },
    Active: 'unchanged',
  },
  {
    row: 'Unhealthy heartbeat',
    event: says('StandingBy', 'Unhealthy'),
    Pending: { ...ready, health: 'Unhealthy', reachedInitializingOn: now },
    Initializing: { ...ready, health: 'Unhealthy' },
    StandingBy: { health: 'Unhealthy' },
    Active: { health: 'Unhealthy' },
  },
  ...(['Terminating', 'Terminated', 'Quarantined'] as const).map((gameState) =>
    ifReady(
      `heartbeat ${gameState}: an idle server terminates, a crash if it was never ready; a match goes on`,
      says(gameState),
      removed('Exited', true, `the game reported the state ${gameState} before it was ready`),
      removed('Exited', false, `the game reported the state ${gameState}`),
      'unchanged',
    ),
  ),
  {
    row: 'allocation: StandingBy becomes Active, and Active gets a further session',
    event: { type: 'allocated', session },
    Pending: 'unchanged',
    Initializing: 'unchanged',
    StandingBy: {
      state: 'Active',
      sessions: [{ ...running, startedAt: now }],
      startedSessions: 1,
      reachedActiveOn: now,
    },
    Active: {
      sessions: [running, { ...running, number: 2, startedAt: now }],
      startedSessions: 2,
    },
  },
  {
    row: 'its game ends its session: the server is standing by again, as the last that became ready',
    event: { type: 'sessionsEnded', ended: [{ sessionID: session.id, number: 1 }] },
    Pending: 'unchanged',
    Initializing: 'unchanged',
    StandingBy: 'unchanged',
    Active: {
      state: 'StandingBy',
      sessions: [],
      reachedStandingByOn: now,
      reachedActiveOn: undefined,
    },
  },
  ifReady(
    'process exited with 0: Terminating, a crash if it was never ready',
    { type: 'exited', exitCode: 0 },
    removed('Exited', true, 'the process exited with code 0 before it was ready'),
    removed('Exited', false, 'the process exited with code 0'),
    removed('Exited', false, 'the process exited with code 0'),
  ),
  inAnyState(
    'process exited with another code: Terminating, a crash',
    { type: 'exited', exitCode: 1, reason: 'out of memory' },
    removed('NonZeroExit', true, 'the process exited with code 1: out of memory', 1),
  ),
  inAnyState(
    'process killed: Terminating, a crash',
    { type: 'exited', exitCode: 137 },
    removed('NonZeroExit', true, 'the process exited with code 137', 137),
  ),
  {
    ...inAnyState(
      'process interrupted: Terminating, not a crash, with any exit code',
      { type: 'exited', exitCode: 137, reason: 'the Docker engine went down', interrupted: true },
      removed('Gone', false, 'the process was interrupted with its engine or machine: the Docker engine went down'),
    ),
    Pending: removed('Gone', false, 'it could not start: the Docker engine went down'),
  },
  ifIdle(
    'process ended with an unknown code: Terminating, a crash unless Active',
    { type: 'exited' },
    removed('Gone', true, 'the process ended with an unknown exit code'),
    removed('Gone', false, 'the process ended with an unknown exit code'),
  ),
  ifIdle(
    'instance gone: Terminating, a crash unless Active',
    { type: 'gone' },
    removed('Gone', true, 'its instance disappeared'),
    removed('Gone', false, 'its instance disappeared'),
  ),
  ifIdle(
    'no first heartbeat within 60 s: Terminating, a crash; Active becomes Unhealthy',
    { type: 'silent', hasSentHeartbeats: false, limitMs: 60_000 },
    removed('NeverSpoke', true, 'no heartbeat within 60 s of process start'),
    { health: 'Unhealthy' },
  ),
  ifIdle(
    'silent for 10 s after a heartbeat: Terminating, a crash; Active becomes Unhealthy',
    { type: 'silent', hasSentHeartbeats: true, limitMs: 10_000 },
    removed('Silent', true, 'no heartbeat for 10 s'),
    { health: 'Unhealthy' },
  ),
  {
    row: 'not standing by within the limit: Terminating, a crash',
    event: { type: 'neverReady', limitMs: 90_000 },
    Pending: removed('NeverReady', true, 'not standing by within 90 s of process start'),
    Initializing: removed('NeverReady', true, 'not standing by within 90 s of process start'),
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  inAnyState(
    'session too long: Terminating, not a crash',
    { type: 'end', reason: 'SessionTooLong', message: 'its session lasts too long' },
    removed('SessionTooLong', false, 'its session lasts too long'),
  ),
  inAnyState(
    'drained: Terminating, not a crash',
    { type: 'end', reason: 'Drained', message: 'it is drained' },
    removed('Drained', false, 'it is drained'),
  ),
  ifIdle(
    '3 consecutive Unhealthy reports: Terminating, a crash; Active becomes Unhealthy',
    { type: 'reportedUnhealthy', reports: 3 },
    removed('ReportedUnhealthy', true, 'the game reported Unhealthy 3 times in a row'),
    { health: 'Unhealthy' },
  ),
  inAnyState(
    'deleted through the API: Terminating',
    { type: 'end', reason: 'Deleted', message: 'deleted by an operator' },
    removed('Deleted', false, 'deleted by an operator'),
  ),
  inAnyState(
    'build deleted: Terminating, including Active servers',
    { type: 'end', reason: 'BuildDeleted', message: 'build arena was deleted' },
    removed('BuildDeleted', false, 'build arena was deleted'),
  ),
  {
    row: 'Late: Terminating if it is still starting; a server that has come stays',
    event: { type: 'end', reason: 'Late', message: 'not standing by after 60 s' },
    Pending: removed('Late', false, 'not standing by after 60 s'),
    Initializing: removed('Late', false, 'not standing by after 60 s'),
    StandingBy: 'unchanged',
    Active: 'unchanged',
  },
  ...(['ScaledDown', 'Replaced'] as const).map((reason) =>
    ifIdle(
      `${reason}: Terminating; an Active server stays`,
      { type: 'end', reason, message: 'too many' },
      removed(reason, false, 'too many'),
      'unchanged',
    ),
  ),
]

const cases = rows.flatMap((row) =>
  serverStates.map((state) => ({
    name: `${row.row} (from ${state})`,
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

  it('keeps the first termination reason: a kill after a delete is not a crash', () => {
    const ending = transition(aServer('Active'), { type: 'end', reason: 'Deleted', message: 'deleted' }, now)
    expect(transition(ending, { type: 'exited', exitCode: 137 }, now + 1)).toBe(ending)
    expect(transition(ending, { type: 'gone' }, now + 1)).toBe(ending)
  })

  it('makes an Active server whose heartbeats stopped Healthy again after a heartbeat', () => {
    const silent = transition(aServer('Active'), { type: 'silent', hasSentHeartbeats: true, limitMs: 10_000 }, now)
    expect(silent).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    expect(transition(silent, says('Active'), now)).toEqual(aServer('Active'))
  })

  it('updates ports when a port number changes or a port is added', () => {
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
  ])('of a server in state %s is %s', (state, idle) => {
    expect(isIdle(aServer(state))).toBe(idle)
  })
})

const anyEvent: fc.Arbitrary<ServerEvent> = fc.oneof(
  { arbitrary: fc.constantFrom(...rows.map(({ event }) => event)), weight: 3 },
  fc.record({ type: fc.constant('heartbeat' as const), gameState: fc.constantFrom(...gameStates), health: health() }),
  fc.record({
    type: fc.constant('running' as const),
    ...{ address: fc.constantFrom('203.0.113.9', '203.0.113.10') },
    ports: fc.constantFrom([], place.ports, [{ container: 7777, public: 10_004 }]),
  }),
)

function health(): fc.Arbitrary<'Healthy' | 'Unhealthy'> {
  return fc.constantFrom('Healthy', 'Unhealthy')
}

describe('any sequence of events', () => {
  const order = (server: Server) => serverStates.indexOf(server.state)

  test.prop([fc.array(anyEvent, { maxLength: 20 })])(
    'moves a server back only when its game has ended its session, and keeps its record consistent',
    (events) => {
      let server = aServer('Pending')
      for (const [i, event] of events.entries()) {
        const next = frozen(transition(server, event, now + i))
        expect(next === server || !isDeepStrictEqual(next, server), 'an equal record is the same record').toBe(true)
        if (event.type !== 'sessionsEnded') expect(order(next)).toBeGreaterThanOrEqual(order(server))
        expect(lastNumber(next)).toBeGreaterThanOrEqual(lastNumber(server))
        expect(endedNumber(next)).toBeGreaterThanOrEqual(endedNumber(server))
        expect(next.ending !== undefined).toBe(next.state === 'Terminating')
        const isFound = events.some(({ type }) => type === 'foundActive')
        if (next.state === 'Active' && !isFound) expect(next.sessions[0]).toMatchObject(session)
        if (isIdle(next)) expect(next.sessions[0]).toBeUndefined()
        if (next.sessions[0] || !isFound)
          expect(next.reachedActiveOn !== undefined).toBe(next.sessions[0] !== undefined)
        expect(next.state === 'Pending' && next.reachedInitializingOn !== undefined).toBe(false)
        server = next
      }
    },
  )

  test.prop([fc.array(anyEvent, { maxLength: 20 })])(
    'never terminates an Active server for scaling or a rolling update',
    (events) => {
      const ends = ['Exited', 'NonZeroExit', 'Gone', 'Deleted', 'BuildDeleted', 'Drained', 'SessionTooLong']
      let server = aServer('Active')
      for (const event of events) {
        // Its game may end the session, and then it is idle.
        const wasActive = server.state === 'Active'
        server = transition(server, event, now)
        if (wasActive && server.ending) expect(ends).toContain(server.ending.reason)
      }
    },
  )
})

describe('an exit of a server that may have started while the agent was away', () => {
  const exits = (fields: { exitCode?: number; reason?: string; interrupted?: true }): ServerEvent => ({
    type: 'exited',
    agentWasAway: true,
    ...fields,
  })

  it.each([
    ['with an error', 'Initializing', exits({ exitCode: 1 }), 'the process exited with code 1'],
    ['with an error, before this host saw it run', 'Pending', exits({ exitCode: 1 }), 'the process exited with code 1'],
    ['with an unknown code', 'Initializing', exits({}), 'the process ended with an unknown exit code'],
  ] as const)(
    'before its first heartbeat, %s, is not a crash and delays no replacement',
    (_how, state, event, what) => {
      const after = transition(aServer(state, { health: 'Unknown' }), event, now)
      expect(after.ending).toEqual({
        reason: 'AgentAway',
        message: `${what} before it could reach its agent, which was away`,
        crash: false,
        at: now,
      })
      expect([needsBackoff(after), disappearedBeforeStandingBy(after)]).toEqual([false, false])
    },
  )

  it('keeps the reason that the backend gives', () => {
    const after = transition(aServer('Pending', { health: 'Unknown' }), exits({ exitCode: 1, reason: 'Error' }), now)
    expect(after.ending?.message).toBe(
      'the process exited with code 1 before it could reach its agent, which was away: Error',
    )
  })

  it.each([
    [
      'after its first heartbeat',
      aServer('Initializing', { health: 'Healthy' }),
      exits({ exitCode: 1 }),
      'NonZeroExit',
      true,
    ],
    ['during its session', aServer('Active'), exits({ exitCode: 1 }), 'NonZeroExit', true],
    [
      'with code 0 after it was ready',
      aServer('StandingBy', { health: 'Unknown' }),
      exits({ exitCode: 0 }),
      'Exited',
      false,
    ],
    ['with its machine', aServer('Pending', { health: 'Unknown' }), exits({ interrupted: true }), 'Gone', false],
  ] as const)('%s is treated as usual', (_when, server, event, reason, crash) => {
    expect(transition(server, event, now).ending).toMatchObject({ reason, crash })
  })

  it('counts as a crash if the agent was there', () => {
    const after = transition(aServer('Pending', { health: 'Unknown' }), { type: 'exited', exitCode: 1 }, now)
    expect(after.ending).toMatchObject({ reason: 'NonZeroExit', crash: true })
  })
})

describe('the replacement of a server', () => {
  const machineRefused: ServerEvent = { type: 'exited', interrupted: true, reason: 'OutOfcpu' }
  it.each<[string, ServerState, ServerEvent, { readonly waits: boolean; readonly refused: boolean }]>([
    ['crashed', 'Initializing', { type: 'exited', exitCode: 1 }, { waits: true, refused: false }],
    ['exited before it was ready', 'Initializing', { type: 'exited', exitCode: 0 }, { waits: true, refused: false }],
    ['exited without a session', 'StandingBy', { type: 'exited', exitCode: 0 }, { waits: true, refused: false }],
    ['exited after its session', 'Active', { type: 'exited', exitCode: 0 }, { waits: false, refused: false }],
    ['was accepted by no machine', 'Pending', machineRefused, { waits: true, refused: true }],
    ['lost its machine before it was standing by', 'Initializing', machineRefused, { waits: true, refused: true }],
    ['lost its machine while standing by', 'StandingBy', machineRefused, { waits: false, refused: false }],
    ['lost its machine during a session', 'Active', machineRefused, { waits: false, refused: false }],
    [
      'was scaled down',
      'Initializing',
      { type: 'end', reason: 'ScaledDown', message: 'too many' },
      { waits: false, refused: false },
    ],
  ])('backs off only if the server failed: it %s', (_, state, event, { waits, refused }) => {
    const ended = transition(aServer(state), event, now)
    expect(ended.state).toBe('Terminating')
    expect([needsBackoff(ended), disappearedBeforeStandingBy(ended)]).toEqual([waits, refused])
  })

  it('does not back off for a server that is not Terminating', () => {
    for (const state of ['Pending', 'StandingBy', 'Active'] as const) {
      expect([needsBackoff(aServer(state)), disappearedBeforeStandingBy(aServer(state))]).toEqual([false, false])
    }
  })
})
