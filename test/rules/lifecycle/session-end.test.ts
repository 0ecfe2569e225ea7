/** Which reports of a game end its session, and which are late, repeated or about another session. */
import { describe, expect, it } from 'vitest'
import { needsBackoff } from '../../../src/rules/lifecycle/lifecycle.js'
import { afterSessionEnd, hasLaterEnd, isOutdated } from '../../../src/rules/lifecycle/session-end.js'
import { aServer, createdAt, session } from '../support.js'

const now = createdAt + 60_000
const other = 'b3e5c8c0-0000-4000-8000-000000000002'
const played = (endedSessions: number) => aServer('Active', { endedSessions })
const found = aServer('Active', { session: undefined })

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
    const next = afterSessionEnd(server, { sessionID, number }, now)
    if (!ends) return expect(next).toBe(server)
    expect(next).toMatchObject({ state: 'StandingBy', endedSessions: number, reachedStandingByOn: now })
    expect([next.session, next.reachedActiveOn]).toEqual([undefined, undefined])
    expect(afterSessionEnd(next, { sessionID, number }, now)).toBe(next)
    const again = { ...next, state: 'Active' as const, session }
    expect(afterSessionEnd(again, { sessionID, number }, now), 'the next match has the same id').toBe(again)
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
  const idle = aServer('Terminating', { session: undefined, ending })
  expect(needsBackoff(idle)).toBe(true)
  expect(needsBackoff({ ...idle, endedSessions: 1 })).toBe(false)
})
