import { describe, expect, it } from 'vitest'
import { serversFor, withSessionsStandingBy } from '../../../src/rules/planning/session-slots.js'

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
