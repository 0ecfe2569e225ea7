/** How the labels, annotations, counters and lists of a server begin and change. */
import { array, assert, constantFrom, integer, oneof, property, record, tuple } from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  dataChanges,
  initialData,
  isSameData,
  mergedData,
  noData,
  type ServerData,
  type ServerDataUpdate,
  updatedData,
} from '../../../src/rules/lifecycle/server-data.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'
import { sizeLimits } from '../../../src/rules/model/sizes.js'

const spec: BuildSpec = { buildID: 'b', standingBy: 0, max: 1, portsToExpose: [], template: {} }
const data: ServerData = {
  labels: { map: 'dust' },
  annotations: { note: 'x' },
  counters: { rooms: { count: 3, capacity: 10 } },
  lists: { players: { values: ['amie'], capacity: 2 } },
}

describe('the data of a new server', () => {
  it('are those that the build declares, and the labels of its template', () => {
    const { counters, lists } = data
    const template = { metadata: { labels: { map: 'dust' }, annotations: { a: 'b' } } }
    expect(initialData({ ...spec, template, counters, lists })).toEqual({ ...data, annotations: {} })
    expect(initialData(spec)).toBeUndefined()
  })

  it('leave out labels that are not valid, and what an invalid spec declares', () => {
    const labels = { map: 'dust', 'not a key': 'x', long: 'x'.repeat(64), number: 1, '': 'x' }
    const counters = { rooms: { count: 3, capacity: 2 } }
    expect(initialData({ ...spec, template: { metadata: { labels } }, counters })).toEqual({
      ...noData,
      labels: { map: 'dust' },
    })
    expect(initialData({ ...spec, template: { metadata: { labels: 'x' } } })).toBeUndefined()
  })
})

