/** Players that are reported to a host that runs no engine: it remembers the servers, but not without limits. */
import { expect, it } from 'vitest'
import { EarlyPlayers } from '../../src/fleet/leader-term.js'

const players = ['amie']

it('remembers the servers whose games have reported players in a session, once', () => {
  const early = new EarlyPlayers()
  early.heard('a', { state: 'Active', players })
  early.heard('b', { state: 'Active', players: [] })
  early.heard('c', { state: 'StandingBy', players })
  early.heard('a', { state: 'Active', players })
  expect([...early.take()]).toEqual(['a'])
  expect([...early.take()]).toEqual([])
})

it('remembers the last 20,000, and no id that is longer than any of a server', () => {
  const early = new EarlyPlayers()
  for (let n = 0; n < 20_001; n++) early.heard(`server-${n}`, { state: 'Active', players })
  early.heard('server-1', { state: 'Active', players })
  early.heard('server-20001', { state: 'Active', players })
  early.heard('x'.repeat(101), { state: 'Active', players })
  const kept = [...early.take()]
  expect(kept).toHaveLength(20_000)
  expect(kept.slice(0, 1)).toEqual(['server-3'])
  expect(kept.slice(-2)).toEqual(['server-1', 'server-20001'])
})
