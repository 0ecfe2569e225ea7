/** The server writer: for every outcome of a write, the record is saved once and no session is lost or duplicated. */
import { FleetError } from 'gamekeeper'
import { type CallFault, faultyStore, type PlannedFault, scriptedFaults, virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import { LostServer, ServerWriter } from '../../../src/engine/persistence/server-writer.js'
import { isSaved, isUncertain } from '../../../src/engine/state/queries.js'
import type { Server } from '../../../src/rules/model/resources.js'
import { memoryStore } from '../../../src/stores/memory.js'
import { aServerRecord, aSession, namesIn, standsBy, stock, take } from '../support.js'

const ref = { namespace: 'default', name: 'arena-aaaaa' }
const on = (method: string, fault: CallFault): PlannedFault => ({ method: `servers.${method}`, fault })
const refuse: CallFault = { kind: 'refuse' }
const loseReply: CallFault = { kind: 'lose-reply' }
const times = (count: number, fault: PlannedFault) => Array.from({ length: count }, () => fault)

/** A StandingBy server in the store, and a writer whose store calls follow the script. */
async function scene(script: readonly PlannedFault[] = [], more: Partial<Server> = standsBy) {
  const clock = virtualClock()
  const records = memoryStore()
  const calls: string[] = []
  const planned = scriptedFaults(script)
  const store = faultyStore(records, {
    clock,
    calls: (call) => {
      calls.push(call.method.replace('servers.', ''))
      return planned(call)
    },
  })
  const { inventory, build, ready, add } = stock()
  const record = aServerRecord(build.record, ref.name, more)
  const entry = add(ref.name, more, await records.servers.create(record))
  entry.stored = entry.record
  const writer = new ServerWriter(store, inventory, clock)
  const kept = async () => (await records.servers.get(ref))?.record
  /** Writes as another host or an operator does. */
  const writeElsewhere = async (change: Partial<Server>) => {
    const current = await records.servers.get(ref)
    if (current) await records.servers.update({ ...current.record, ...change }, current.revision)
  }
  return { clock, records, calls, inventory, build, ready, entry, add, writer, kept, writeElsewhere }
}

function becomes(entry: ServerEntry, change: Partial<Server>): Server {
  return { ...entry.record, ...change }
}

const ending = { reason: 'NonZeroExit', message: 'the process exited with code 1', crash: true, at: 1 } as const

describe('saving a server', () => {
  it('writes nothing if the store already has the record', async () => {
    const { entry, writer, calls } = await scene()
    await writer.save(entry)
    expect(calls).toEqual([])
  })

  it('creates the record if the store does not have it', async () => {
    const { records, inventory, build, writer } = await scene()
    const entry = inventory.addServer(build, aServerRecord(build.record, 'arena-bbbbb'), undefined)
    await writer.save(entry)
    expect((await records.servers.get(entry.record))?.record).toEqual(entry.record)
    expect(isSaved(entry)).toBe(true)
  })

  it('writes nothing after the record is deleted, and calls queued behind the deletion resolve at once', async () => {
    const { inventory, entry, records, writer, calls } = await scene()
    await records.servers.delete(ref, entry.revision ?? '')
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    const first = writer.save(entry).catch((error: unknown) => error)
    await writer.save(entry).catch((error: unknown) => error)
    expect(await first).toBeInstanceOf(LostServer)
    expect(calls).toEqual(['update'])
  })

  it('writes the latest of many changes, one write at a time', async () => {
    const { inventory, entry, writer, kept, calls } = await scene()
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    const first = writer.save(entry)
    inventory.update(entry, becomes(entry, { node: 'north' }))
    inventory.update(entry, becomes(entry, { node: 'south' }))
    await Promise.all([first, writer.save(entry), writer.save(entry)])
    expect(calls).toEqual(['update', 'update'])
    expect(await kept()).toMatchObject({ health: 'Unhealthy', node: 'south' })
  })

  it.each([
    ['was rejected', refuse],
    ['lost its reply', loseReply],
    ['takes effect late', { kind: 'delay-effect', ms: 500 } as const],
  ])('reads back a write that %s before it retries', async (_, fault) => {
    const { clock, inventory, entry, writer, kept, calls } = await scene([on('update', fault)])
    inventory.update(entry, becomes(entry, { state: 'Terminating', ending }))
    await writer.save(entry)
    expect(calls.slice(0, 2)).toEqual(['update', 'get'])
    await clock.advance(1_000)
    expect(await kept()).toEqual(entry.record)
    expect(isSaved(entry)).toBe(true)
  })

  it('detects that an update whose response was lost succeeded, without another write', async () => {
    const { inventory, entry, writer, calls } = await scene([on('update', loseReply)])
    inventory.update(entry, becomes(entry, { state: 'Terminating', ending }))
    await writer.save(entry)
    expect(calls).toEqual(['update', 'get'])
  })

  it('detects that a create whose response was lost succeeded', async () => {
    const { inventory, build, writer, calls } = await scene([on('create', loseReply)])
    const entry = inventory.addServer(build, aServerRecord(build.record, 'arena-bbbbb'), undefined)
    await writer.save(entry)
    expect([calls, isSaved(entry)]).toEqual([['create', 'get'], true])
  })

  it('retries against the revision that another writer has written', async () => {
    const { inventory, entry, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ node: 'elsewhere' })
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await writer.save(entry)
    expect(await kept()).toEqual(entry.record)
  })

  it('rejects with the store’s error after several attempts', async () => {
    const { inventory, entry, writer } = await scene(times(10, on('update', refuse)))
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    expect(isSaved(entry)).toBe(false)
  })

  it('can be retried after a failure', async () => {
    const { inventory, entry, writer, kept } = await scene([on('update', refuse), on('get', refuse)])
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    await writer.save(entry)
    expect(await kept()).toMatchObject({ health: 'Unhealthy' })
  })
})

