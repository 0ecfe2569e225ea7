/** Which servers fit a request that selects them by their data. */
import { describe, expect, it } from 'vitest'
import type { ServerSelector } from '../../../src/rules/model/allocation-request.js'
import { noData, type ServerData, type ServerDataUpdate } from '../../../src/rules/lifecycle/server-data.js'
import { fits, namesBuild, selectionOf, targetOf } from '../../../src/rules/planning/selection.js'

const data: ServerData = {
  ...noData,
  labels: { map: 'dust', mode: '' },
  counters: { rooms: { count: 3, capacity: 10 } },
  lists: { seats: { values: ['amie', 'bo'], capacity: 4 } },
}

type Conditions = Omit<ServerSelector, 'builds'>

describe('a selector', () => {
  const build = {
    hasID: (id: string) => id === 'arena',
    spec: { buildID: 'arena', labels: { game: 'shooter', track: 'canary' } },
  }

  it.each<[boolean, ServerSelector]>([
    [true, { builds: ['duel', 'arena'] }],
    [false, { builds: ['duel'] }],
    [true, { buildLabels: { game: 'shooter' } }],
    [true, { buildLabels: { game: 'shooter', track: 'canary' } }],
    [false, { buildLabels: { game: 'shooter', track: 'stable' } }],
    [false, { buildLabels: { toString: 'x' } }],
    [true, { builds: ['arena'], buildLabels: { track: 'canary' } }],
    [false, { builds: ['arena'], buildLabels: { track: 'stable' } }],
    [false, { builds: ['duel'], buildLabels: { track: 'canary' } }],
  ])('names the build (%s): %j', (expected, selector) => {
    expect(namesBuild(selector, build)).toBe(expected)
  })

  it('does not name a build by labels whose buildID belongs to another build', () => {
    expect(namesBuild({ buildLabels: { game: 'shooter' } }, { ...build, hasID: () => false })).toBe(false)
  })
})

describe('a request that names a build', () => {
  const request = { buildID: 'arena', sessionID: 's' }

  it.each<[string, Parameters<typeof selectionOf>, unknown]>([
    ['takes any server', [request], undefined],
    [
      'follows the order of its build',
      [request, false, { order: { by: 'packed' } }],
      { selectors: [{ builds: ['arena'] }] },
    ],
    ['also with confirm', [request, true, { order: { by: 'packed' } }], { selectors: [{ builds: ['arena'] }] }],
    ['needs no selection for first-ready', [request, true, { order: { by: 'first-ready' } }], undefined],
    [
      'overrides the order of its build',
      [{ ...request, order: { by: 'newest' } }, false, { order: { by: 'packed' } }],
      { selectors: [{ builds: ['arena'] }], order: { by: 'newest' } },
    ],
    [
      'prefers a running server with room if servers take several sessions',
      [{ ...request, counters: { rooms: { increment: 1 } } }, false, { sessionsPerServer: 3 }],
      {
        selectors: [{ builds: ['arena'], state: 'active' }, { builds: ['arena'] }],
        change: { counters: { rooms: { increment: 1 } } },
      },
    ],
    [
      'also with first-ready',
      [{ ...request, order: { by: 'first-ready' } }, false, { order: { by: 'packed' } }],
      undefined,
    ],
  ])('%s', (_, args, expected) => {
    expect(selectionOf(...args)).toEqual(expected)
  })
})

