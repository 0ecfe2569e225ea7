/** The sessions of a server: which begin, which reports of a game end them, what their numbers are, and how many servers they need. */
import { describe, expect, it } from 'vitest'
import { needsBackoff, transition } from '../../../src/rules/lifecycle/lifecycle.js'
import {
  afterSessionEnds,
  hasLaterEnd,
  isOutdated,
  isSameSessions,
  lastNumber,
  serversFor,
  sessionByKey,
  sessionsPerServer,
  withSessionsStandingBy,
} from '../../../src/rules/lifecycle/server-sessions.js'
import type { Server } from '../../../src/rules/model/resources.js'
import { minimalServer } from '../../../src/testing/records.js'
import { aServer, createdAt, running, session } from '../support.js'

const now = createdAt + 60_000
const other = 'b3e5c8c0-0000-4000-8000-000000000002'
const played = (ended: number) =>
  aServer('Active', { sessions: [{ ...running, number: ended + 1 }], startedSessions: ended + 1 })
const found = aServer('Active', { sessions: [], startedSessions: undefined })

describe('a report that a session has ended', () => {
  it.each([
    ['of the first session', aServer('Active'), session.id, 1, true],
    ['of the third session', played(2), session.id, 3, true],
    ['that writes the id in other case', aServer('Active'), session.id.toLowerCase(), 1, true],
    ['of a process that has ended more sessions than the record knows of', played(2), session.id, 9, true],
    ['about a session that the record of the match does not name', found, other, 1, true],
    ['about another session', aServer('Active'), other, 1, false],
    ['about an earlier session', played(2), other, 2, false],
    ['about an earlier session with the same id', played(2), session.id, 2, false],
    ['to a server that is standing by', aServer('StandingBy'), session.id, 1, false],
    ['to a server that starts', aServer('Initializing'), session.id, 1, false],
    ['to a server that terminates', aServer('Terminating'), session.id, 1, false],
  ])('%s', (_, server, sessionID, number, ends) => {
    const next = afterSessionEnds(server, [{ sessionID, number }], now)
    if (!ends) return expect(next).toBe(server)
    expect(next).toMatchObject({ state: 'StandingBy', startedSessions: number, reachedStandingByOn: now })
    expect([next.sessions, next.reachedActiveOn]).toEqual([[], undefined])
    expect(afterSessionEnds(next, [{ sessionID, number }], now)).toBe(next)
    const again = transition(next, { type: 'allocated', session }, now)
    expect(afterSessionEnds(again, [{ sessionID, number }], now), 'the next match has the same id').toBe(again)
  })
})

it('a heartbeat that was sent before the last session ended is outdated', () => {
  expect(isOutdated(aServer('Active'), undefined)).toBe(false)
  expect(isOutdated(played(2), undefined)).toBe(true)
  expect(isOutdated(played(2), { sessionID: other, number: 1 })).toBe(true)
  expect(isOutdated(played(2), { sessionID: other, number: 2 })).toBe(false)
  expect(isOutdated(played(2), { sessionID: other, number: 3 })).toBe(false)
})

it('of two records, the one with more ended sessions is newer, unless the other terminates', () => {
  expect(hasLaterEnd(played(1), aServer('Active'))).toBe(true)
  expect(hasLaterEnd(played(1), played(1))).toBe(false)
  expect(hasLaterEnd(aServer('Active'), played(1))).toBe(false)
  expect(hasLaterEnd(played(1), aServer('Terminating'))).toBe(false)
})

it('a server that exits with code 0 after it has had sessions does not delay its replacement', () => {
  const ending = { reason: 'Exited', message: '', crash: false, at: now } as const
  const idle = aServer('Terminating', { sessions: [], startedSessions: undefined, ending })
  expect(needsBackoff(idle)).toBe(true)
  expect(needsBackoff({ ...idle, startedSessions: 1 })).toBe(false)
})

const named = (id: string) => ({ id, initialPlayers: [] })
const active: Server = {
  ...minimalServer({ namespace: 'default', name: 'lobby-1' }),
  ...{ state: 'Active', health: 'Healthy', reachedActiveOn: 1_000, startedSessions: 1 },
  sessions: [{ ...named('a'), number: 1, startedAt: 1_000 }],
}
const add = (server: Server, ...ids: readonly string[]) =>
  ids.reduce((all, id) => transition(all, { type: 'allocated', session: named(id) }, 2_000), server)
const end = (server: Server, ...ended: readonly (readonly [string, number])[]) =>
  transition(
    server,
    { type: 'sessionsEnded', ended: ended.map(([sessionID, number]) => ({ sessionID, number })) },
    3_000,
  )
const shown = (server: Server) => server.sessions.map(({ id, number }) => `${id}#${number}`)
const three = add(active, 'b', 'c')

