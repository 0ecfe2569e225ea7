/** Sample records for tests: `complete…` sets every optional field, `minimal…` sets none. Pure. */
import type { DemandRecord } from '../rules/demand/demand-day.js'
import type { Build, Detail, Ref, Server } from '../rules/model/resources.js'

export function completeBuild(ref: Ref): Build {
  return {
    ...minimalBuild(ref),
    spec: {
      buildID: `build-of-${ref.namespace}-${ref.name}`,
      standingBy: 2,
      max: 10,
      portsToExpose: [7777, 7778],
      crashesToMarkUnhealthy: 5,
      template: {
        metadata: { labels: { tier: 'gold', 'example.com/owner': 'arena' }, annotations: {} },
        spec: {
          containers: [
            {
              name: 'game',
              image: 'registry.example.com/arena:1.2.3',
              command: ['./arena', '--level=7'],
              env: [{ name: 'MODE', value: '' }],
              ports: [{ name: 'game', containerPort: 7777, protocol: 'UDP' }],
              resources: { limits: { cpu: '500m', memory: '256Mi' }, requests: null },
            },
          ],
          volumes: [],
          shareProcessNamespace: false,
          terminationGracePeriodSeconds: 0,
          weight: 0.125,
        },
      },
      termination: 'SignalFirst',
      eviction: 'never',
      buildMetadata: { region: 'north', empty: '' },
      counters: { rooms: { count: 0, capacity: 10 } },
      lists: { players: { values: ['amie'], capacity: 100 } },
    },
    crashes: 3,
    countedCrashes: ['uid-1', 'uid-2'],
    recentCrashes: [
      {
        at: 1_700_000_000_000,
        server: 'arena-x7k2p',
        reason: 'NonZeroExit',
        message: 'the process exited with code 3',
        output: 'loading | cannot open canyon.nav',
      },
      { at: 1_699_999_999_000, server: 'arena-b4d9z', reason: 'Silent', message: 'no heartbeat for 30 s' },
    ],
    conditions: [
      { type: 'Crashing', reason: 'NonZeroExit', message: 'servers exit with status 1', since: 1_700_000_001_000 },
      { type: 'CreateBlocked', reason: 'ports-exhausted', message: 'no port is free', since: 1_700_000_002_000 },
    ],
  }
}

export function minimalBuild(ref: Ref): Build {
  return {
    namespace: ref.namespace,
    name: ref.name,
    uid: `uid-of-${ref.name}`,
    createdAt: 1_700_000_000_000,
    spec: {
      buildID: `build-of-${ref.namespace}-${ref.name}`,
      standingBy: 0,
      max: 0,
      portsToExpose: [],
      template: { spec: { containers: [{ name: 'game' }] } },
    },
    crashes: 0,
    countedCrashes: [],
    conditions: [],
  }
}

export function completeServer(ref: Ref): Server {
  return {
    ...minimalServer(ref),
    graceSeconds: 90,
    state: 'Terminating',
    health: 'Healthy',
    address: '203.0.113.7',
    node: 'node-1.example.com',
    ports: [
      { container: 7777, public: 10_003 },
      { container: 7778, public: 10_004 },
    ],
    reachedInitializingOn: 1_700_000_001_000,
    reachedStandingByOn: 1_700_000_002_000,
    reachedActiveOn: 1_700_000_003_000,
    sessions: [
      {
        id: 'a9b1c2d3-0000-4000-8000-000000000001',
        cookie: 'mode=duel',
        initialPlayers: ['amie', 'bob'],
        holds: [
          { player: 'bob', until: 1_700_000_063_000 },
          { player: 'Zoë', until: 1_700_000_064_500 },
        ],
        number: 4,
        startedAt: 1_700_000_003_000,
      },
      { id: 'room-5', cookie: 'map=dust', initialPlayers: ['cem'], number: 5, startedAt: 1_700_000_003_500 },
      { id: 'Räume 7', initialPlayers: [], number: 7, startedAt: 1_700_000_003_900, ending: true },
    ],
    startedSessions: 8,
    reservedUntil: 1_700_000_090_000,
    maintenance: { at: 1_700_003_600_000, source: 'node' },
    data: {
      labels: { map: 'dust', 'example.com/mode': '' },
      annotations: { note: 'Grüße\n', 'example.com/note': '' },
      counters: { rooms: { count: 3, capacity: 10 } },
      lists: { players: { values: ['amie', 'bob'], capacity: 100 }, empty: { values: [], capacity: 0 } },
    },
    ending: {
      reason: 'NonZeroExit',
      message: 'the process exited with status 3',
      crash: true,
      at: 1_700_000_004_000,
      exitCode: 3,
    },
  }
}

export function minimalServer(ref: Ref): Server {
  return {
    namespace: ref.namespace,
    name: ref.name,
    uid: `uid-of-${ref.name}`,
    token: `token-of-${ref.name}`,
    build: 'arena',
    buildUid: 'uid-of-arena',
    templateHash: '0123456789abcd',
    createdAt: 1_700_000_000_000,
    state: 'Pending',
    health: 'Unknown',
    sessions: [],
  }
}

export function completeDetail(ref: Ref): Detail {
  return { ...minimalDetail(ref), players: ['amie', 'bob'] }
}

export function completeDemand(ref: Ref): DemandRecord {
  return {
    ...minimalDemand(ref),
    ...{ asked: [0, 2, 1], refused: [0, 1], inUse: [0, 2, 3], waits: { 0: 2, 17: 1 } },
    ...{ starts: { 40: 3 }, sessions: { 0: { 60: 1 }, 23: { 61: 2 } } },
  }
}

export function minimalDemand(ref: Ref): DemandRecord {
  const { namespace, name } = ref
  const empty = { asked: [], refused: [], inUse: [], waits: {}, starts: {}, sessions: {} }
  return { namespace, name, build: 'arena', day: '2026-01-02', ...empty }
}

export function minimalDetail(ref: Ref): Detail {
  return { namespace: ref.namespace, name: ref.name, build: 'arena', players: [] }
}