describe('an update', () => {
  const rows: readonly (readonly [string, ServerDataUpdate, Partial<ServerData>])[] = [
    ['sets and removes labels', { labels: { mode: 'duel', map: null } }, { labels: { mode: 'duel' } }],
    ['sets annotations', { annotations: { note: 'y' } }, { annotations: { note: 'y' } }],
    [
      'increments a counter',
      { counters: { rooms: { increment: 7 } } },
      { counters: { rooms: { count: 10, capacity: 10 } } },
    ],
    [
      'decrements a counter',
      { counters: { rooms: { decrement: 3 } } },
      { counters: { rooms: { count: 0, capacity: 10 } } },
    ],
    ['sets a counter', { counters: { rooms: { count: 5 } } }, { counters: { rooms: { count: 5, capacity: 10 } } }],
    [
      'sets the capacity before it increments',
      { counters: { rooms: { capacity: 20, increment: 17 } } },
      { counters: { rooms: { count: 20, capacity: 20 } } },
    ],
    [
      'removes values before it adds others, and adds none twice',
      { lists: { players: { add: ['bob', 'amie', 'bob'], remove: ['amie', 'eve'] } } },
      { lists: { players: { values: ['bob', 'amie'], capacity: 2 } } },
    ],
    [
      'sets the capacity of a list first',
      { lists: { players: { add: ['bob', 'eve'], capacity: 3 } } },
      { lists: { players: { values: ['amie', 'bob', 'eve'], capacity: 3 } } },
    ],
  ]
  it.each(rows)('%s', (_, update, expected) => {
    expect(updatedData(data, update)).toEqual({ ok: true, data: { ...data, ...expected } })
  })

  const outOfRange: readonly (readonly [ServerDataUpdate, string, string])[] = [
    [{ counters: { rooms: { increment: 8 } } }, 'counters.rooms.increment', '3 of 10 would become 11 of 10'],
    [{ counters: { rooms: { decrement: 4 } } }, 'counters.rooms.decrement', '3 of 10 would become -1 of 10'],
    [{ counters: { rooms: { count: 11 } } }, 'counters.rooms.count', '3 of 10 would become 11 of 10'],
    [{ counters: { rooms: { capacity: 2 } } }, 'counters.rooms.capacity', '3 of 10 would become 3 of 2'],
    [{ lists: { players: { add: ['bob', 'eve'] } } }, 'lists.players.add', '1 of 2 would become 3 of 2'],
    [{ lists: { players: { capacity: 0 } } }, 'lists.players.capacity', '1 of 2 would become 1 of 0'],
    [
      { labels: Object.fromEntries(Array.from({ length: sizeLimits.labels }, (_, i) => [`l${i}`, 'x'])) },
      'labels',
      `at most ${sizeLimits.labels}`,
    ],
    [{ annotations: { long: 'é'.repeat(sizeLimits.annotationsBytes / 2) } }, 'annotations', 'bytes'],
    [
      {
        lists: {
          players: {
            capacity: 1_000,
            add: Array.from({ length: 300 }, (_, i) => `${i}`.padEnd(sizeLimits.listValueBytes)),
          },
        },
      },
      'lists',
      `${sizeLimits.listsBytes} bytes`,
    ],
  ]
  it.each(outOfRange)('that is out of range is refused: %j', (update, field, message) => {
    expect(updatedData(data, update)).toEqual({
      ok: false,
      code: 'out-of-range',
      problem: { field, message: expect.stringContaining(message) },
    })
  })

  it.each(['toString', 'constructor', 'lobbies'])('of %s, which the build does not declare, is invalid', (name) => {
    const counters = updatedData(data, { counters: { [name]: { increment: 1 } } })
    expect(counters).toMatchObject({ ok: false, code: 'invalid', problem: { field: `counters.${name}` } })
    expect(updatedData(undefined, { lists: { [name]: { add: ['x'] } } })).toMatchObject({ ok: false, code: 'invalid' })
  })

  it('is made whole or not at all', () => {
    const update = {
      labels: { map: 'aztec' },
      counters: { rooms: { increment: 1 } },
      lists: { players: { add: ['b', 'c'] } },
    }
    expect(updatedData(data, update).ok).toBe(false)
    expect(data.labels).toEqual({ map: 'dust' })
  })

  it('that leaves nothing leaves no data', () => {
    expect(updatedData({ ...noData, labels: { map: 'dust' } }, { labels: { map: null } })).toEqual({
      ok: true,
      data: undefined,
    })
  })

  it('never moves a count or a list out of its range', () => {
    const size = integer({ min: 0, max: 12 })
    const change = oneof(
      record({ increment: integer({ min: 1, max: 12 }) }),
      record({ decrement: integer({ min: 1, max: 12 }) }),
      record({ count: size }),
      record({ capacity: size }),
    )
    const names = array(constantFrom('a', 'b', 'c', 'd'), { maxLength: 4 })
    const listChange = record({ add: names, remove: names, capacity: size }, { requiredKeys: [] })
    assert(
      property(array(tuple(change, listChange)), (updates) => {
        let current: ServerData | undefined = data
        for (const [rooms, players] of updates) {
          const updated = updatedData(current, { counters: { rooms }, lists: { players } })
          if (updated.ok) current = updated.data
          const { counters, lists } = current ?? noData
          expect(counters['rooms']?.count).toBeGreaterThanOrEqual(0)
          expect(counters['rooms']?.count).toBeLessThanOrEqual(counters['rooms']?.capacity ?? -1)
          expect(lists['players']?.values.length).toBeLessThanOrEqual(lists['players']?.capacity ?? -1)
        }
      }),
    )
  })
})

describe('a merge', () => {
  const theirs = { ...data, labels: { map: 'aztec', owner: 'ops' } }

  it('takes what another has changed', () => {
    expect(mergedData(data, data, theirs)).toEqual(theirs)
    expect(mergedData(data, data, undefined)).toBeUndefined()
  })

  it('keeps what this one has changed, entry by entry', () => {
    const mine = { ...data, labels: {}, counters: { rooms: { count: 4, capacity: 10 } } }
    expect(mergedData(data, mine, theirs)).toEqual({ ...theirs, labels: { owner: 'ops' }, counters: mine.counters })
  })
})

it('says what has changed', () => {
  const { labels: _, ...rest } = data
  const after = { ...rest, labels: { mode: 'duel' }, counters: { rooms: { count: 4, capacity: 10 } } }
  expect(dataChanges(data, after)).toEqual([
    { path: 'labels.map', text: 'label map was removed' },
    { path: 'labels.mode', text: 'label mode is "duel"' },
    { path: 'counters.rooms', text: 'counter rooms is 4 of 10' },
  ])
  expect(dataChanges(data, structuredClone(data))).toEqual([])
  expect(isSameData(data, structuredClone(data))).toBe(true)
  expect(isSameData(noData, undefined)).toBe(true)
})
