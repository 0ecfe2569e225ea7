/** Checks that the soak test detects violations. */
import { expect, it } from 'vitest'
import type { GameServer } from 'gamekeeper'
import { type Build, ExpectedState, type Session } from './expected-state.js'

const build = (): Build => ({
  ...{ name: 'arena', buildID: 'b', highestMax: 9, standingBy: 1, max: 2, ceiling: 2 },
  ...{ changing: false, changes: 0, deleted: false, crashesCaused: 0 },
})

function server(name: string, status: Partial<GameServer['status']>): GameServer {
  return {
    ...{ apiVersion: 'mps.gamekeeper.com/v1alpha1', kind: 'GameServer', metadata: { name, namespace: 'default' } },
    status: { state: 'Active', health: 'Healthy', publicIP: '127.0.0.1', nodeName: 'node', ports: '', ...status },
  }
}

/** Sets up the expected state for one build, where session s1 has server arena-aaaaa. */
function setUp() {
  const expected = new ExpectedState(() => {})
  const arena = build()
  const session: Session = {
    ...{
      sessionID: 's1',
      build: arena,
      requestedAt: 0,
      state: 'allocated',
      isConfirmed: false,
      isOrphaned: false,
      calls: 0,
    },
    ...{ server: 'arena-aaaaa', port: 1 },
  }
  expected.builds.set('arena', arena)
  expected.sessions.set('s1', session)
  const check = (...servers: readonly GameServer[]) => {
    expected.check(servers, expected.before())
    return expected.violations.map(({ what }) => what)
  }
  return { expected, arena, session, check }
}

const mine = server('arena-aaaaa', { sessionID: 's1', ports: '7777:1' })
const idle = (letter: string, port: number) =>
  server(`arena-${letter.repeat(5)}`, { state: 'StandingBy', ports: `7777:${port}` })

it('a list that is as expected has no violation', () => {
  expect(setUp().check(mine, idle('b', 2))).toEqual([])
})

it.each<[string, readonly GameServer[], string]>([
  ['a session that is lost', [], 'session s1 on arena-aaaaa is lost'],
  [
    'a session on two servers',
    [mine, server('arena-bbbbb', { sessionID: 's1', ports: '7777:2' })],
    'session s1 is on arena-aaaaa and on arena-bbbbb',
  ],
  [
    'a session on a different server',
    [server('arena-bbbbb', { sessionID: 's1', ports: '7777:1' })],
    'session s1 was on arena-aaaaa and is on arena-bbbbb',
  ],
  [
    'a match on a Terminating server',
    [server('arena-aaaaa', { sessionID: 's1', state: 'Terminating' })],
    'session s1 is on arena-aaaaa, which is Terminating',
  ],
  [
    'a session that was never requested',
    [mine, server('arena-bbbbb', { sessionID: 's2', ports: '7777:2' })],
    'arena-bbbbb has session s2, which was never requested',
  ],
  ['a port of two servers', [mine, idle('b', 1)], 'arena-bbbbb and arena-aaaaa both have port 1'],
  ['more servers than max', [mine, idle('b', 2), idle('c', 3)], 'arena has 3 servers, at most 2 are allowed'],
])('%s is a violation', (_what, servers, violation) => {
  expect(setUp().check(...servers)).toContain(violation)
})

it('existing servers may exceed a lowered max, but new ones may not', () => {
  const { arena, check } = setUp()
  Object.assign(arena, { max: 1, ceiling: 3 })
  expect(check(mine, idle('b', 2), idle('c', 3))).toEqual([])
  expect(check(mine, idle('b', 2))).toEqual([])
  expect(check(mine, idle('b', 2), idle('d', 4))).toEqual(['arena has 3 servers, at most 2 are allowed'])
})

it('sessions and servers that the test has ended may be gone', () => {
  const { expected, session, check } = setUp()
  expected.end(session)
  expect(check()).toEqual([])
  const late: Session = { ...session, sessionID: 's2', state: 'pending', requestedAt: performance.now(), port: 7 }
  expect(expected.mayHaveEnded(late)).toBe(false)
  expected.serverEnded(7, 'arena-zzzzz')
  expect(expected.mayHaveEnded(late)).toBe(true)
  check()
  expect(expected.mayHaveEnded({ ...late, requestedAt: performance.now() + 1000 })).toBe(false)
})
