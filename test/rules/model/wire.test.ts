/** The public JSON shape of builds, servers, details and allocations. */
import { describe, expect, it } from 'vitest'
import type { Detail } from '../../../src/rules/model/resources.js'
import type { BuildCounts } from '../../../src/rules/model/build-status.js'
import {
  defaultApiGroup,
  gameServer,
  gameServerBuild,
  gameServerBuildDetail,
  gameServerDetail,
} from '../../../src/rules/model/wire.js'
import { aBuild, aServer, aSpec, createdAt, frozen, session } from '../support.js'

const group = defaultApiGroup
const apiVersion = 'mps.gamekeeper.com/v1alpha1'
const creationTimestamp = '2024-01-02T03:04:05.678Z'
const none: BuildCounts = frozen({ pending: 0, initializing: 0, standingBy: 0, active: 0, terminating: 0 })
const some: BuildCounts = frozen({ pending: 1, initializing: 2, standingBy: 3, active: 4, terminating: 5 })

/** The value after a JSON round trip, where absent and undefined are the same. */
const seen = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

describe('a GameServerBuild', () => {
  it('contains its spec unchanged, and all counters even if they are 0', () => {
    expect(seen(gameServerBuild(aBuild(), none, group))).toStrictEqual({
      apiVersion,
      kind: 'GameServerBuild',
      metadata: { name: 'arena', namespace: 'default', creationTimestamp },
      spec: aSpec(),
      status: {
        currentActive: 0,
        currentStandingBy: 0,
        crashesCount: 0,
        currentPending: 0,
        currentInitializing: 0,
        health: 'Healthy',
        currentStandingByReadyDesired: '0/2',
      },
    })
  })

  it('counts its servers by state, excluding Terminating ones', () => {
    const build = aBuild({ crashes: 6, spec: aSpec({ standingBy: 5, crashesToMarkUnhealthy: 6 }) })
    expect(gameServerBuild(build, some, group).status).toStrictEqual({
      currentActive: 4,
      currentStandingBy: 3,
      crashesCount: 6,
      currentPending: 1,
      currentInitializing: 2,
      health: 'Unhealthy',
      currentStandingByReadyDesired: '3/5',
    })
  })

  it('shows every optional field of its spec', () => {
    const spec = aSpec({ portsToExpose: [], crashesToMarkUnhealthy: 5, buildMetadata: { map: 'dust' } })
    expect(seen(gameServerBuild(aBuild({ spec }), none, group))).toMatchObject({ spec })
  })

  it('shows its conditions', () => {
    const conditions = [
      { type: 'Crashing', reason: 'NonZeroExit', message: 'it exited with 1', since: createdAt },
    ] as const
    expect(gameServerBuild(aBuild({ conditions }), none, group).status.conditions).toStrictEqual([
      {
        type: 'Crashing',
        status: 'True',
        reason: 'NonZeroExit',
        message: 'it exited with 1',
        lastTransitionTime: creationTimestamp,
      },
    ])
  })

  it('shows the progress of a rolling update while it has outdated servers', () => {
    const status = (updated: number, outdated: number) =>
      gameServerBuild(aBuild(), some, group, frozen({ rollout: { updated, outdated } })).status
    expect(status(3, 7).rollout).toStrictEqual({ updated: 3, outdated: 7 })
    expect(status(0, 7).rollout).toStrictEqual({ updated: 0, outdated: 7 })
    expect(status(10, 0)).not.toHaveProperty('rollout')
  })

  it('does not show internal fields', () => {
    const text = JSON.stringify(gameServerBuild(aBuild({ countedCrashes: ['secret-uid'] }), none, group))
    expect(text).not.toMatch(/secret-uid|build-uid|countedCrashes/)
  })
})

