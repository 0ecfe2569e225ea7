/** The translation of requests to Agones' allocator: each field, and what a fleet refuses. */
import { describe, expect, it } from 'vitest'
import {
  allocationInputOf,
  allocatorAnswer,
  allocatorErrorBody,
  readAllocatorRequest,
} from '../../src/http/api/agones-allocator.js'
import { FleetError } from '../../src/index.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { readAllocationRequest } from '../../src/rules/validation/allocation-schema.js'

const named = (name: string, namespace = 'default') =>
  ({ metadata: { name, namespace }, spec: { buildID: `id-of-${name}` } }) as never

const fleetOf = (...all: readonly { metadata: { name: string; namespace: string } }[]) => ({
  get: ({ namespace, name }: { namespace: string; name: string }) => {
    const found = all.find(({ metadata }) => metadata.name === name && metadata.namespace === namespace)
    return found ? Promise.resolve(found as never) : Promise.reject(new FleetError('not-found', 'no such build'))
  },
  list: () => Promise.resolve(all as never),
})
const builds = fleetOf(named('arena'), named('canary'), named('arena', 'other'))

/** Every request that is understood is one that the fleet accepts. */
async function allocation(body: unknown): Promise<unknown> {
  const { sessionID, ...request } = await allocationInputOf(readAllocatorRequest(body), 'made-up', builds)
  const checked = readAllocationRequest({ ...request, sessionID })
  expect(checked).toMatchObject({ ok: true })
  return request
}

const fleet = { 'agones.dev/fleet': 'arena' }
const arena = { state: 'ready', builds: ['id-of-arena'] }
const packed = { order: { by: 'packed' } }
const select = (...selectors: readonly object[]) => ({ gameServerSelectors: selectors })

