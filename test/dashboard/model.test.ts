/** What the page knows of the fleet: a snapshot and the events after it. */
import { fc, test as property } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import type { ServerState } from '../../src/index.js'
import {
  countsOf,
  crashesInHour,
  emptyModel,
  type Model,
  perMinute,
  playersOf,
  serversOf,
  sessionCountOf,
  type Snapshot,
  type StreamedEvent,
  withPlayers,
  withSnapshot,
} from '../../src/dashboard/page/data/model.js'
import { applyToServers, maxCrashes, maxEvents, reduce } from '../../src/dashboard/page/data/reduce.js'
import { parseRoute } from '../../src/dashboard/page/data/routes.js'
import { playersFound, search, sessionsOf } from '../../src/dashboard/page/data/search.js'
import {
  blockedReason,
  deleteConsequence,
  drainConsequence,
  drainServerConsequence,
  noServersText,
  scaleChange,
  scaleConsequence,
  scaleProblem,
  terminateConsequence,
} from '../../src/dashboard/page/data/consequences.js'
import { asCurl, asTypeScript } from '../../src/dashboard/page/data/examples.js'
import { lineDiff } from '../../src/dashboard/page/data/line-diff.js'
import { checkSpec } from '../../src/dashboard/page/data/spec-check.js'
import { adviceFor, causeIn, duration, partsAt } from '../../src/dashboard/page/data/words.js'
import { conditionTypes } from '../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../src/rules/model/wire.js'

const build = { namespace: 'default', name: 'arena' }
const key = 'default/arena'
const server = (name: string) => ({ namespace: 'default', name })
let seq = 0
const base = (at = 0) => ({ seq: ++seq, at, message: 'it happened', build })
const created = (name: string): StreamedEvent => ({ type: 'ServerCreated', ...base(), server: server(name) })
const changed = (name: string, from: ServerState, to: ServerState): StreamedEvent => ({
  type: 'ServerStateChanged',
  ...base(),
  server: server(name),
  from,
  to,
})
const removed = (name: string): StreamedEvent => ({ type: 'ServerRemoved', ...base(), server: server(name) })
const allocated = (name: string, sessionID: string, at = 0): StreamedEvent => ({
  type: 'Allocated',
  ...base(at),
  server: server(name),
  sessionID,
  waitedMs: 3,
})
const arena: GameServerBuild = {
  apiVersion: 'v1',
  kind: 'GameServerBuild',
  metadata: build,
  spec: { buildID: 'arena-1.0', standingBy: 1, max: 2, portsToExpose: [], template: {} },
  status: {
    currentActive: 0,
    currentStandingBy: 0,
    crashesCount: 0,
    currentPending: 0,
    currentInitializing: 0,
    health: 'Healthy',
    currentStandingByReadyDesired: '0/1',
  },
}
const snapshotOf = (states: Readonly<Record<string, ServerState>>): Snapshot => ({
  builds: [arena],
  sessions: [],
  servers: new Map([
    [
      key,
      Object.entries(states).map(([name, state]) => ({
        apiVersion: 'v1',
        kind: 'GameServer',
        metadata: { ...server(name), creationTimestamp: new Date(5_000).toISOString() },
        status: { state, health: 'Healthy', publicIP: '', ports: '', nodeName: '' },
      })),
    ],
  ]),
})
const states = (model: Model) =>
  Object.fromEntries([...(model.servers.get(key)?.values() ?? [])].map(({ name, state }) => [name, state]))

