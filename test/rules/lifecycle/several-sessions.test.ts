/** The record of a server with several sessions: which begin, which end, and what their numbers are. */
import { describe, expect, it } from 'vitest'
import { transition } from '../../../src/rules/lifecycle/lifecycle.js'
import {
  isSameSessions,
  lastNumber,
  numberOf,
  sessionByKey,
  sessionsOf,
  sessionsPerServer,
} from '../../../src/rules/lifecycle/several-sessions.js'
import type { Server } from '../../../src/rules/model/resources.js'
import { minimalServer } from '../../../src/testing/records.js'

const session = (id: string) => ({ id, initialPlayers: [] })
const active: Server = {
  ...minimalServer({ namespace: 'default', name: 'lobby-1' }),
  ...{ state: 'Active', health: 'Healthy', session: session('a'), reachedActiveOn: 1_000 },
}
const add = (server: Server, ...ids: readonly string[]) =>
  ids.reduce((all, id) => transition(all, { type: 'sessionAdded', session: session(id) }, 2_000), server)
const end = (server: Server, ...ended: readonly (readonly [string, number])[]) =>
  transition(
    server,
    { type: 'sessionsEnded', ended: ended.map(([sessionID, number]) => ({ sessionID, number })) },
    3_000,
  )
const shown = (server: Server) => sessionsOf(server).map((one) => `${one.id}#${numberOf(server, one)}`)
const three = add(active, 'b', 'c')

describe('further sessions of a server', () => {
  it('get the next numbers', () => {
    expect(shown(three)).toEqual(['a#1', 'b#2', 'c#3'])
    expect(three.moreSessions?.[0]).toEqual({ id: 'b', initialPlayers: [], number: 2, startedAt: 2_000 })
    expect(shown(add({ ...active, endedSessions: 7 }, 'b'))).toEqual(['a#8', 'b#9'])
  })

  it.each<[string, Partial<Server>]>([
    ['StandingBy', { state: 'StandingBy', session: undefined }],
    ['Terminating', { state: 'Terminating' }],
    ['Active without a known session', { session: undefined }],
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
    expect(idle).toMatchObject({ state: 'StandingBy', endedSessions: 3, reachedStandingByOn: 3_000 })
    expect([idle.session, idle.moreSessions, idle.startedSessions, idle.reachedActiveOn]).toEqual([
      ...[undefined, undefined, undefined, undefined],
    ])
    const again = transition(idle, { type: 'allocated', session: session('a') }, 4_000)
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
    expect(sessionsOf(asked).map(({ ending }) => ending)).toEqual([true, undefined, undefined])
    expect(transition(asked, { type: 'sessionEnding', number: 1 }, 3_000)).toBe(asked)
    expect(transition(three, { type: 'sessionEnding', number: 9 }, 3_000)).toBe(three)
    expect(isSameSessions(asked, three)).toBe(false)
    expect(isSameSessions(three, add(active, 'b', 'c'))).toBe(true)
    expect(isSameSessions(three, add(active, 'b', 'd'))).toBe(false)
  })

  it('of a record without a session have all ended if a later number has', () => {
    const unknown = { ...active, session: undefined, endedSessions: 2 }
    expect(end(unknown, ['x', 2])).toBe(unknown)
    expect(end(unknown, ['x', 5])).toMatchObject({ state: 'StandingBy', endedSessions: 5 })
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