describe('allocating a server', () => {
  it('writes the session once, and makes the server Active only once that is durable', async () => {
    const { inventory, entry, writer, kept, calls } = await scene()
    take(inventory, entry, aSession(1))
    const saved = writer.save(entry)
    expect(entry.record.sessions[0]).toBeUndefined()
    await saved
    expect(await kept()).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }] })
    expect([entry.record.state, entry.bucket, entry.places[0]?.session, calls]).toEqual([
      'Active',
      'active',
      undefined,
      ['update'],
    ])
  })

  it('takes a separate write if another was in progress when the server was reserved', async () => {
    const { clock, inventory, entry, writer, kept } = await scene([
      on('update', { kind: 'delay-reply', ms: 1_000 }),
      on('update', { kind: 'delay-reply', ms: 1_000 }),
    ])
    inventory.update(entry, becomes(entry, { node: 'north' }))
    const first = writer.save(entry)
    take(inventory, entry, aSession(1))
    const second = writer.save(entry)
    await clock.advance(1_000)
    await first
    expect([entry.record.sessions[0], entry.places[0]?.session]).toEqual([undefined, aSession(1)])
    await clock.advance(1_000)
    await second
    expect(await kept()).toMatchObject({ state: 'Active', node: 'north', sessions: [{ id: aSession(1).id }] })
    expect(entry.record).toMatchObject({ state: 'Active', node: 'north', sessions: [{ id: aSession(1).id }] })
  })

  it('does not write the session if the server terminates before the write', async () => {
    const { inventory, entry, writer, kept } = await scene()
    take(inventory, entry, aSession(1))
    inventory.update(entry, becomes(entry, { state: 'Terminating', ending }))
    await writer.save(entry)
    expect([entry.record.sessions[0], entry.places[0]?.session, inventory.serverBySession(aSession(1).id)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect((await kept())?.sessions[0]).toBeUndefined()
  })

  it('if the server terminates during the write, keeps the session reserved until the store no longer contains it', async () => {
    const { inventory, entry, writer, kept } = await scene()
    take(inventory, entry, aSession(1))
    const saved = writer.save(entry)
    inventory.update(entry, becomes(entry, { state: 'Terminating', ending }))
    await saved
    expect([entry.record.sessions[0], isSaved(entry)]).toEqual([undefined, false])
    expect(inventory.serverBySession(aSession(1).id)).toBe(entry)
    await writer.save(entry)
    expect(await kept()).toEqual(entry.record)
    expect((await kept())?.sessions[0]).toBeUndefined()
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
  })

  it('keeps other changes made during the write', async () => {
    const { inventory, entry, writer } = await scene()
    take(inventory, entry, aSession(1))
    const saved = writer.save(entry)
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await saved
    expect(entry.record).toMatchObject({
      state: 'Active',
      sessions: [{ id: aSession(1).id }],
      startedSessions: 1,
      health: 'Unhealthy',
    })
    expect(isSaved(entry)).toBe(false)
  })

  it('succeeds if only the response is lost', async () => {
    const { inventory, entry, writer, calls } = await scene([on('update', loseReply)])
    take(inventory, entry, aSession(1))
    await writer.save(entry)
    expect([entry.record.state, calls]).toEqual(['Active', ['update', 'get']])
  })

  it('accepts a session that another host has written', async () => {
    const { inventory, entry, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ state: 'Active', sessions: [aSession(2)], startedSessions: 1 })
    take(inventory, entry, aSession(1))
    await expect(writer.save(entry)).rejects.toBeInstanceOf(LostServer)
    expect(await kept()).toMatchObject({ sessions: [{ id: aSession(2).id }] })
    expect(entry.record).toMatchObject({ state: 'Active', sessions: [{ id: aSession(2).id }] })
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
    expect(inventory.serverBySession(aSession(2).id)).toBe(entry)
  })

  it('accepts a termination that another host has written', async () => {
    const { inventory, entry, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ state: 'Terminating', ending })
    take(inventory, entry, aSession(1))
    await expect(writer.save(entry)).rejects.toBeInstanceOf(LostServer)
    expect([entry.record, await kept()]).toMatchObject([
      { state: 'Terminating', ending },
      { state: 'Terminating', ending },
    ])
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
    expect(isSaved(entry)).toBe(true)
  })

  it('treats a session found in the record as a late write if this host has given that session another server', async () => {
    const { inventory, entry, add, writer, kept, writeElsewhere } = await scene()
    const other = add('arena-bbbbb', { ...standsBy, state: 'Active', sessions: [aSession(2)], startedSessions: 1 })
    const data = { labels: { map: 'dust' }, annotations: {}, counters: {}, lists: {} }
    await writeElsewhere({ state: 'Active', sessions: [aSession(2)], startedSessions: 1, data })
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await writer.save(entry)
    expect(await kept()).toMatchObject({ state: 'StandingBy', health: 'Unhealthy' })
    expect((await kept())?.sessions[0]).toBeUndefined()
    expect((await kept())?.data, 'the data of the late write belong to its session').toBeUndefined()
    expect(inventory.serverBySession(aSession(2).id)).toBe(other)
  })

  it('terminates a server whose record was deleted, and never offers it again', async () => {
    const { records, inventory, build, ready, entry, writer } = await scene()
    const current = await records.servers.get(ref)
    await records.servers.delete(ref, current?.revision ?? '')
    take(inventory, entry, aSession(1))
    await expect(writer.save(entry)).rejects.toBeInstanceOf(LostServer)
    expect(entry).toMatchObject({ recordDeleted: true, places: [], bucket: 'terminating' })
    expect([namesIn(build.buckets.ready), ready]).toEqual([[], [ref.name]])
  })

  it('does not release a server whose session may still be stored when its build gets another buildID', async () => {
    const { clock, inventory, build, entry, writer, kept } = await scene([
      on('update', { kind: 'delay-effect', ms: 500 }),
    ])
    const { buildID } = build.record.spec
    const place = take(inventory, entry, aSession(1), {
      selectors: [{ builds: [buildID] }],
      change: undefined,
      order: undefined,
    })
    const saved = writer.save(entry)
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, buildID: 'other' } }, '2')
    await expect(saved).rejects.toMatchObject({ code: 'unavailable' })
    expect([entry.bucket, entry.places[0]?.session]).toEqual(['reserved', aSession(1)])
    place.granted = () => {}
    await clock.advance(1_000)
    await writer.resolveUncertain(entry)
    const stored = await kept()
    expect(stored?.sessions).toMatchObject([{ id: aSession(1).id }])
    expect(entry.record.sessions).toEqual(stored?.sessions)
  })

  it('never offers a server again if its name now belongs to another server', async () => {
    const { records, inventory, entry, writer, kept } = await scene()
    const current = await records.servers.get(ref)
    await records.servers.delete(ref, current?.revision ?? '')
    await records.servers.create({ ...entry.record, uid: 'another' })
    take(inventory, entry, aSession(1))
    await expect(writer.save(entry)).rejects.toBeInstanceOf(LostServer)
    expect([entry.recordDeleted, entry.bucket]).toEqual([true, 'terminating'])
    expect(await kept()).toMatchObject({ uid: 'another', state: 'StandingBy' })
  })
})