describe('events', () => {
  it('follow a server from its creation to its removal', () => {
    const events = [
      created('a'),
      changed('a', 'Pending', 'Initializing'),
      changed('a', 'Initializing', 'StandingBy'),
      allocated('a', 'match-1'),
      changed('a', 'StandingBy', 'Active'),
    ]
    const model = reduce(emptyModel, events)
    expect(states(model)).toEqual({ a: 'Active' })
    expect(countsOf(model, key)).toMatchObject({ Active: 1, StandingBy: 0 })
    expect(sessionsOf(model, 'match')).toMatchObject([{ id: 'match-1', server: { name: 'a' } }])
    expect(states(reduce(model, [changed('a', 'Active', 'Terminating'), removed('a')]))).toEqual({})
  })

  it('leave the maps of other builds as they are', () => {
    const other: StreamedEvent = {
      type: 'ServerCreated',
      ...base(),
      build: { ...build, name: 'duel' },
      server: server('d'),
    }
    const before = reduce(emptyModel, [created('a'), other])
    const after = reduce(before, [changed('a', 'Pending', 'Initializing')])
    expect(after.servers.get('default/duel')).toBe(before.servers.get('default/duel'))
    expect(after.servers.get(key)).not.toBe(before.servers.get(key))
  })

  it('are kept up to a limit, once each, with a count of those that were dropped', () => {
    const gap: StreamedEvent = { type: 'EventsDropped', from: seq + 1, seq: (seq += 7), message: 'gone' }
    const many = Array.from({ length: maxEvents + 10 }, (_, index) => created(`s-${index}`))
    const model = reduce(reduce(emptyModel, [gap, ...many]), many)
    expect(model.events).toHaveLength(maxEvents)
    expect(model.events.at(-1)).toBe(many.at(-1))
    expect(model.dropped).toBe(7 + 10)
  })

  it('count allocations and crashes by the minute', () => {
    const crash: StreamedEvent = {
      type: 'ServerEnding',
      ...base(61_000),
      server: server('a'),
      reason: 'NonZeroExit',
      crash: true,
    }
    const model = reduce(emptyModel, [allocated('a', '1', 1_000), allocated('b', '2', 59_000), crash])
    expect(model.minutes).toEqual([
      { at: 0, allocations: 2, longestWaitMs: 3, crashes: 0 },
      { at: 60_000, allocations: 0, longestWaitMs: 0, crashes: 1 },
    ])
    expect(perMinute(model.minutes, 70_000)).toBe(2)
    expect(perMinute(model.minutes, 200_000)).toBe(0)
    expect(model.crashes).toMatchObject([{ reason: 'NonZeroExit', build: key }])
  })

  it('count all crashes of the last hour, however few of them are kept', () => {
    const crashes = Array.from({ length: maxCrashes + 50 }, (_, index): StreamedEvent => ({
      type: 'ServerEnding',
      ...base(10 * 60_000 + index),
      server: server(`c-${index}`),
      reason: 'NonZeroExit',
      crash: true,
    }))
    const { minutes } = reduce(emptyModel, crashes)
    expect(crashesInHour(minutes, 60 * 60_000)).toBe(maxCrashes + 50)
    expect(crashesInHour(minutes, 71 * 60_000)).toBe(0)
  })

  it('of a deleted build remove it', () => {
    const model = withSnapshot(emptyModel, snapshotOf({ a: 'StandingBy' }))
    expect(reduce(model, [{ type: 'BuildDeleted', ...base() }]).builds.size).toBe(0)
  })
})