describe('a server', () => {
  it.each<[boolean, Conditions]>([
    [true, {}],
    [true, { matchLabels: { map: 'dust' } }],
    [true, { matchLabels: { map: 'dust', mode: '' } }],
    [false, { matchLabels: { map: 'canyon' } }],
    [false, { matchLabels: { map: 'dust', region: 'north' } }],
    [false, { matchLabels: { toString: 'x' } }],
    [true, { matchExpressions: [{ key: 'map', operator: 'In', values: ['canyon', 'dust'] }] }],
    [false, { matchExpressions: [{ key: 'map', operator: 'In', values: ['canyon'] }] }],
    [false, { matchExpressions: [{ key: 'region', operator: 'In', values: ['north'] }] }],
    [true, { matchExpressions: [{ key: 'map', operator: 'NotIn', values: ['canyon'] }] }],
    [true, { matchExpressions: [{ key: 'region', operator: 'NotIn', values: ['north'] }] }],
    [false, { matchExpressions: [{ key: 'map', operator: 'NotIn', values: ['dust'] }] }],
    [true, { matchExpressions: [{ key: 'mode', operator: 'Exists' }] }],
    [false, { matchExpressions: [{ key: 'region', operator: 'Exists' }] }],
    [false, { matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }],
    [true, { matchExpressions: [{ key: 'region', operator: 'DoesNotExist' }] }],
    [false, { matchExpressions: [{ key: 'mode', operator: 'DoesNotExist' }] }],
    [true, { counters: { rooms: { minAvailable: 7 } } }],
    [false, { counters: { rooms: { minAvailable: 8 } } }],
    [true, { counters: { rooms: { minCount: 3, minAvailable: 7 } } }],
    [false, { counters: { rooms: { minCount: 4 } } }],
    [false, { counters: { tables: { minCount: 0 } } }],
    [false, { counters: { constructor: {} } }],
    [false, { counters: JSON.parse('{"__proto__":{}}') }],
    [false, { lists: { constructor: {} } }],
    [false, { matchLabels: JSON.parse('{"__proto__":"x"}') }],
    [true, { lists: { seats: { contains: 'amie', minAvailable: 2 } } }],
    [false, { lists: { seats: { contains: 'cy' } } }],
    [false, { lists: { seats: { minAvailable: 3 } } }],
    [false, { lists: { teams: { minAvailable: 0 } } }],
    [false, { matchLabels: { map: 'dust' }, counters: { rooms: { minAvailable: 8 } } }],
  ])('fits (%s): %j', (expected, conditions) => {
    expect(fits(data, { builds: ['arena'], ...conditions }, undefined)).toBe(expected)
  })

  it.each<[boolean, ServerDataUpdate]>([
    [true, { counters: { rooms: { increment: 7 } } }],
    [false, { counters: { rooms: { increment: 8 } } }],
    [false, { counters: { rooms: { decrement: 4 } } }],
    [false, { counters: { tables: { increment: 1 } } }],
    [true, { lists: { seats: { add: ['cy', 'di'] } } }],
    [false, { lists: { seats: { add: ['cy', 'di', 'ed'] } } }],
    [false, { counters: { rooms: { increment: 1 } }, lists: { seats: { add: ['cy', 'di', 'ed'] } } }],
    [true, { labels: { map: null, season: 'winter' } }],
  ])('has room (%s) for the change %j', (expected, change) => {
    expect(fits(data, { builds: ['arena'] }, change)).toBe(expected)
  })

  it('without data fits a selector without conditions', () => {
    expect(fits(undefined, { builds: ['arena'] }, undefined)).toBe(true)
    expect(fits(undefined, { builds: ['arena'], matchLabels: { map: 'dust' } }, undefined)).toBe(false)
  })
})

describe('a request', () => {
  const sessionID = 'match-1'

  it('that only names a build selects nothing', () => {
    expect(selectionOf({ buildID: 'arena', sessionID, sessionCookie: 'x' })).toBeUndefined()
  })

  it('that changes data selects any server of its build', () => {
    const labels = { map: 'dust' }
    expect(selectionOf({ buildID: 'arena', sessionID, labels })).toEqual({
      selectors: [{ builds: ['arena'] }],
      change: { labels },
    })
    const order = { by: 'newest' } as const
    expect(selectionOf({ buildID: 'arena', sessionID, order })).toMatchObject({
      selectors: [{ builds: ['arena'] }],
      order,
    })
    const firstReady = { buildID: 'arena', sessionID, order: { by: 'first-ready' } } as const
    expect(selectionOf(firstReady)).toBeUndefined()
    expect(selectionOf(firstReady, true), 'not the one whose game receives its session first').toMatchObject({
      selectors: [{ builds: ['arena'] }],
      order: firstReady.order,
    })
  })

  it('asks for the same as another one with the same selectors and changes', () => {
    const of = (select: readonly ServerSelector[]) => targetOf({ sessionID, select })
    expect(of([{ builds: ['arena'], matchLabels: { a: '1', b: '2' } }])).toBe(
      of([{ matchLabels: { b: '2', a: '1' }, builds: ['arena'] }]),
    )
    expect(of([{ builds: ['arena'] }])).not.toBe(of([{ builds: ['duel'] }]))
  })
})
