/** The index holds what counting all servers finds, whatever has happened to them before and whenever each part of it was needed first. */
import { fc, test } from '@fast-check/vitest'
import { expect } from 'vitest'
import { fullestServer, withFreeSeats } from '../../../src/engine/state/best-candidate.js'
import { candidatesOf, freePlacesOn } from '../../../src/engine/state/candidates.js'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import { isBeingAllocated, isCurrent, isHeard } from '../../../src/engine/state/queries.js'
import { noData } from '../../../src/rules/lifecycle/server-data.js'
import { aBuildRecord, aServerRecord, aSession, hear, namesIn, standsBy, stock, take } from '../support.js'

const steps = fc.array(
  fc.record({
    what: fc.constantFrom(
      ...([
        'add',
        'add',
        'hear',
        'hear',
        'miss',
        'take',
        'take',
        'grant',
        'release',
        'end',
        'data',
        'players',
        'leave',
      ] as const),
      ...(['ill', 'remove', 'limit', 'template', 'seats', 'allocatable', 'seated'] as const),
    ),
    server: fc.nat(2),
    map: fc.constantFrom('dust', 'ridge'),
    number: fc.nat(4),
  }),
  { minLength: 30, maxLength: 80, size: 'max' },
)

test.prop([steps, fc.constantFrom('dust', 'ridge', undefined)], { numRuns: 100, endOnFailure: true })(
  'finds what a search finds',
  (all, map) => {
    const { inventory, build } = stock()
    const spec = { sessionsPerServer: 3, seatsPerSession: 4 }
    inventory.replaceBuild(build, aBuildRecord('arena', spec), '2')
    const entries = new Map<number, ServerEntry>()
    let sessions = 0
    let spare = 1
    // So that most steps find a server.
    const begin = [0, 1, 2].map((server) => ({ what: 'add', server, map: 'dust', number: 1 }) as const)
    for (const { what, server, map: label, number } of [...begin, ...all]) {
      const data = { ...noData, labels: { map: label } }
      const respec = (more: Partial<typeof build.record.spec>) =>
        inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, ...more } }, '3')
      if (what === 'limit') respec({ sessionsPerServer: 1 + (number % 3) })
      if (what === 'seats') respec({ seatsPerSession: 2 + number })
      if (what === 'template') respec({ template: { metadata: { labels: { version: `v${number}` } } } })
      if (what === 'allocatable') void candidatesOf(build).allocatable
      if (what === 'seated') void candidatesOf(build).withFreeSeats
      const entry = entries.get(server)
      if (!entry) {
        if (what !== 'add') continue
        const record = { ...aServerRecord(build.record, `arena-${spare++}`, standsBy), data }
        const added = inventory.addServer(build, record, '1')
        added.isShared = number > 0
        added.standingBySince = spare
        entries.set(server, added)
        continue
      }
      const { record } = entry
      if (what === 'hear') hear(inventory, entry)
      if (what === 'miss') {
        build.awaitingHeartbeat.add(entry)
        inventory.heardChanged(entry)
      }
      const isFree = entry.bucket === 'ready' || freePlacesOn(entry) > 0
      if (what === 'take' && isFree) take(inventory, entry, { ...aSession(0), id: `session-${sessions++}` })
      if (what === 'release') inventory.releaseAll(entry)
      if (what === 'grant' && entry.places.length > 0) {
        let started = record.startedSessions ?? 0
        const added = entry.places.map(({ session }) => ({ ...session, number: ++started, startedAt: 0 }))
        const granted = { ...record, sessions: [...record.sessions, ...added], startedSessions: started }
        inventory.grant(entry, { ...granted, state: 'Active' })
      }
      if (what === 'end' && record.sessions.length > 0) {
        const left = record.sessions.slice(1)
        inventory.update(entry, { ...record, sessions: left, state: left.length > 0 ? 'Active' : 'StandingBy' })
      }
      if (what === 'data') inventory.update(entry, { ...record, data })
      if (what === 'ill') inventory.update(entry, { ...record, health: number > 2 ? 'Unhealthy' : 'Healthy' })
      if (what === 'players') inventory.setPlayers(entry, ['amie', 'ben', 'cleo', 'dan'].slice(0, number))
      if (what === 'leave') {
        entry.isLeaving = number > 2
        inventory.placesChanged(entry)
      }
      if (what === 'remove') {
        inventory.remove(entry)
        entries.delete(server)
      }
    }
    const servers = [...entries.values()]
    const limit = build.record.spec.sessionsPerServer ?? 1
    const takenOn = ({ places, record }: ServerEntry) => places.length + record.sessions.length
    const freeOn = (entry: ServerEntry) => {
      const { isLeaving, isShared, record } = entry
      if (limit === 1 || !isShared || isLeaving || record.health === 'Unhealthy' || !isHeard(entry)) return 0
      const isInUse = record.state === 'Active' || isBeingAllocated(entry)
      return isInUse && takenOn(entry) > 0 ? Math.max(0, limit - takenOn(entry)) : 0
    }
    const awaitedOn = (entry: ServerEntry) => {
      const { isLeaving, record } = entry
      const isAwaited = record.state === 'Active' && record.health !== 'Unhealthy' && !isLeaving && !isHeard(entry)
      return isAwaited && limit > 1 ? Math.max(0, limit - record.sessions.length) : 0
    }
    const freeSeatsIn = (entry: ServerEntry) =>
      entry.bucket === 'active' && entry.record.sessions.length > 0 && isHeard(entry)
        ? Math.max(0, (build.record.spec.seatsPerSession ?? 0) - entry.players.length)
        : 0
    const sum = (of: (entry: ServerEntry) => number) => servers.reduce((total, entry) => total + of(entry), 0)
    const isFit = ({ record }: ServerEntry) => map === undefined || record.data?.labels['map'] === map
    const selector = { builds: ['arena'], ...(map !== undefined && { matchLabels: { map } }) }
    const candidates = candidatesOf(build)

    expect(servers.map(freePlacesOn)).toEqual(servers.map(freeOn))
    expect(candidates.freePlaces).toBe(sum(freeOn) + sum(awaitedOn))
    const withPlaces = servers.filter((entry) => isFit(entry) && freeOn(entry) > 0)
    const rank = (entry: ServerEntry) => (isCurrent(entry) ? 0 : 100) + freeOn(entry)
    const fullest = fullestServer([build], selector)
    expect(fullest && rank(fullest)).toBe(withPlaces.length > 0 ? Math.min(...withPlaces.map(rank)) : undefined)
    expect(fullest === undefined || isFit(fullest)).toBe(true)

    const found = withFreeSeats([build], 2, selector).flatMap((some) => [...some])
    const seated = servers.filter((entry) => isFit(entry) && freeSeatsIn(entry) >= 2)
    expect(namesIn(found).toSorted()).toEqual(namesIn(seated).toSorted())
    expect(found.map(freeSeatsIn)).toEqual(seated.map(freeSeatsIn).toSorted((a, b) => a - b))

    for (const [bucket, { groups, servers: inOrder }] of Object.entries(candidates.allocatable)) {
      const expected = namesIn(servers.filter((entry) => entry.bucket === bucket)).toSorted()
      expect(namesIn(inOrder).toSorted()).toEqual(expected)
      expect([...groups.values()].flatMap((some) => namesIn(some)).toSorted()).toEqual(expected)
      for (const [{ data, isCurrent: runsCurrent }, some] of groups) {
        for (const entry of some) {
          expect(entry.record.data?.labels).toEqual(data?.labels)
          expect(isCurrent(entry)).toBe(runsCurrent)
        }
      }
    }
  },
)