describe('a snapshot', () => {
  property.prop([fc.array(fc.nat({ max: 2 }), { maxLength: 12 }), fc.nat({ max: 12 })])(
    'taken at any time during the events leads to the same servers',
    (servers, takenAfter) => {
      const life: readonly ServerState[] = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating']
      const steps = [0, 0, 0]
      const events = servers.map((index) => {
        const name = `s-${index}`
        const step = steps[index] ?? 0
        steps[index] = step + 1
        if (step === 0) return created(name)
        const [from, to] = [life[step - 1], life[step]]
        return from && to ? changed(name, from, to) : removed(name)
      })
      const cut = Math.min(takenAfter, events.length)
      const atCut = states(applyToServers(emptyModel, events.slice(0, cut)))
      // All the events have arrived since the snapshot was asked for.
      const model = applyToServers(withSnapshot(emptyModel, snapshotOf(atCut)), events)
      expect(states(model)).toEqual(states(applyToServers(emptyModel, events)))
    },
  )

  it('keeps its players when the event of the allocation arrives after it', () => {
    const session = {
      sessionID: 'one',
      buildID: 'arena-1.0',
      build,
      server: server('a'),
      state: 'Active' as const,
      address: '',
      ports: [],
      initialPlayers: ['amie'],
      players: [],
    }
    const model = withSnapshot(emptyModel, { ...snapshotOf({ a: 'Active' }), sessions: [session] })
    const later = applyToServers(model, [allocated('a', 'one')])
    expect(sessionsOf(later, 'AMIE')).toHaveLength(1)
    const players = withPlayers(later, key, { ...session, players: ['bob', 'cleo'] })
    expect(sessionsOf(players, '')[0]?.players).toEqual(['bob', 'cleo'])
    expect(playersFound(model, '')).toMatchObject([{ player: 'amie', isExpected: true, session: { id: 'one' } }])
    expect(playersOf(model, key)).toBe(0)
    expect(playersFound(players, 'B')).toMatchObject([{ player: 'bob', isExpected: false }])
    expect(playersOf(players, key)).toBe(2)
  })

  it('of a server with several sessions: each has its own age, and a player counts once', () => {
    const sessionAt = (sessionID: string, startedAt: number) => ({
      sessionID,
      buildID: 'arena-1.0',
      build,
      server: server('a'),
      state: 'Active' as const,
      startedAt: new Date(startedAt).toISOString(),
      address: '',
      ports: [],
      initialPlayers: [],
      players: ['amie', 'bob'],
    })
    const sessions = [sessionAt('one', 6_000), sessionAt('two', 9_000)]
    const model = withSnapshot(emptyModel, { ...snapshotOf({ a: 'Active' }), sessions })
    const ages = (of: Model) => sessionsOf(of, '').map(({ id, startedAt }) => `${id} ${startedAt}`)
    expect(ages(model)).toEqual(['two 9000', 'one 6000'])
    expect([playersOf(model, key), playersFound(model, '').length, sessionCountOf(model, key)]).toEqual([2, 2, 2])
    expect(search(model, 'amie')).toHaveLength(1)
    const later = applyToServers(model, [
      { ...allocated('a', 'three', 12_000) },
      { type: 'PlayersChanged', ...base(), server: server('a'), players: ['amie', 'bob', 'cleo'] },
    ])
    expect(ages(later)).toEqual(['three 12000', 'two 9000', 'one 6000'])
    expect([playersOf(later, key), playersFound(later, '').length, sessionCountOf(later, key)]).toEqual([3, 3, 3])
    // Its game does not say in which session they are.
    expect(playersFound(later, 'cleo')).toMatchObject([{ isExpected: false, session: undefined }])
  })

  it('shows announced maintenance until it is withdrawn', () => {
    const model = withSnapshot(emptyModel, snapshotOf({ a: 'StandingBy' }))
    const about = { ...base(), server: server('a') }
    const announced = applyToServers(model, [{ type: 'MaintenanceAnnounced', ...about, beginsAt: 9_000 }])
    expect(serversOf(announced, key).get('default/a')?.maintenance).toBe(9_000)
    const withdrawn = applyToServers(announced, [{ type: 'MaintenanceWithdrawn', ...about }])
    expect(serversOf(withdrawn, key).get('default/a')?.maintenance).toBeUndefined()
  })
})

describe('search', () => {
  it('finds builds, servers, sessions and players, those that begin with the text first', () => {
    const model = reduce(withSnapshot(emptyModel, snapshotOf({ 'arena-x1': 'Active', 'b-arena': 'StandingBy' })), [
      allocated('arena-x1', 'my-arena-match'),
    ])
    expect(search(model, 'ARENA').map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'build arena',
      'build arena-1.0',
      'server arena-x1',
      'session my-arena-match',
      'server b-arena',
    ])
    expect(search(model, '  ')).toEqual([])
  })
})

describe('addresses', () => {
  it.each([
    ['', 'overview', '/'],
    ['#/', 'overview', '/'],
    ['#/events?type=Allocated', 'events', '/'],
    ['#/builds/default/arena', 'build', 'default/arena'],
    ['#/servers/a%2Fb/c', 'server', 'a/b/c'],
    ['#/servers/default', 'unknown', 'default/'],
    ['#/servers/%E0%A4%A/c', 'server', '%E0%A4%A/c'],
    ['#/constructor', 'unknown', '/'],
  ])('%s is the view %s of %s', (hash, view, ref) => {
    const route = parseRoute(hash)
    expect([route.view, `${route.ref.namespace}/${route.ref.name}`]).toEqual([view, ref])
  })
})