describe('a version reported by a watch', () => {
  const found = async ({ records }: Awaited<ReturnType<typeof scene>>) => {
    const current = await records.servers.get(ref)
    if (!current) throw new Error('the server has no record')
    return current
  }

  it('gives the server the session that another host has written, without reading the record', async () => {
    const here = await scene()
    const { inventory, entry, writer, calls, writeElsewhere } = here
    await writeElsewhere({ state: 'Active', sessions: [aSession(2)], startedSessions: 1 })
    const reported = await found(here)
    expect(() => writer.accept(entry, reported)).toThrow(LostServer)
    expect([entry.record.state, isSaved(entry), calls]).toEqual(['Active', true, []])
    expect(inventory.serverBySession(aSession(2).id)).toBe(entry)
  })

  it('is replaced by the record of this host if another writer must not change it', async () => {
    const here = await scene()
    const { entry, writer, calls, kept, writeElsewhere } = here
    await writeElsewhere({ health: 'Unhealthy' })
    expect([writer.accept(entry, await found(here)), isSaved(entry)]).toEqual([true, false])
    await writer.save(entry)
    expect([(await kept())?.health, calls]).toEqual([entry.record.health, ['update']])
  })

  it('is not applied while the record is being written', async () => {
    const here = await scene()
    const { inventory, entry, writer, writeElsewhere } = here
    await writeElsewhere({ node: 'elsewhere' })
    const reported = await found(here)
    take(inventory, entry, aSession(1))
    const saved = writer.save(entry)
    expect(writer.accept(entry, reported)).toBe(false)
    await saved
    expect(entry.record).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }] })
  })
})