test('a build has no index, and its servers no position in one, until they are needed', () => {
  const { add, build, inventory } = stock()
  const entry = add('arena-1', standsBy)
  take(inventory, entry, aSession(1))
  inventory.grant(entry, { ...entry.record, state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
  inventory.setPlayers(entry, ['amie'])
  inventory.replaceBuild(build, aBuildRecord('arena', { seatsPerSession: 4 }), '2')
  expect(build.candidates).toBeUndefined()
  expect(entry.position).toBeUndefined()
})

test('free seats follow the players and the spec, once a request has looked for them', () => {
  const { add, build, inventory } = stock()
  const respec = (seatsPerSession: number) =>
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, seatsPerSession } }, '2')
  respec(4)
  const entry = add('arena-1', standsBy)
  const record = { ...entry.record, state: 'Active', sessions: [aSession(1)], startedSessions: 1 } as const
  inventory.update(entry, record)
  const free = () => [...candidatesOf(build).withFreeSeats.values()].flatMap((byFree) => [...byFree.keys()])
  expect(free()).toEqual([4])
  inventory.setPlayers(entry, ['amie', 'ben'])
  expect(free()).toEqual([2])
  respec(6)
  expect(free()).toEqual([4])
  inventory.update(entry, { ...record, data: { ...noData, labels: { map: 'dust' } } })
  expect(free()).toEqual([4])
  inventory.remove(entry)
  expect(free()).toEqual([])
})