describe('a GameServer', () => {
  const times = {
    reachedInitializingOn: '2024-01-02T03:04:06.678Z',
    reachedStandingByOn: '2024-01-02T03:04:07.678Z',
    reachedActiveOn: '2024-01-02T03:04:08.678Z',
  }
  const place = { publicIP: '203.0.113.9', ports: '7777:10003', nodeName: 'node-1' }
  const { reachedInitializingOn, reachedStandingByOn } = times

  it.each([
    ['Pending', { state: 'Pending', health: 'Unknown', publicIP: '', ports: '', nodeName: '' }],
    ['Initializing', { state: 'Initializing', health: 'Unknown', ...place, reachedInitializingOn }],
    ['StandingBy', { state: 'StandingBy', health: 'Healthy', ...place, reachedInitializingOn, reachedStandingByOn }],
    ['Active', { state: 'Active', health: 'Healthy', ...place, ...times, sessionID: session.id }],
    ['Terminating', { state: 'Terminating', health: 'Healthy', ...place, ...times, message: 'it was deleted' }],
  ] as const)('that is %s shows exactly this', (state, status) => {
    expect(seen(gameServer(aServer(state), group))).toStrictEqual({
      apiVersion,
      kind: 'GameServer',
      metadata: { name: 'arena-x7k2p', namespace: 'default', creationTimestamp },
      status,
    })
  })

  it('shows why it is not as it should be, until it ends', () => {
    const reason = 'no free port from 10000 to 12000'
    expect(gameServer(aServer('Pending'), group, reason).status.message).toBe(reason)
    for (const state of ['Initializing', 'StandingBy', 'Active'] as const) {
      expect(gameServer(aServer(state), group, reason).status.message).toBe(reason)
      expect(gameServer(aServer(state), group).status).not.toHaveProperty('message')
    }
    expect(gameServer(aServer('Terminating'), group, reason).status.message).toBe('it was deleted')
  })

  it('lists its ports in order, separated by commas', () => {
    const ports = [
      { container: 7778, public: 10_004 },
      { container: 7777, public: 10_003 },
    ]
    expect(gameServer(aServer('StandingBy', { ports }), group).status.ports).toBe('7778:10004,7777:10003')
    expect(gameServer(aServer('StandingBy', { ports: [] }), group).status.ports).toBe('')
  })

  it('never shows its token', () => {
    for (const state of ['Pending', 'Active', 'Terminating'] as const) {
      const text = JSON.stringify(gameServer(aServer(state, { token: 'the-secret' }), group))
      expect(text).not.toContain('the-secret')
    }
  })
})

describe('a GameServerDetail', () => {
  const one = frozen({ namespace: 'default', name: 'arena-x7k2p' })
  const other = frozen({ namespace: 'default', name: 'arena-b3c4d' })
  const players = (...names: readonly string[]): Detail => frozen({ ...one, build: 'arena', players: names })

  it('lists the players of one server', () => {
    expect(seen(gameServerDetail(one, players('amie', 'bo'), group))).toStrictEqual({
      apiVersion,
      kind: 'GameServerDetail',
      metadata: { name: 'arena-x7k2p', namespace: 'default' },
      spec: { connectedPlayersCount: 2, connectedPlayers: ['amie', 'bo'] },
    })
  })

  it('has a count of 0 and an empty list when there are no players, and before the first player connects', () => {
    const empty = { connectedPlayersCount: 0, connectedPlayers: [] }
    expect(gameServerDetail(one, players(), group).spec).toStrictEqual(empty)
    expect(gameServerDetail(one, undefined, group).spec).toStrictEqual(empty)
  })

  it('shows no other fields of the record', () => {
    const record = frozen({ ...aServer('Active', { token: 'the-secret' }), players: ['amie'] })
    expect(JSON.stringify(gameServerDetail(record, record, group))).not.toContain('the-secret')
  })

  it('aggregates the players and details of all servers of a build', () => {
    const items = frozen([
      gameServerDetail(one, players('amie', 'bo'), group),
      gameServerDetail(other, undefined, group),
      gameServerDetail(other, players('cleo'), group),
    ])
    expect(seen(gameServerBuildDetail(aBuild(), items, group))).toStrictEqual({
      apiVersion,
      kind: 'GameServerDetail',
      metadata: { name: 'arena', namespace: 'default' },
      spec: { connectedPlayersCount: 3, connectedPlayers: ['amie', 'bo', 'cleo'] },
      items: seen(items),
    })
  })

  it('is empty for a build without servers', () => {
    expect(gameServerBuildDetail(aBuild(), [], group)).toMatchObject({
      spec: { connectedPlayersCount: 0, connectedPlayers: [] },
      items: [],
    })
  })
})

describe('the API group', () => {
  it('is part of the apiVersion of every resource', () => {
    const ref = aServer('Active')
    const detail = gameServerDetail(ref, undefined, 'mps.example.com')
    const shapes = [
      gameServerBuild(aBuild(), none, 'mps.example.com'),
      gameServer(ref, 'mps.example.com'),
      detail,
      gameServerBuildDetail(ref, [detail], 'mps.example.com'),
    ]
    expect(shapes.map((shape) => shape.apiVersion)).toEqual(shapes.map(() => 'mps.example.com/v1alpha1'))
  })
})