describe('words', () => {
  it.each(conditionTypes)('say what to do about %s', (type) => {
    expect(adviceFor(type)).toMatch(/^[A-Z].*\.$/)
  })

  it.each([
    [400, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [7_200_000, '2 h'],
    [200_000_000, '2 d'],
  ])('give %i ms as %s', (ms, text) => {
    expect(duration(ms)).toBe(text)
  })
})

describe('what an action would do', () => {
  const counts = { Pending: 1, Initializing: 1, StandingBy: 3, Active: 4, Terminating: 2 }

  it.each([
    [{ standingBy: 7, max: 20 }, 'Starts 2 servers.'],
    [{ standingBy: 7, max: 10 }, 'Starts 1 server, not 2: max is 10, and 4 are in use.'],
    [{ standingBy: 6, max: 9 }, 'Starts and ends no server now, not 1: max is 9, and 4 are in use.'],
    [{ standingBy: 1, max: 20 }, 'Ends 4 idle servers.'],
    [{ standingBy: 5, max: 6 }, 'Ends 3 idle servers.'],
    [{ standingBy: 0, max: 2 }, 'Ends 5 idle servers.'],
    [{ standingBy: 5, max: 9 }, 'Starts and ends no server now.'],
  ])('a scale to %o: %s', (wanted, text) => {
    expect(scaleConsequence(counts, wanted)).toBe(`${text} Matches go on in any case.`)
    expect(scaleProblem(wanted)).toBeUndefined()
  })

  it.each([
    [{ standingBy: 3, max: 2 }, 'Standing by must be at most max.'],
    [{ standingBy: Number.NaN, max: 2 }, 'Both must be whole numbers from 0.'],
    [{ standingBy: 1.5, max: 2 }, 'Both must be whole numbers from 0.'],
  ])('a scale to %o is refused: %s', (wanted, problem) => {
    expect(scaleProblem(wanted)).toBe(problem)
  })

  it('a scale: only what differs is sent', () => {
    const before = { standingBy: 3, max: 9 }
    expect(scaleChange(before, { standingBy: 4, max: 9 })).toEqual({ standingBy: 4 })
    expect(scaleChange(before, { standingBy: 3, max: 12 })).toEqual({ max: 12 })
    expect(scaleChange(before, before)).toEqual({})
  })

  it('a drain, a deletion and the end of servers with several matches: counts the matches, and not the servers', () => {
    const matches = { sessions: 20, players: 137 }
    expect(drainConsequence(counts, matches, true)).toContain('Ends 20 matches on 4 servers with 137 players.')
    expect(deleteConsequence(counts, matches)).toContain('20 matches on 4 servers with 137 players will be ended.')
    expect(terminateConsequence(4, '12 players')).toContain('Its 4 matches with 12 players will be ended.')
    expect(terminateConsequence(0, '')).toContain('It has no match.')
    expect(drainServerConsequence(4)).toBe('Replaces the server when all its 4 matches are over.')
    expect(drainServerConsequence(0)).toBe('Ends the server now and replaces it.')
  })

  it('a scale of a build that starts no servers: says so, and why', () => {
    const status = { ...arena.status, health: 'Unhealthy' as const, crashesCount: 30 }
    const stopped = { spec: { ...arena.spec, crashesToMarkUnhealthy: 30 }, status }
    const reason = 'the build is stopped after 30 crashes (crashesToMarkUnhealthy is 30)'
    expect(blockedReason(stopped)).toBe(reason)
    expect(scaleConsequence(counts, { standingBy: 9, max: 20 }, reason)).toBe(
      `Starts no server now: ${reason}. Matches go on in any case.`,
    )
    expect(noServersText(stopped)).toBe(`No servers, and none will be started: ${reason}.`)
    expect(noServersText(arena)).toContain('They appear here as the fleet starts them.')
    expect(adviceFor('Crashing', true)).not.toContain('tries again')
  })

  it('a drain and a deletion: servers, matches and players', () => {
    const matches = { sessions: 4, players: 9 }
    expect(drainConsequence(counts, matches, false)).toContain(
      'Ends 5 idle servers. Lets 4 matches with 9 players go on',
    )
    expect(drainConsequence(counts, matches, true)).toContain('Ends 5 idle servers. Ends 4 matches with 9 players.')
    expect(deleteConsequence(counts, { sessions: 4, players: 1 })).toBe(
      'Ends 9 servers and removes the build. 4 matches with 1 player will be ended.',
    )
  })
})

describe('the programs of "Try it"', () => {
  const tried = { buildID: `it's`, sessionID: 'one', initialPlayers: ['$(reboot)'], waitSeconds: 10 }

  it('quote what they contain', () => {
    expect(asCurl('http://host/fleet', tried, true)).toBe(
      [
        `curl -X POST 'http://host/fleet/api/v1/allocate?wait=10'`,
        `-H 'Content-Type: application/json'`,
        '-H "Authorization: Bearer $TOKEN"',
        `-d '{\n  "buildID": "it'\\''s",\n  "sessionID": "one",\n  "initialPlayers": [\n    "$(reboot)"\n  ]\n}'`,
      ].join(' \\\n  '),
    )
    expect(asTypeScript('http://host', tried, false)).toContain(
      `{\n    "buildID": "it's",\n    "sessionID": "one",\n    "initialPlayers": [\n      "$(reboot)"\n    ]\n  },`,
    )
  })
})

describe('the spec editor', () => {
  const spec = {
    ...arena.spec,
    template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
  }
  const edited = (change: object) => checkSpec(JSON.stringify({ ...spec, ...change }), { metadata: build, spec })

  it.each([
    [{ standingBy: 'two' }, 'spec.standingBy must be'],
    [{ standingBy: 3 }, 'spec.standingBy must be at most'],
    [{ standingby: 1 }, 'spec.standingby'],
    [{ template: {} }, 'spec.template.spec'],
    [{ buildID: 'other' }, 'spec.buildID cannot be changed; it is arena-1.0'],
  ])('refuses %o with the message of the rules', (change, problem) => {
    expect(edited(change)).toMatchObject({ ok: false, problem: expect.stringContaining(problem) })
  })

  it('accepts a spec that the host accepts, and shows no difference where there is none', () => {
    const checked = edited({})
    expect(checked).toMatchObject({ ok: true, input: { metadata: build, spec } })
    expect(checkSpec('{', { metadata: build, spec })).toMatchObject({ ok: false })
  })

  property.prop([
    fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 }),
    fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 }),
  ])('shows a difference from which both texts can be read', (before, after) => {
    const lines = lineDiff(before.join('\n'), after.join('\n'))
    const without = (kind: string) => lines.filter((line) => line.kind !== kind).map(({ text }) => text)
    expect(without('added').join('\n')).toBe(before.join('\n'))
    expect(without('removed').join('\n')).toBe(after.join('\n'))
  })
})

it('a crash is told without the name of its server, which stands beside it', () => {
  const crash = { server: server('a-1'), message: 'a-1 is terminating: the process exited with code 3' }
  expect(causeIn(crash)).toBe('the process exited with code 3')
})

describe('the message of an event', () => {
  const names = (text: string, ...of: string[]) => partsAt(text, of).flatMap((part) => (part.isName ? [part.text] : []))

  it('is split at the names of its things, and not within longer names', () => {
    expect(partsAt('arena-x7k2p of arena was created', ['arena-x7k2p', 'arena'])).toEqual([
      { text: 'arena-x7k2p', isName: true },
      { text: ' of ', isName: false },
      { text: 'arena', isName: true },
      { text: ' was created', isName: false },
    ])
    expect(names('arena-x7k2p is gone', 'arena')).toEqual([])
    expect(names('build big_arena, build arena.', 'arena')).toEqual(['arena'])
    expect(names('nothing', '', 'arena')).toEqual([])
  })

  property.prop([fc.string(), fc.array(fc.string(), { maxLength: 3 })])('loses nothing', (text, of) => {
    expect(
      partsAt(text, of)
        .map((part) => part.text)
        .join(''),
    ).toBe(text)
  })
})
