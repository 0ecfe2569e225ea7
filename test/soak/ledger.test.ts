/** That the ledger bites: a soak that finds nothing says something only if it would have found it. */
import { expect, it } from 'vitest'
import type { GameServer } from 'gamekeeper'
import { type Build, Ledger, type Session } from './ledger.js'

const build = (): Build => ({
  ...{ name: 'arena', buildID: 'b', mostMax: 9, standingBy: 1, max: 2, ceiling: 2 },
  ...{ changing: false, changes: 0, deleted: false, crashesCaused: 0 },
})

function server(name: string, status: Partial<GameServer['status']>): GameServer {
  return {
    ...{ apiVersion: 'mps.gamekeeper.com/v1alpha1', kind: 'GameServer', metadata: { name, namespace: 'default' } },
    status: { state: 'Active', health: 'Healthy', publicIP: '127.0.0.1', nodeName: 'node', ports: '', ...status },
  }
}

/** A fleet of one build, where session s1 has server arena-aaaaa. */
function scene() {
  const ledger = new Ledger(() => {})
  const arena = build()
  const session: Session = {
    ...{ sessionID: 's1', build: arena, askedAt: 0, state: 'held', known: false, orphaned: false, calls: 0 },
    ...{ server: 'arena-aaaaa', port: 1 },
  }
  ledger.builds.set('arena', arena)
  ledger.sessions.set('s1', session)
  const found = (...servers: readonly GameServer[]) => {
    ledger.judge(servers, ledger.before())
    return ledger.breaches.map(({ what }) => what)
  }
  return { ledger, arena, session, found }
}

const mine = server('arena-aaaaa', { sessionID: 's1', ports: '7777:1' })
const idle = (letter: string, port: number) =>
  server(`arena-${letter.repeat(5)}`, { state: 'StandingBy', ports: `7777:${port}` })

it('has nothing to say when all is as promised', () => {
  expect(scene().found(mine, idle('b', 2))).toEqual([])
})

it.each<[string, readonly GameServer[], string]>([
  ['a session that is lost', [], 'session s1 on arena-aaaaa is lost'],
  [
    'a session on two servers',
    [mine, server('arena-bbbbb', { sessionID: 's1', ports: '7777:2' })],
    'session s1 is on arena-aaaaa and on arena-bbbbb',
  ],
  [
    'a session that has moved',
    [server('arena-bbbbb', { sessionID: 's1', ports: '7777:1' })],
    'session s1 was on arena-aaaaa and is on arena-bbbbb',
  ],
  [
    'a match that is being ended',
    [server('arena-aaaaa', { sessionID: 's1', state: 'Terminating' })],
    'session s1 is on arena-aaaaa, which is Terminating',
  ],
  [
    'a session nobody asked for',
    [mine, server('arena-bbbbb', { sessionID: 's2', ports: '7777:2' })],
    'arena-bbbbb has session s2, which nobody has asked for',
  ],
  ['a port that two have', [mine, idle('b', 1)], 'arena-bbbbb and arena-aaaaa both have port 1'],
  ['more servers than max', [mine, idle('b', 2), idle('c', 3)], 'arena has 3 servers where 2 may be'],
])('finds %s', (_what, servers, breach) => {
  expect(scene().found(...servers)).toContain(breach)
})

it('allows what a lower max finds, and nothing more', () => {
  const { arena, found } = scene()
  Object.assign(arena, { max: 1, ceiling: 3 })
  expect(found(mine, idle('b', 2), idle('c', 3))).toEqual([])
  expect(found(mine, idle('b', 2))).toEqual([])
  expect(found(mine, idle('b', 2), idle('d', 4))).toEqual(['arena has 3 servers where 2 may be'])
})

it('forgives what the soak has ended itself', () => {
  const { ledger, session, found } = scene()
  ledger.end(session)
  expect(found()).toEqual([])
  const late: Session = { ...session, sessionID: 's2', state: 'asked', askedAt: performance.now(), port: 7 }
  expect(ledger.mayBeVictim(late)).toBe(false)
  ledger.victim(7, 'arena-zzzzz')
  expect(ledger.mayBeVictim(late)).toBe(true)
  found()
  expect(ledger.mayBeVictim({ ...late, askedAt: performance.now() + 1000 })).toBe(false)
})