describe('an allocation whose outcome is unknown', () => {
  async function unresolved(fault: CallFault, later: readonly PlannedFault[] = []) {
    const all = await scene([on('update', fault), on('get', refuse), ...later])
    const place = take(all.inventory, all.entry, aSession(1))
    await expect(all.writer.save(all.entry)).rejects.toMatchObject({ code: 'unavailable' })
    const granted: { readonly state: string; readonly session: string | undefined }[] = []
    place.granted = () => {
      const {
        state,
        sessions: [session],
      } = all.entry.record
      granted.push({ state, session: session?.id })
    }
    return { ...all, granted }
  }

  it('is reported as granted if another save of the record stores the session', async () => {
    const { entry, granted, writer } = await unresolved(refuse)
    await writer.save(entry)
    expect(granted).toEqual([{ state: 'Active', session: aSession(1).id }])
    expect(isUncertain(entry)).toBe(false)
  })

  it('is not resolved by a version that a watch reports', async () => {
    const { records, entry, writer } = await unresolved(loseReply)
    const current = await records.servers.get(ref)
    expect(current && writer.accept(entry, current)).toBe(false)
    expect(isUncertain(entry)).toBe(true)
  })

  it('keeps the server reserved for its session until the store has been read', async () => {
    const { inventory, build, entry } = await unresolved(loseReply)
    expect(inventory.serverBySession(aSession(1).id)).toBe(entry)
    expect(namesIn(build.buckets.ready)).toEqual([])
  })

  it('grants the session if the write took effect', async () => {
    const { entry, writer } = await unresolved(loseReply)
    await writer.resolveUncertain(entry)
    expect(entry.record).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }] })
    expect([isUncertain(entry), entry.places[0]?.session]).toEqual([false, undefined])
  })

  it('reports the grant once, even if several calls resolve it', async () => {
    const { entry, writer, granted } = await unresolved(loseReply)
    await Promise.all([writer.resolveUncertain(entry), writer.resolveUncertain(entry)])
    expect(granted).toEqual([{ state: 'Active', session: aSession(1).id }])
  })

  it('releases the server if the write did not take effect', async () => {
    const { build, inventory, entry, writer, granted } = await unresolved(refuse)
    await writer.resolveUncertain(entry)
    expect(granted).toEqual([])
    expect(namesIn(build.buckets.ready)).toEqual([ref.name])
    expect(inventory.serverBySession(aSession(1).id)).toBeUndefined()
  })

  it('fences off a write that is still in progress', async () => {
    const { clock, build, entry, writer, kept } = await unresolved({ kind: 'delay-effect', ms: 5_000 })
    await writer.resolveUncertain(entry)
    await clock.advance(10_000)
    expect((await kept())?.sessions[0]).toBeUndefined()
    expect(namesIn(build.buckets.ready)).toEqual([ref.name])
  })

  it('stays uncertain if a late write takes effect between the read and the fence', async () => {
    const { inventory, entry, writer, writeElsewhere } = await unresolved(refuse, [on('update', refuse)])
    await expect(writer.resolveUncertain(entry)).rejects.toMatchObject({ code: 'unavailable' })
    expect([isUncertain(entry), entry.places[0]?.session]).toEqual([true, aSession(1)])
    await writeElsewhere({ state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
    await writer.resolveUncertain(entry)
    expect(entry.record).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }] })
    expect(inventory.serverBySession(aSession(1).id)).toBe(entry)
  })

  it('stays uncertain while the store is unavailable', async () => {
    const { entry, writer } = await unresolved(loseReply, [on('get', refuse)])
    await expect(writer.resolveUncertain(entry)).rejects.toMatchObject({ code: 'unavailable' })
    expect(isUncertain(entry)).toBe(true)
  })

  it('is resolved only once when calls are concurrent', async () => {
    const { entry, writer, calls } = await unresolved(loseReply)
    const before = calls.length
    await Promise.all([writer.resolveUncertain(entry), writer.resolveUncertain(entry), writer.resolveUncertain(entry)])
    expect(calls.length - before).toBe(1)
  })

  it('gives no session to a server that has terminated in the meantime', async () => {
    const { inventory, entry, writer, kept } = await unresolved(loseReply)
    inventory.update(entry, becomes(entry, { state: 'Terminating', ending }))
    await writer.resolveUncertain(entry)
    await writer.save(entry)
    expect(entry.record.sessions[0]).toBeUndefined()
    expect(await kept()).toEqual(entry.record)
  })

  it('terminates a server whose record was deleted', async () => {
    const { records, entry, writer } = await unresolved(refuse)
    const current = await records.servers.get(ref)
    await records.servers.delete(ref, current?.revision ?? '')
    await expect(writer.resolveUncertain(entry)).rejects.toBeInstanceOf(LostServer)
    expect(entry).toMatchObject({ recordDeleted: true, places: [], bucket: 'terminating' })
  })

  it('accepts a session written by another host', async () => {
    const { entry, writer, writeElsewhere, granted } = await unresolved(refuse)
    await writeElsewhere({ state: 'Active', sessions: [aSession(2)], startedSessions: 1 })
    await expect(writer.resolveUncertain(entry)).rejects.toBeInstanceOf(LostServer)
    expect(granted).toEqual([])
    expect(entry).toMatchObject({ places: [], bucket: 'active' })
    expect(entry.record.sessions[0]).toEqual(aSession(2))
  })

  it('accepts a termination written by another host', async () => {
    const { entry, writer, writeElsewhere } = await unresolved(refuse)
    await writeElsewhere({ state: 'Terminating', ending })
    await expect(writer.resolveUncertain(entry)).rejects.toBeInstanceOf(LostServer)
    expect(entry).toMatchObject({ places: [], bucket: 'terminating' })
  })
})