describe('further sessions of a server', () => {
  it('get the next numbers', () => {
    expect(shown(three)).toEqual(['a#1', 'b#2', 'c#3'])
    expect(three.sessions[1]).toEqual({ id: 'b', initialPlayers: [], number: 2, startedAt: 2_000 })
    expect(shown(add({ ...active, startedSessions: 8 }, 'b'))).toEqual(['a#1', 'b#9'])
  })

  it.each<[string, Partial<Server>]>([
    ['Initializing', { state: 'Initializing', sessions: [] }],
    ['Terminating', { state: 'Terminating' }],
    ['Active without a known session', { sessions: [] }],
  ])('are not added to a server that is %s', (_, change) => {
    const server = { ...active, ...change }
    expect(add(server, 'b')).toBe(server)
  })

  it.each<[string, readonly (readonly [string, number])[], readonly string[]]>([
    ['the first', [['a', 1]], ['b#2', 'c#3']],
    ['one in between', [['b', 2]], ['a#1', 'c#3']],
    ['the last', [['c', 3]], ['a#1', 'b#2']],
    [
      'two',
      [
        ['a', 1],
        ['c', 3],
      ],
      ['b#2'],
    ],
    ['none with another number', [['b', 1]], ['a#1', 'b#2', 'c#3']],
    ['none with another id', [['x', 2]], ['a#1', 'b#2', 'c#3']],
  ])('end by themselves: %s', (_, ended, left) => {
    const after = end(three, ...ended)
    expect(shown(after)).toEqual(left)
    expect(after.state).toBe('Active')
    expect(lastNumber(after)).toBe(3)
    expect(shown(add(after, 'd')).at(-1)).toBe('d#4')
  })

  it('leave a server standing by once all have ended, and no number is given twice', () => {
    const idle = end(three, ['c', 3], ['a', 1], ['b', 2])
    expect(idle).toMatchObject({ state: 'StandingBy', startedSessions: 3, reachedStandingByOn: 3_000 })
    expect([idle.sessions, idle.reachedActiveOn]).toEqual([[], undefined])
    const again = transition(idle, { type: 'allocated', session: named('a') }, 4_000)
    expect(shown(again)).toEqual(['a#4'])
    expect(end(again, ['a', 1])).toBe(again)
  })

  it('stay with a server that terminates', () => {
    const terminating = transition(three, { type: 'end', reason: 'Deleted', message: 'deleted' }, 3_000)
    expect(end(terminating, ['a', 1])).toBe(terminating)
    expect(shown(terminating)).toEqual(['a#1', 'b#2', 'c#3'])
  })

  it('are found by their ids, GUIDs without regard to case', () => {
    const id = 'A9B1C2D3-0000-4000-8000-000000000001'
    expect(sessionByKey(add(active, id), id.toLowerCase())?.number).toBe(2)
    expect(sessionByKey(three, 'd')).toBeUndefined()
  })

  it('are asked to end one by one', () => {
    const asked = transition(three, { type: 'sessionEnding', number: 1 }, 3_000)
    expect(asked.sessions.map(({ ending }) => ending)).toEqual([true, undefined, undefined])
    expect(transition(asked, { type: 'sessionEnding', number: 1 }, 3_000)).toBe(asked)
    expect(transition(three, { type: 'sessionEnding', number: 9 }, 3_000)).toBe(three)
    expect(isSameSessions(asked, three)).toBe(false)
    expect(isSameSessions(three, add(active, 'b', 'c'))).toBe(true)
    expect(isSameSessions(three, add(active, 'b', 'd'))).toBe(false)
  })

  it('of a record without a session have all ended if a later number has', () => {
    const unknown = { ...active, sessions: [], startedSessions: 2 }
    expect(end(unknown, ['x', 2])).toBe(unknown)
    expect(end(unknown, ['x', 5])).toMatchObject({ state: 'StandingBy', startedSessions: 5 })
  })
})

it.each([
  [undefined, 1],
  [1, 1],
  [0, 1],
  [20, 20],
])('a spec with sessionsPerServer %s allows %s', (most, expected) => {
  expect(sessionsPerServer(most === undefined ? {} : { sessionsPerServer: most })).toBe(expected)
})

describe('the number of servers for sessions', () => {
  it.each([
    [0, 1, 0],
    [3, 1, 3],
    [1, 10, 1],
    [10, 10, 1],
    [11, 10, 2],
    [100, 7, 15],
  ])('for %i sessions of which a server takes %i is %i', (sessions, perServer, servers) => {
    expect(serversFor(sessions, perServer)).toBe(servers)
  })
})

describe('a spec with standingBySessions', () => {
  it.each<[standingBy: number, sessions: number | undefined, free: number, perServer: number, wanted: number]>([
    [2, undefined, 0, 4, 2],
    [2, 0, 0, 4, 2],
    [0, 1, 0, 4, 1],
    [0, 8, 0, 4, 2],
    [0, 9, 0, 4, 3],
    // What is free on running servers counts.
    [0, 8, 3, 4, 2],
    [0, 8, 4, 4, 1],
    [0, 8, 8, 4, 0],
    [0, 8, 50, 4, 0],
    // Both are satisfied.
    [3, 8, 0, 4, 3],
    [1, 8, 50, 4, 1],
    // Games that take one session.
    [0, 8, 0, 1, 8],
    // Not more than max.
    [0, 100, 0, 4, 10],
  ])(
    'of %i servers and %s sessions, with %i free and %i for each server, asks for %i servers',
    (standingBy, sessions, free, perServer, wanted) => {
      const spec = { standingBy, max: 10, ...(sessions !== undefined && { standingBySessions: sessions }) }
      expect(withSessionsStandingBy(spec, { free, perServer }).standingBy).toBe(wanted)
    },
  )
})