describe('a request to the allocator', () => {
  it.each<[string, unknown, object]>([
    [
      'without fields takes any server of the namespace default',
      {},
      { select: [{ ...arena, builds: ['id-of-arena', 'id-of-canary'] }] },
    ],
    ['names a namespace', { namespace: 'other' }, { select: [arena] }],
    ['names a fleet', select({ matchLabels: fleet }), { select: [arena] }],
    [
      'has null in place of absent fields',
      { namespace: null, ...select({ matchLabels: fleet, counters: null }) },
      { select: [arena] },
    ],
    [
      'has fields that nobody knows',
      { futureField: 1, ...select({ matchLabels: fleet, players: {} }) },
      { select: [arena] },
    ],
    [
      'has selectors in order, of which those without a build are passed over',
      select(
        { matchLabels: { 'agones.dev/fleet': 'gone' } },
        { matchLabels: { 'agones.dev/fleet': 'canary' } },
        { matchLabels: fleet },
      ),
      { select: [{ ...arena, builds: ['id-of-canary'] }, arena] },
    ],
    [
      'matches other labels',
      select({ matchLabels: { ...fleet, map: 'dust' } }),
      { select: [{ ...arena, matchLabels: { map: 'dust' } }] },
    ],
    [
      'has expressions on labels, by name and by number',
      select({
        matchLabels: fleet,
        matchExpressions: [
          { key: 'map', operator: 'In', values: ['dust'] },
          { key: 'mode', operator: 'NotIn', values: ['ranked'] },
          { key: 'a', operator: 'Exists' },
          { key: 'b', operator: 3 },
          { key: 'c', values: ['x'] },
        ],
      }),
      {
        select: [
          {
            ...arena,
            matchExpressions: [
              { key: 'map', operator: 'In', values: ['dust'] },
              { key: 'mode', operator: 'NotIn', values: ['ranked'] },
              { key: 'a', operator: 'Exists' },
              { key: 'b', operator: 'DoesNotExist' },
              { key: 'c', operator: 'In', values: ['x'] },
            ],
          },
        ],
      },
    ],
    [
      'names fleets by expressions',
      select(
        { matchExpressions: [{ key: 'agones.dev/fleet', operator: 'In', values: ['canary', 'gone'] }] },
        { matchExpressions: [{ key: 'agones.dev/fleet', operator: 'NotIn', values: ['canary'] }] },
        { matchExpressions: [{ key: 'agones.dev/fleet', operator: 'DoesNotExist' }] },
      ),
      { select: [{ ...arena, builds: ['id-of-canary'] }, arena] },
    ],
    [
      'wants a server with room',
      select({ matchLabels: fleet, gameServerState: 'ALLOCATED' }),
      { select: [{ ...arena, state: 'active' }] },
    ],
    ['says READY by its number', select({ matchLabels: fleet, gameServerState: 0 }), { select: [arena] }],
    [
      'says ALLOCATED by its number',
      select({ matchLabels: fleet, gameServerState: 1 }),
      { select: [{ ...arena, state: 'active' }] },
    ],
    [
      'has conditions on counters, as texts and as numbers; a maximum of 0 is none',
      select({
        matchLabels: fleet,
        counters: { rooms: { minCount: '1', minAvailable: 2, maxCount: '0', maxAvailable: 0 }, seats: {} },
      }),
      { select: [{ ...arena, counters: { rooms: { minCount: 1, minAvailable: 2 }, seats: { minCount: 0 } } }] },
    ],
    [
      'has conditions on lists',
      select({
        matchLabels: fleet,
        lists: { players: { containsValue: 'amie', minAvailable: '3' }, others: { containsValue: '' } },
      }),
      {
        select: [{ ...arena, lists: { players: { contains: 'amie', minAvailable: 3 }, others: { minAvailable: 0 } } }],
      },
    ],
    [
      'has the old spelling: the preferred selectors in order, then the required one',
      {
        preferredGameServerSelectors: [{ matchLabels: { 'agones.dev/fleet': 'canary' } }],
        requiredGameServerSelector: { matchLabels: fleet },
        metaPatch: { labels: { mode: 'ranked' } },
      },
      { select: [{ ...arena, builds: ['id-of-canary'] }, arena], labels: { mode: 'ranked' } },
    ],
    [
      'has both spellings, of which the new one counts',
      {
        ...select({ matchLabels: fleet }),
        requiredGameServerSelector: { matchLabels: { 'agones.dev/fleet': 'canary' } },
        metadata: { labels: { mode: 'ranked' } },
        metaPatch: { labels: { mode: 'casual' } },
      },
      { select: [arena], labels: { mode: 'ranked' } },
    ],
    ['is to be packed', { scheduling: 'Packed', ...select({ matchLabels: fleet }) }, { select: [arena] }],
    [
      'is to be distributed',
      { scheduling: 'Distributed', ...select({ matchLabels: fleet }) },
      { select: [arena], order: { by: 'distributed' } },
    ],
    [
      'says Distributed by its number',
      { scheduling: 1, ...select({ matchLabels: fleet }) },
      { select: [arena], order: { by: 'distributed' } },
    ],
    [
      'prefers the least available',
      { priorities: [{ type: 'Counter', key: 'rooms', order: 'Ascending' }], ...select({ matchLabels: fleet }) },
      { select: [arena], order: { by: 'least-available', counter: 'rooms' } },
    ],
    [
      'prefers the most available, by numbers',
      {
        priorities: [{ type: 0, key: 'rooms', order: 1 }],
        scheduling: 'Distributed',
        ...select({ matchLabels: fleet }),
      },
      { select: [arena], order: { by: 'most-available', counter: 'rooms' } },
    ],
    [
      'sets labels and annotations',
      {
        metadata: { labels: { mode: 'ranked' }, annotations: { 'example.com/match': '42' } },
        ...select({ matchLabels: fleet }),
      },
      { select: [arena], labels: { mode: 'ranked' }, annotations: { 'example.com/match': '42' } },
    ],
    [
      'has a cookie and players as annotations, which are not set',
      {
        metadata: {
          annotations: {
            'mps.gamekeeper.com/session-cookie': 'ranked',
            'mps.gamekeeper.com/initial-players': '["amie","bo"]',
          },
        },
        ...select({ matchLabels: fleet }),
      },
      { select: [arena], sessionCookie: 'ranked', initialPlayers: ['amie', 'bo'] },
    ],
    [
      'counts',
      {
        counters: {
          rooms: { action: 'Increment', amount: '1' },
          seats: { action: 'Decrement', amount: 2, capacity: '10' },
          other: { capacity: 5 },
        },
        ...select({ matchLabels: fleet }),
      },
      {
        select: [arena],
        counters: { rooms: { increment: 1 }, seats: { decrement: 2, capacity: 10 }, other: { capacity: 5 } },
      },
    ],
    [
      'changes lists; what it adds and deletes is deleted',
      {
        lists: { players: { addValues: ['amie', 'amie', 'bo'], deleteValues: ['bo'], capacity: '9' } },
        ...select({ matchLabels: fleet }),
      },
      { select: [arena], lists: { players: { add: ['amie'], remove: ['bo'], capacity: 9 } } },
    ],
    [
      'names what it does not change',
      {
        counters: { rooms: {}, seats: { action: 'Increment', amount: 0 } },
        lists: { players: { addValues: [] } },
        ...select({ matchLabels: fleet }),
      },
      { select: [arena] },
    ],
    [
      'says that it is for this cluster',
      { multiClusterSetting: { enabled: false }, ...select({ matchLabels: fleet }) },
      { select: [arena] },
    ],
  ])('that %s is understood', async (_, body, expected) => {
    expect(await allocation(body)).toEqual({ ...packed, ...expected })
  })

  it('that has a session as an annotation says so', () => {
    const { request } = readAllocatorRequest({
      metadata: { annotations: { 'mps.gamekeeper.com/session-id': 'ranked/7' } },
    })
    expect(request).toEqual({ sessionID: 'ranked/7', order: { by: 'packed' } })
  })

  it.each<[unknown, string]>([
    [[], 'body must be an object, but is []'],
    [{ gameServerSelectors: {} }, 'gameServerSelectors must be an array of selectors, but is {}'],
    [select({ matchLabels: { 'a b': 'c' } }), 'gameServerSelectors[0].matchLabels'],
    [
      select({ gameServerState: 'Ready' }),
      'gameServerSelectors[0].gameServerState must be READY, ALLOCATED or the number of one',
    ],
    [select({ gameServerState: 2 }), 'gameServerSelectors[0].gameServerState must be READY or ALLOCATED, but is 2'],
    [
      select({ counters: { rooms: { maxCount: 3 } } }),
      'gameServerSelectors[0].counters.rooms.maxCount is not supported: a selector has minimums only',
    ],
    [
      select({ counters: { rooms: { maxAvailable: '3' } } }),
      'gameServerSelectors[0].counters.rooms.maxAvailable is not supported',
    ],
    [
      select({ lists: { players: { maxAvailable: 3 } } }),
      'gameServerSelectors[0].lists.players.maxAvailable is not supported',
    ],
    [
      select({ counters: { rooms: { minCount: 1.5 } } }),
      'gameServerSelectors[0].counters.rooms.minCount must be an integer from 0 to 9007199254740991, but is 1.5',
    ],
    [
      select({ counters: { rooms: { minCount: '-1' } } }),
      'gameServerSelectors[0].counters.rooms.minCount must be an integer from 0 to 9007199254740991, as a number or a string',
    ],
    [
      select({ counters: { rooms: { minCount: '9999999999999999' } } }),
      'minCount must be an integer from 0 to 9007199254740991',
    ],
    [
      select({ matchExpressions: [{ key: 'map', operator: 'Like', values: ['d'] }] }),
      'gameServerSelectors[0].matchExpressions[0].operator must be In, NotIn, Exists, DoesNotExist or the number of one',
    ],
    [
      select({ matchExpressions: [{ key: 'map', operator: 'In' }] }),
      'gameServerSelectors[0].matchExpressions[0].values must not be empty for the operator In',
    ],
    [
      select({ matchExpressions: [{ key: 'map', operator: 'Exists', values: ['d'] }] }),
      'gameServerSelectors[0].matchExpressions[0].values must be empty for the operator Exists',
    ],
    [
      { requiredGameServerSelector: { lists: { players: { maxAvailable: 3 } } } },
      'requiredGameServerSelector.lists.players.maxAvailable is not supported',
    ],
    [
      { preferredGameServerSelectors: [{ gameServerState: 7 }] },
      'preferredGameServerSelectors[0].gameServerState must be READY or ALLOCATED',
    ],
    [{ gameServerSelectors: Array.from({ length: 100 }, () => ({})) }, 'gameServerSelectors must be at most'],
    [{ scheduling: 'Random' }, 'scheduling must be Packed, Distributed or the number of one, but is "Random"'],
    [
      { priorities: [{ type: 'List', key: 'players' }] },
      'priorities[0].type must be Counter: servers are not sorted by lists',
    ],
    [{ priorities: [{ type: 'Counter' }] }, 'priorities[0].key must be the name of a counter'],
    [
      { priorities: [{ key: 'rooms' }, { key: 'seats' }] },
      'priorities[1] is not supported: servers are sorted by one counter',
    ],
    [{ counters: { rooms: { action: 'Multiply', amount: 2 } } }, 'counters.rooms.action must be'],
    [{ counters: { rooms: { action: 'Increment' } } }, 'counters.rooms must have both action and amount, or neither'],
    [{ counters: { rooms: { amount: 1 } } }, 'counters.rooms must have both action and amount, or neither'],
    [
      { multiClusterSetting: { enabled: true } },
      'multiClusterSetting.enabled must be false: a request is for this fleet alone',
    ],
    [
      { metadata: { annotations: { 'mps.gamekeeper.com/initial-players': 'amie' } } },
      'metadata.annotations[mps.gamekeeper.com/initial-players] must be like ["amie","bo"], but is "amie"',
    ],
  ])('%j is refused', (body, message) => {
    expect(() => readAllocatorRequest(body)).toThrow(
      expect.objectContaining({ code: 'invalid', message: expect.stringContaining(message) }),
    )
  })

  it('that names no build of its namespace finds none', async () => {
    const asked = readAllocatorRequest({ namespace: 'empty' })
    await expect(allocationInputOf(asked, 's', builds)).rejects.toMatchObject({
      code: 'not-found',
      message: 'no build in namespace empty has a name that the request allows',
    })
  })

  it('that names no fleet takes a server of any of many builds, up to a limit', async () => {
    const many = (count: number) => fleetOf(...Array.from({ length: count }, (_, i) => named(`b${i}`)))
    const { select: selectors } = await allocationInputOf(readAllocatorRequest({}), 's', many(128))
    expect(selectors).toHaveLength(8)
    expect(selectors?.flatMap(({ builds }) => builds)).toHaveLength(128)
    await expect(allocationInputOf(readAllocatorRequest({}), 's', many(129))).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(/^gameServerSelectors 9 selectors would be needed.*agones\.dev\/fleet$/),
    })
  })

  it('is not answered if the builds cannot be looked up', async () => {
    const get = () => Promise.reject(new FleetError('not-leader', 'another host leads'))
    const asked = readAllocatorRequest(select({ matchLabels: fleet }))
    await expect(allocationInputOf(asked, 's', { ...builds, get })).rejects.toMatchObject({ code: 'not-leader' })
  })
})