it('the server writer distinguishes store errors from lost servers', async () => {
  const { inventory, entry, writer } = await scene(times(10, on('update', refuse)))
  inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
  const error: unknown = await writer.save(entry).catch((thrown: unknown) => thrown)
  expect([FleetError.is(error), error instanceof LostServer]).toEqual([true, false])
})

describe('an announcement of maintenance', () => {
  const maintenance = { at: 1_800_000_000_000, source: 'server' } as const
  const other = { at: 1_900_000_000_000, source: 'node' } as const

  it('that another host has stored is accepted, at a refresh and at a write', async () => {
    const { entry, inventory, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ maintenance })
    await writer.refresh(entry)
    expect(entry.record.maintenance).toEqual(maintenance)
    await writeElsewhere({ maintenance: other })
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await writer.save(entry)
    expect(await kept()).toMatchObject({ health: 'Unhealthy', maintenance: other })
    expect(entry.record.maintenance).toEqual(other)
  })

  it('of this host takes precedence over that of another', async () => {
    const { entry, inventory, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ maintenance: other })
    inventory.update(entry, becomes(entry, { maintenance }))
    await writer.save(entry)
    expect(await kept()).toMatchObject({ maintenance })
    await writeElsewhere({ maintenance: other })
    inventory.update(entry, becomes(entry, { maintenance: undefined }))
    await writer.save(entry)
    expect((await kept())?.maintenance).toBeUndefined()
  })

  it('is still saved after another host has allocated the server', async () => {
    const { entry, inventory, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere({ state: 'Active', sessions: [aSession(1)], startedSessions: 1, reachedActiveOn: 5 })
    inventory.update(entry, becomes(entry, { maintenance }))
    await expect(writer.save(entry)).rejects.toBeInstanceOf(LostServer)
    expect(entry.record).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }], maintenance })
    await writer.save(entry)
    expect(await kept()).toMatchObject({ state: 'Active', sessions: [{ id: aSession(1).id }], maintenance })
  })
})

