/** Which server an allocation gets, and the error if it gets none. */
import { describe, expect, it } from 'vitest'
import {
  isAllocatable,
  isHeartbeatOverdue,
  noServerCode,
  pickServer,
  pickSoonest,
} from '../../../src/rules/planning/server-choice.js'
import { confirmTimeoutMs } from '../../../src/rules/model/allocation-request.js'
import { type Server, serverStates } from '../../../src/rules/model/resources.js'
import { aServer, frozen } from '../support.js'

describe('isAllocatable', () => {
  it.each(serverStates)('is true only for StandingBy: %s', (state) => {
    expect(isAllocatable(aServer(state))).toBe(state === 'StandingBy')
  })

  it('is false for an Unhealthy server', () => {
    expect(isAllocatable(aServer('StandingBy', { health: 'Unhealthy' }))).toBe(false)
  })

  it('is false for a server without an address', () => {
    const { address: _address, ...unknown } = aServer('StandingBy')
    expect(isAllocatable(frozen<Server>(unknown))).toBe(false)
    expect(isAllocatable(aServer('StandingBy', { address: '' }))).toBe(false)
  })

  it('is true for a server without ports', () => {
    expect(isAllocatable(aServer('StandingBy', { ports: [] }))).toBe(true)
  })
})

describe('pickServer', () => {
  const kinds = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const
  const from = (...standingBy: readonly (typeof kinds)[number][]) => {
    const first = (kind: (typeof kinds)[number]) => ({ first: standingBy.includes(kind) ? kind : undefined })
    return {
      ready: first('ready'),
      outdatedReady: first('outdatedReady'),
      unheard: first('unheard'),
      outdatedUnheard: first('outdatedUnheard'),
    }
  }

  it.each([
    ['a heard server before any other', kinds, 'ready', 'ready'],
    ['a heard server with an earlier template before an unheard one', kinds.slice(1), 'outdatedReady', 'outdatedReady'],
    ['an unheard server only for a caller that cannot wait', kinds.slice(2), undefined, 'unheard'],
    ['an unheard server with an earlier template last', kinds.slice(3), undefined, 'outdatedUnheard'],
    ['no server if none is standing by', [], undefined, undefined],
  ] as const)('returns %s', (_what, standingBy, ifItCanWait, ifItCannot) => {
    expect([pickServer(from(...standingBy), true), pickServer(from(...standingBy), false)]).toEqual([
      ifItCanWait,
      ifItCannot,
    ])
  })
})

describe('pickSoonest', () => {
  const none = { first: undefined }
  const ready = { ready: { first: 'first' }, outdatedReady: { first: 'old' }, unheard: { first: 'unheard' } }
  const candidates = { held: none, due: ['a', 'b'], ...ready, outdatedUnheard: none }
  const onTime = () => false

  it('returns a server whose heartbeat is waiting for its answer', () => {
    expect(pickSoonest({ ...candidates, held: { first: 'held' } }, onTime, true)).toBe('held')
  })

  it('otherwise returns the server whose last heartbeat is the least recent', () => {
    expect(pickSoonest(candidates, onTime, true)).toBe('a')
  })

  it('skips servers whose heartbeat is overdue', () => {
    expect(pickSoonest(candidates, (server) => server === 'a', true)).toBe('b')
  })

  it('returns the server that became ready first if no other is expected to send a heartbeat', () => {
    expect(pickSoonest(candidates, () => true, true)).toBe('first')
    expect(pickSoonest({ ...candidates, due: [], ready: none }, onTime, true)).toBe('old')
  })

  it('returns an unheard server only for a caller that cannot wait', () => {
    const unheard = { ...candidates, due: [], ready: none, outdatedReady: none }
    expect([pickSoonest(unheard, onTime, true), pickSoonest(unheard, onTime, false)]).toEqual([undefined, 'unheard'])
  })

  it('looks at no more than eight servers that are overdue', () => {
    const seen: string[] = []
    const due = Array.from({ length: 100 }, (_, n) => `s${n}`)
    const isOverdue = (server: string) => seen.push(server) > 0
    expect(pickSoonest({ ...candidates, due }, isOverdue, true)).toBe('first')
    expect(seen).toEqual(due.slice(0, 8))
  })
})

describe('isHeartbeatOverdue', () => {
  it.each([
    [0, false],
    [1_000, false],
    [2_000, false],
    [2_001, true],
  ])('with an interval of 1 s and a silence of %i ms is %s', (silentMs, isOverdue) => {
    expect(isHeartbeatOverdue(silentMs, 1_000)).toBe(isOverdue)
  })
})

describe('confirmTimeoutMs', () => {
  it.each([
    [undefined, 60_000, 10_000],
    [undefined, 5_000, 5_000],
    [0, 60_000, 0],
    [30_000, 60_000, 30_000],
  ])('with waitMs %s and maxWaitMs %i is %i', (waitMs, maxWaitMs, expected) => {
    expect(confirmTimeoutMs(waitMs, maxWaitMs)).toBe(expected)
  })
})

describe('noServerCode', () => {
  it.each([
    ['every server is in use', 3, 3, 'max-reached'],
    ['more than max are in use', 4, 3, 'max-reached'],
    ['one more server may be created', 2, 3, 'none-standing-by'],
    ['max is 0', 0, 0, 'max-reached'],
  ] as const)('when %s', (_when, inUse, max, reason) => {
    expect(noServerCode(inUse, max)).toBe(reason)
  })
})
