/** The inventory: every index stays consistent with the records. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import type { Bucket, Place, ServerEntry } from '../../../src/engine/state/entries.js'
import { countsOf, serversOf } from '../../../src/engine/state/queries.js'
import { isAllocatable } from '../../../src/rules/planning/server-choice.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { aBuildRecord, aServerRecord, aSession, hear, namesIn, standsBy, stock, take } from '../support.js'

describe('the inventory', () => {
  it('finds a build by its name and by its buildID, until it is deleted', () => {
    const { inventory, build } = stock()
    const { buildID } = build.record.spec
    expect([inventory.builds.get('default/arena'), inventory.buildByID(buildID)]).toEqual([build, build])
    inventory.deleteBuild(build)
    expect([inventory.builds.size, inventory.buildByID(buildID)]).toEqual([0, undefined])
  })

  it('finds a build by its edited buildID, and assigns a duplicate buildID to the build that had it first', () => {
    const { inventory, build } = stock()
    const { buildID } = build.record.spec
    const withID = (record: typeof build.record, id: string) => ({ ...record, spec: { ...record.spec, buildID: id } })
    const other = inventory.addBuild(withID({ ...build.record, name: 'duel', uid: 'duel' }, 'of duel'), '1')
    inventory.replaceBuild(other, withID(other.record, buildID), '2')
    expect([inventory.buildByID('of duel'), inventory.buildByID(buildID)]).toEqual([undefined, build])
    inventory.replaceBuild(build, withID(build.record, 'changed'), '2')
    expect([inventory.buildByID('changed'), inventory.buildByID(buildID)]).toEqual([build, other])
    inventory.replaceBuild(build, withID(build.record, buildID), '3')
    inventory.deleteBuild(other)
    expect(inventory.buildByID(buildID)).toBe(build)
  })

  it('leaves the buildID and labels of a deleted build free, even if a write of its record is answered later', () => {
    const { inventory, build, add } = stock()
    add('arena-aaaaa')
    inventory.deleteBuild(build)
    const edited = { ...build.record.spec, buildID: 'edited', labels: { mode: 'duel' } }
    inventory.replaceBuild(build, { ...build.record, spec: edited }, '2')
    expect([inventory.buildByID('edited'), inventory.buildsWithLabels({ mode: 'duel' })]).toEqual([undefined, []])
    const next = inventory.addBuild({ ...aBuildRecord('next'), spec: edited }, '1')
    expect([inventory.buildByID('edited'), inventory.buildsWithLabels({ mode: 'duel' })]).toEqual([next, [next]])
  })

  it('keeps a deleted build until its last server is removed, even if another build has its name', () => {
    const { inventory, build, add } = stock()
    const server = add('arena-aaaaa')
    inventory.deleteBuild(build)
    const next = inventory.addBuild({ ...aBuildRecord(), uid: 'later' }, '1')
    expect([...inventory.everyBuild]).toEqual([build, next])
    inventory.remove(server)
    expect([...inventory.everyBuild]).toEqual([next])
    expect(inventory.builds.get('default/arena')).toBe(next)
    expect(inventory.buildByID(next.record.spec.buildID)).toBe(next)
  })

  it('reports once, and in the same tick, that a server has become allocatable', () => {
    const { inventory, ready, add } = stock()
    const server = add('arena-aaaaa', { state: 'Initializing' })
    inventory.update(server, { ...server.record, state: 'StandingBy', health: 'Healthy' })
    expect(ready).toEqual([])
    inventory.update(server, { ...server.record, address: '203.0.113.7' })
    expect(ready).toEqual(['arena-aaaaa'])
    inventory.update(server, { ...server.record, node: 'north' })
    expect(ready).toEqual(['arena-aaaaa'])
  })

  it('does not treat Unhealthy servers and servers without an address as allocatable', () => {
    const { build, add } = stock()
    add('arena-aaaaa', standsBy)
    add('arena-bbbbb', { ...standsBy, health: 'Unhealthy' })
    add('arena-ccccc', { state: 'StandingBy', health: 'Healthy' })
    expect(namesIn(build.buckets.ready)).toEqual(['arena-aaaaa'])
    expect(namesIn(build.buckets.unready)).toEqual(['arena-bbbbb', 'arena-ccccc'])
    expect(countsOf(build)).toMatchObject({ standingBy: 3 })
  })

  it('reports an allocatable server as ready once it is heard, and each time it is heard again', () => {
    const { inventory, build, ready } = stock()
    const server = inventory.addServer(build, aServerRecord(build.record, 'arena-aaaaa', standsBy), '1')
    expect([server.bucket, ready, countsOf(build).standingBy]).toEqual(['unheard', [], 1])
    hear(inventory, server)
    hear(inventory, server)
    expect([server.bucket, ready]).toEqual(['ready', ['arena-aaaaa']])
    build.awaitingHeartbeat.add(server)
    inventory.heardChanged(server)
    expect([server.bucket, countsOf(build).standingBy]).toEqual(['unheard', 1])
    take(inventory, server, aSession(1))
    hear(inventory, server)
    expect(server.bucket).toBe('reserved')
    inventory.releaseAll(server)
    expect([server.bucket, ready]).toEqual(['ready', ['arena-aaaaa', 'arena-aaaaa']])
  })

  it('makes a reserved server unallocatable, and counts it as StandingBy until it is Active', () => {
    const { inventory, build, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    take(inventory, server, aSession(1))
    expect([build.buckets.ready.size, build.buckets.reserved.size]).toEqual([0, 1])
    expect(countsOf(build)).toMatchObject({ standingBy: 1, active: 0 })
    expect(inventory.serverBySession(aSession(1).id)).toBe(server)
    inventory.grant(server, { ...server.record, state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
    expect(countsOf(build)).toMatchObject({ standingBy: 0, active: 1 })
    expect(inventory.serverBySession(aSession(1).id)).toBe(server)
  })

  it('forgets the session of a cancelled reservation and makes the server allocatable again', () => {
    const { inventory, build, ready, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    take(inventory, server, aSession(1))
    inventory.releaseAll(server)
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
    expect(namesIn(build.buckets.ready)).toEqual(['arena-aaaaa'])
    expect(ready).toEqual(['arena-aaaaa', 'arena-aaaaa'])
  })

  it('does not find a server by its reserved session after another session was granted', () => {
    const { inventory, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    take(inventory, server, aSession(1))
    inventory.grant(server, { ...server.record, state: 'Active', sessions: [aSession(2)], startedSessions: 1 })
    inventory.releaseAll(server)
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
    expect(inventory.serverBySession(aSession(2).id)).toBe(server)
  })

  it('finds a server by a session that another host has given it while a batch held it for that session', () => {
    const { inventory, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    const session = aSession(1)
    const held: Place = {
      entry: server,
      session,
      key: session.id,
      selection: undefined,
      state: 'held',
      granted: undefined,
    }
    inventory.take(held)
    inventory.grant(server, { ...server.record, state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
    inventory.releaseAll(server)
    expect([held.state, server.places]).toEqual(['lost', []])
    expect(inventory.serverBySession(aSession(1).id)).toBe(server)
  })

  it('gives up a place once, and no other in its stead', () => {
    const { inventory, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    const first = take(inventory, server, aSession(1))
    inventory.release(first)
    const second = take(inventory, server, aSession(2))
    inventory.release(first)
    expect([second.state, server.places]).toEqual(['reserved', [second]])
  })

  it('treats different spellings of a session ID as equal', () => {
    const { inventory, add } = stock()
    const id = 'ABCDEF00-0000-4000-8000-000000000001'
    const server = add('arena-aaaaa', {
      ...standsBy,
      state: 'Active',
      sessions: [{ id, initialPlayers: [], number: 1, startedAt: 0 }],
      startedSessions: 1,
    })
    expect(inventory.serverBySession(id.toLowerCase())).toBe(server)
  })

  it('still finds a session’s server when an older server with that session terminates', () => {
    const { inventory, add } = stock()
    const older = add('arena-aaaaa', { state: 'Terminating', sessions: [aSession(1)], startedSessions: 1 })
    const newer = add('arena-bbbbb', { ...standsBy, state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
    inventory.remove(older)
    expect(inventory.serverBySession(aSession(1).id)).toBe(newer)
  })

  it('removes a server from every index', () => {
    const { inventory, build, add } = stock()
    const server = add('arena-aaaaa', standsBy)
    build.heartbeating.add(server)
    build.needsAction.add(server)
    take(inventory, server, aSession(1))
    inventory.remove(server)
    expect([...serversOf(build), ...build.needsAction, ...build.heartbeating, ...inventory.servers.values()]).toEqual(
      [],
    )
    expect(inventory.serverByHostId(server.hostId)).toBeUndefined()
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
  })

  it('counts the players of each build, until their server is removed', () => {
    const { inventory, build, add } = stock()
    const [one, other] = [add('arena-aaaaa', standsBy), add('arena-bbbbb', standsBy)]
    const counts = [['amie', 'ben'], ['amie'], ['cleo', 'dan', 'eve']].map((players) => {
      inventory.setPlayers(one, players)
      return build.players
    })
    inventory.setPlayers(other, ['fay'])
    counts.push(build.players)
    inventory.remove(one)
    expect([...counts, build.players]).toEqual([2, 1, 3, 4, 1])
  })

  it('finds a server only by its full id, since names are not secret', () => {
    const { inventory, add } = stock()
    const server = add('arena-aaaaa', { token: 'secret' })
    expect(inventory.serverByHostId('arena-aaaaa.secret')).toBe(server)
    expect(inventory.serverByHostId('arena-aaaaa.guess')).toBeUndefined()
    expect(inventory.serverByHostId('arena-aaaaa')).toBeUndefined()
  })

  it('reports that a server changed before reporting that it is ready', () => {
    const order: string[] = []
    const { inventory, build, changes, add } = stock((entry) => {
      order.push(`ready after ${changes.length} changes`)
      take(inventory, entry, aSession(1))
    })
    const server = add('arena-aaaaa', { state: 'Initializing' })
    inventory.update(server, { ...server.record, ...standsBy })
    expect(order).toEqual(['ready after 1 changes'])
    expect([build.buckets.ready.size, build.buckets.reserved.size]).toEqual([0, 1])
    expect(changes).toEqual(['arena-aaaaa: Initializing → StandingBy'])
  })

  it('handles a change made by a handler after that handler, and after the changes before it', () => {
    const handled: string[] = []
    const { inventory, add } = stock((entry) => {
      handled.push(`${entry.record.name} begins`)
      if (entry === first) inventory.update(second, { ...second.record, ...standsBy })
      handled.push(`${entry.record.name} ends`)
    })
    const first = add('arena-aaaaa', { state: 'Initializing' })
    const second = add('arena-bbbbb', { state: 'Initializing' })
    inventory.update(first, { ...first.record, ...standsBy })
    expect(handled).toEqual(['arena-aaaaa begins', 'arena-aaaaa ends', 'arena-bbbbb begins', 'arena-bbbbb ends'])
  })

  it('handles the changes that are left if a handler fails', () => {
    const handled: string[] = []
    const { inventory, add } = stock((entry) => {
      if (entry === first) {
        inventory.update(second, { ...second.record, ...standsBy })
        throw new Error('a handler failed')
      }
      handled.push(entry.record.name)
    })
    const first = add('arena-aaaaa', { state: 'Initializing' })
    const second = add('arena-bbbbb', { state: 'Initializing' })
    expect(() => inventory.update(first, { ...first.record, ...standsBy })).toThrow('a handler failed')
    expect(handled).toEqual(['arena-bbbbb'])
  })
})

const states = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const
const step = fc.record({
  what: fc.constantFrom('add', 'update', 'hear', 'miss', 'reserve', 'grant', 'release', 'remove', 'respec'),
  server: fc.nat(4),
  state: fc.constantFrom(...states),
  healthy: fc.boolean(),
  session: fc.integer({ min: 1, max: 3 }),
})

describe('the indexes of the inventory', () => {
  test.prop([fc.array(step, { maxLength: 80 })])('match a full recount after any sequence of operations', (steps) => {
    const { inventory, build } = stock()
    const entries = new Map<number, ServerEntry>()
    for (const { what, server, state, healthy, session } of steps) {
      const entry = entries.get(server)
      const shape = { ...standsBy, state, health: healthy ? ('Healthy' as const) : ('Unhealthy' as const) }
      if (what === 'respec') {
        const spec = { ...build.record.spec, portsToExpose: [7000 + session] }
        inventory.replaceBuild(build, { ...build.record, spec }, '2')
      } else if (!entry) {
        if (what !== 'add') continue
        entries.set(server, inventory.addServer(build, aServerRecord(build.record, `arena-0000${server}`, shape), '1'))
      } else if (what === 'remove') {
        inventory.remove(entry)
        entries.delete(server)
      } else if (what === 'update' && !entry.places[0]?.session) {
        const sessions = state === 'StandingBy' ? [] : entry.record.sessions
        inventory.update(entry, { ...entry.record, ...shape, sessions })
      } else if (what === 'hear') {
        hear(inventory, entry)
      } else if (what === 'miss') {
        build.awaitingHeartbeat.add(entry)
        inventory.heardChanged(entry)
      } else if (what === 'reserve' && (entry.bucket === 'ready' || entry.bucket === 'unheard')) {
        take(inventory, entry, aSession(session))
      } else if (what === 'grant' && entry.places[0]?.session) {
        inventory.grant(entry, { ...entry.record, state: 'Active', sessions: [aSession(session)], startedSessions: 1 })
      } else if (what === 'release') {
        inventory.releaseAll(entry)
      }
      for (const other of entries.values()) {
        for (const [bucket, set] of Object.entries(build.buckets)) expect(set.has(other)).toBe(bucket === other.bucket)
        expect(other.bucket).toBe(expectedBucket(other))
        expect(inventory.servers.get(keyOf(other.record))).toBe(other)
      }
      expect(Object.values(countsOf(build)).reduce((sum, count) => sum + count)).toBe(entries.size)
      for (const n of [1, 2, 3]) {
        const found = inventory.serverBySession(aSession(n).id)
        if (found) expect([found.record.sessions[0]?.id, found.places[0]?.session.id]).toContain(aSession(n).id)
        if (found) expect(entries.get(Number(found.record.name.at(-1)))).toBe(found)
      }
    }
  })
})

function expectedBucket(entry: ServerEntry): Bucket {
  const { record, places, build } = entry
  const old = record.templateHash !== build.templateHash
  switch (record.state) {
    case 'Pending':
      return old ? 'outdatedPending' : 'pending'
    case 'Initializing':
      return old ? 'outdatedInitializing' : 'initializing'
    case 'StandingBy':
      if (places.length > 0) return 'reserved'
      if (!isAllocatable(record)) return old ? 'outdatedUnready' : 'unready'
      if (build.heartbeating.has(entry)) return old ? 'outdatedReady' : 'ready'
      return old ? 'outdatedUnheard' : 'unheard'
    case 'Active':
      return 'active'
    case 'Terminating':
      return 'terminating'
  }
}