describe('several places on a server', () => {
  const counters = { rooms: { count: 0, capacity: 10 } }
  const data = { labels: {}, annotations: {}, counters, lists: {} }
  const playing = { id: 'x', initialPlayers: [], number: 1, startedAt: 0 }
  const active = { ...standsBy, state: 'Active', sessions: [playing], startedSessions: 1, data } as const
  const wanted = (id: string) => ({ id, initialPlayers: [] })
  const idsOf = (server: Server | undefined) => server?.sessions.map(({ id }) => id)

  /** A server that has one of four sessions. */
  async function shared(script: readonly PlannedFault[] = []) {
    const all = await scene(script, active)
    const { build, inventory, entry } = all
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, sessionsPerServer: 4 } }, '2')
    entry.isShared = true
    const { buildID } = build.record.spec
    const counted = {
      selectors: [{ builds: [buildID], state: 'active' as const }],
      change: { counters: { rooms: { increment: 1 } } },
      order: undefined,
    }
    return { ...all, counted }
  }

  it('are written together', async () => {
    const { entry, inventory, writer, kept, calls } = await shared()
    const places = [take(inventory, entry, wanted('a')), take(inventory, entry, wanted('b'))]
    await writer.save(entry)
    expect([calls, idsOf(await kept()), places.map(({ state }) => state)]).toEqual([
      ['update'],
      ['x', 'a', 'b'],
      ['durable', 'durable'],
    ])
    expect(entry.places).toEqual([])
  })

  it('apply their changes once, also if a write takes effect late and others have joined it', async () => {
    const late = [on('update', { kind: 'delay-effect', ms: 500 }), on('get', refuse)]
    const { clock, counted, entry, inventory, writer, kept } = await shared(late)
    const a = take(inventory, entry, wanted('a'), counted)
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    a.granted = () => {}
    const b = take(inventory, entry, wanted('b'), counted)
    await clock.advance(1_000)
    await writer.save(entry)
    expect([a.state, b.state, idsOf(await kept())]).toEqual(['durable', 'durable', ['x', 'a', 'b']])
    expect([(await kept())?.data, entry.record.data]).toMatchObject([
      { counters: { rooms: { count: 2 } } },
      { counters: { rooms: { count: 2 } } },
    ])
  })

  it('do not lose a server that stood by to a late write of their own', async () => {
    const late = [on('update', { kind: 'delay-effect', ms: 500 }), on('get', refuse)]
    const { build, clock, entry, inventory, writer, kept } = await scene(late)
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, sessionsPerServer: 4 } }, '2')
    entry.isShared = true
    const a = take(inventory, entry, wanted('a'))
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    const b = take(inventory, entry, wanted('b'))
    await clock.advance(1_000)
    await writer.save(entry)
    expect([a.state, b.state, idsOf(await kept())]).toEqual(['durable', 'durable', ['a', 'b']])
  })

  it('of which the server takes one no longer give that up before the write, whatever becomes of the others', async () => {
    const { entry, inventory, writer } = await shared([on('update', refuse), on('get', refuse)])
    const misfit = { selectors: [{ builds: ['another'] }], change: undefined, order: undefined }
    const b = take(inventory, entry, wanted('b'), misfit)
    inventory.update(entry, becomes(entry, { health: 'Unhealthy' }))
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    expect([b.state, entry.places]).toEqual(['lost', []])
  })

  it('end one by one: a late write of an end is not one by another host', async () => {
    const late = [on('update', { kind: 'delay-effect', ms: 500 }), on('get', refuse)]
    const { clock, entry, inventory, writer, kept } = await shared(late)
    const two = { ...playing, id: 'y', number: 2 }
    inventory.update(entry, becomes(entry, { sessions: [playing, two], startedSessions: 2 }))
    entry.ends = [{ sessionID: 'x', number: 1 }]
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    inventory.update(entry, becomes(entry, { sessions: [playing, { ...two, ending: true }] }))
    await clock.advance(1_000)
    await writer.save(entry)
    expect((await kept())?.sessions).toMatchObject([{ id: 'y', ending: true }])
  })

  it('stay uncertain while the outcome is being determined', async () => {
    const { entry, inventory, writer } = await shared([on('update', refuse), on('get', refuse)])
    const a = take(inventory, entry, wanted('a'))
    await expect(writer.save(entry)).rejects.toMatchObject({ code: 'unavailable' })
    a.granted = () => {}
    const resolved = writer.resolveUncertain(entry)
    expect(isUncertain(entry)).toBe(true)
    await resolved
    expect([isUncertain(entry), a.state]).toEqual([false, 'lost'])
  })
})