describe('an answer of the allocator', () => {
  const ports = [{ name: 'game', container: 7_777, public: 10_003, protocol: 'UDP' }]
  const granted = {
    IPV4Address: '203.0.113.9',
    Ports: '7777:10003',
    SessionID: 's',
    ports,
    server: { namespace: 'default', name: 'arena-x7k2p' },
  }
  const bare = {
    gameServerName: 'arena-x7k2p',
    ports: [{ name: 'game', port: 10_003 }],
    address: '203.0.113.9',
    addresses: [{ type: 'ExternalIP', address: '203.0.113.9' }],
    nodeName: '',
    source: 'local',
    metadata: { labels: {}, annotations: {} },
    counters: {},
    lists: {},
  }

  it('has the address and the ports, also of a server that has ended', () => {
    expect(allocatorAnswer(granted, undefined)).toEqual(bare)
  })

  it('has the data of the server, with integers as texts', () => {
    const server = {
      metadata: { labels: { map: 'dust' }, annotations: { match: '42' } },
      status: {
        nodeName: 'node-1',
        counters: { rooms: { count: 2, capacity: 10 } },
        lists: { players: { values: ['amie'], capacity: 16 } },
      },
    }
    expect(allocatorAnswer(granted, server as never)).toEqual({
      ...bare,
      nodeName: 'node-1',
      metadata: { labels: { map: 'dust' }, annotations: { match: '42' } },
      counters: { rooms: { count: '2', capacity: '10' } },
      lists: { players: { values: ['amie'], capacity: '16' } },
    })
  })

  it('says whether the address is a name', () => {
    const answer = allocatorAnswer({ ...granted, IPV4Address: 'node-1.example' }, undefined)
    expect(isObject(answer) && answer['addresses']).toEqual([{ type: 'ExternalDNS', address: 'node-1.example' }])
  })

  it.each([
    ['none-standing-by', 8],
    ['max-reached', 8],
    ['not-found', 8],
    ['rate-limited', 8],
    ['conflict', 10],
    ['invalid', 3],
    ['unauthenticated', 16],
    ['forbidden', 7],
    ['unavailable', 14],
    ['not-leader', 14],
    ['internal', 13],
    ['exists', 13],
  ] as const)('of the error %s has the code %i', (code, number) => {
    expect(allocatorErrorBody('why', code)).toEqual({ code: number, message: 'why', details: [] })
  })
})
