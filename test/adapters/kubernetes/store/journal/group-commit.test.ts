/** Allocations that are written together, on objects in memory whose calls fail in every way. */
import { expect, it } from 'vitest'
import { maxLagMs } from '../../../../../adapters/kubernetes/store/journal/group-commit.js'
import { Host, journaled, type JournalWorld, scene } from '../../support/journal-world.js'

function ownerOf({ journal }: JournalWorld): string {
  return journal?.owner ?? ''
}

it('one caller writes the status itself; of many, the first two do, and the others share writes of the journal', async () => {
  const { world, leader, at } = await scene(2)
  await leader.allocate('a', 'alone', at('a'))
  expect(world.session('a')).toBe('alone')
  expect(journaled(world)).toEqual([])
  for (let n = 0; n < 30; n++) world.addServer(`many-${n}`)
  await leader.list()
  leader.own()
  world.calls.length = 0
  const names = Array.from({ length: 30 }, (_, n) => `many-${n}`)
  await Promise.all(names.map((name) => leader.allocate(name, `session-of-${name}`, at(name))))
  expect(world.calls.filter((call) => call.includes('write status'))).toHaveLength(2)
  expect(world.calls.filter((call) => call.includes('write journal')).length).toBeLessThanOrEqual(3)
  expect(journaled(world)).toHaveLength(28)
  for (const name of names) expect((await leader.get(name))?.record.sessions[0]?.id).toBe(`session-of-${name}`)
})

it('a journaled session is durable before it is answered, and its status follows in a pause', async () => {
  const { world, leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  expect(journaled(world)).toEqual(['match'])
  expect(world.session('a')).toBeUndefined()
  expect(await leader.get('a')).toMatchObject({ record: { state: 'Active', sessions: [{ id: 'match' }] }, revision })
  leader.quietMs = 1_000
  await world.clock.until(() => journaled(world).length === 0)
  expect(world.session('a')).toBe('match')
  expect(await leader.get('a')).toMatchObject({ record: { sessions: [{ id: 'match' }] }, revision })
})

it('under load, statuses follow once an entry has waited, and no entry is added while one has waited for too long', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'first', at('a'))
  leader.faults['write status'] = ['refused', 'refused', 'refused', 'refused']
  await world.clock.advance(maxLagMs)
  expect(journaled(world)).toEqual(['first'])
  leader.faults['write status'] = []
  await leader.allocate('b', 'second', at('b'))
  expect(world.session('b')).toBe('second')
  expect(journaled(world)).toEqual(['first'])
  await world.clock.until(() => world.session('a') === 'first')
})

it('a later write of the server includes the entry, which is then removed', async () => {
  const { world, leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  const record = (await leader.get('a'))?.record
  if (!record) throw new Error('no record')
  const next = await leader.update({ ...record, node: 'node-2' }, revision)
  expect(world.server('a').record).toMatchObject({ node: 'node-2', sessions: [{ id: 'match' }] })
  expect(await leader.get('a')).toMatchObject({ revision: next, record: { node: 'node-2' } })
  await expect(leader.update(record, revision)).rejects.toMatchObject({ code: 'conflict' })
  await world.clock.until(() => journaled(world).length === 0)
  expect(world.server('a').record.node).toBe('node-2')
})

it('of several writes upon one entry, one succeeds', async () => {
  const { leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  const record = (await leader.get('a'))?.record
  if (!record) throw new Error('no record')
  const outcomes = await Promise.allSettled(['x', 'y', 'z'].map((node) => leader.update({ ...record, node }, revision)))
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected'])
})

it('a server is deleted together with its entry', async () => {
  const { world, leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  await leader.journal.remove({ namespace: 'games', name: 'a' }, revision)
  expect(world.servers.has('games/a')).toBe(false)
  await world.clock.until(() => journaled(world).length === 0)
})

it('labels that somebody changes meanwhile do not touch the session', async () => {
  const { world, leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  world.touch('a')
  expect(leader.see('a')).toMatchObject({ revision, record: { sessions: [{ id: 'match' }] } })
  await world.clock.until(() => world.session('a') === 'match')
  // The data of a server include its labels, so the record is another one now.
  const found = await leader.get('a')
  if (!found) throw new Error('no record')
  expect(found.revision).not.toBe(revision)
  await expect(leader.update(found.record, revision)).rejects.toMatchObject({ code: 'conflict' })
  await leader.update(found.record, found.revision)
})

it('a record that was read before its object changed is not journaled', async () => {
  const { world, leader, at } = await scene()
  const old = at('a')
  world.touch('a')
  leader.see('a')
  await expect(leader.allocate('a', 'match', old)).rejects.toMatchObject({ code: 'conflict' })
  expect(journaled(world)).toEqual([])
})

it('a new leader reads the journal first, and brings the statuses up to date', async () => {
  const { world, leader, at } = await scene()
  const revision = await leader.allocate('a', 'match', at('a'))
  leader.journal.close()
  leader.term = undefined
  const next = new Host(world, 'two')
  next.term = 1
  const listed = await next.list()
  expect(listed.find(({ record }) => record.name === 'a')).toMatchObject({
    revision,
    record: { state: 'Active', sessions: [{ id: 'match' }] },
  })
  await world.clock.until(() => world.session('a') === 'match' && journaled(world).length === 0)
})

it('a new leader that finds the status written and the journal not trimmed changes nothing', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'match', at('a'))
  const entries = world.journal?.entries ?? []
  await world.clock.until(() => world.session('a') === 'match')
  leader.term = undefined
  world.journal = { owner: 'one', entries, revision: world.next() }
  const before = world.server('a')
  const next = await new Host(world, 'two').lead(1)
  await world.clock.until(() => journaled(world).length === 0)
  expect(world.server('a')).toBe(before)
  expect((await next.get('a'))?.record.sessions[0]?.id).toBe('match')
})

it('an entry that is put back by hand later does not end the match that the server has by then', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'first', at('a'))
  const entries = world.journal?.entries ?? []
  await world.clock.until(() => journaled(world).length === 0)
  const found = await leader.get('a')
  if (!found) throw new Error('no record')
  const idle = { ...found.record, sessions: [] }
  const ended = await leader.update({ ...idle, state: 'StandingBy' }, found.revision)
  await leader.allocate('a', 'second', ended)
  await world.clock.until(() => world.session('a') === 'second' && journaled(world).length === 0)
  world.journal = { owner: 'somebody', entries, revision: world.next() }
  leader.term = undefined
  await new Host(world, 'two').lead(1)
  await world.clock.until(() => journaled(world).length === 0)
  expect(world.session('a')).toBe('second')
})

it.each(['late', 'refused'] as const)(
  'a deposed leader cannot add to the journal that another has taken over (%s)',
  async (fault) => {
    const { world, leader, at } = await scene()
    leader.faults['write journal'] = [fault]
    leader.faults['read journal'] = ['refused']
    await expect(leader.allocate('a', 'lost', at('a'))).rejects.toMatchObject({ code: 'unavailable' })
    const next = (await new Host(world, 'two', { minGroup: 1 }).lead(1)).own()
    await next.allocate('b', 'kept', at('b'))
    world.land()
    expect(journaled(world)).toEqual(['kept'])
    // The write that was given up can have no effect any more.
    for (const host of [leader, next]) expect((await host.get('a'))?.record.sessions[0]).toBeUndefined()
  },
)

it('a server that this leader has not written yet is allocated by a write of its status, so a late write cannot take it', async () => {
  const { world, leader, at } = await scene(2)
  leader.faults['write status'] = ['late']
  await expect(leader.allocate('a', 'late', at('a'))).rejects.toMatchObject({ code: 'unavailable' })
  leader.term = undefined
  const next = await new Host(world, 'two', { minGroup: 1 }).lead(1)
  await next.allocate('a', 'answered', at('a'))
  world.land()
  expect(world.session('a')).toBe('answered')
  expect(journaled(world)).toEqual([])
})

it('a late write that its leader has given up does not take the server from the session that was answered since', async () => {
  const { world, leader, at } = await scene()
  const record = world.server('a').record
  leader.faults['write status'] = ['late']
  await expect(leader.update({ ...record, health: 'Unhealthy' }, at('a'))).rejects.toMatchObject({
    code: 'unavailable',
  })
  const revision = await leader.allocate('a', 'answered', at('a'))
  world.land()
  expect(world.session('a')).toBeUndefined()
  expect(leader.see('a')).toMatchObject({ revision, record: { sessions: [{ id: 'answered' }] } })
  await world.clock.until(() => world.session('a') === 'answered')
})

it.each(['lost', 'late', 'refused'] as const)(
  'a write of the journal whose outcome is unknown (%s) is settled before its callers hear of it',
  async (fault) => {
    const { world, leader, at } = await scene()
    leader.faults['write journal'] = [fault]
    await leader.allocate('a', 'match', at('a'))
    world.land()
    expect((await leader.get('a'))?.record.sessions[0]?.id).toBe('match')
    await world.clock.until(() => world.session('a') === 'match' && journaled(world).length === 0)
  },
)

it.each(['lost', 'late'] as const)(
  'if it cannot be settled (%s), the outcome is unknown until it can',
  async (fault) => {
    const { world, leader, at } = await scene()
    leader.faults['write journal'] = [fault]
    leader.faults['read journal'] = ['refused', 'refused']
    await expect(leader.allocate('a', 'match', at('a'))).rejects.toMatchObject({ code: 'unavailable' })
    await expect(leader.get('a')).rejects.toMatchObject({ code: 'unavailable' })
    const stored = (await leader.get('a'))?.record.sessions[0]?.id
    expect(stored).toBe(fault === 'lost' ? 'match' : undefined)
    world.land()
    expect((await leader.get('a'))?.record.sessions[0]?.id).toBe(stored)
    // Others are written meanwhile.
    await leader.allocate('b', 'other', at('b'))
  },
)

it('a journal that is deleted or edited while it is in use is restored, with one warning', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'first', at('a'))
  world.journal = undefined
  await leader.allocate('b', 'second', at('b'))
  expect(world.warnings).toHaveLength(1)
  const owner = ownerOf(world)
  world.journal = { owner, entries: ['edited {}'], revision: world.next() }
  await leader.allocate('c', 'third', at('c'))
  for (const [name, session] of [
    ['a', 'first'],
    ['b', 'second'],
    ['c', 'third'],
  ] as const) {
    expect((await leader.get(name))?.record.sessions[0]?.id).toBe(session)
  }
  await world.clock.until(() => journaled(world).length === 0)
  expect(['a', 'b', 'c'].map((name) => world.session(name))).toEqual(['first', 'second', 'third'])
  expect(world.warnings.filter((text) => text.includes('restored'))).toHaveLength(1)
})

it('an edited entry is reported and not carried out, and the others are', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'genuine', at('a'))
  await leader.allocate('b', 'genuine-too', at('b'))
  leader.term = undefined
  const entries = (world.journal?.entries ?? []).map((line) => line.replace('genuine-too', 'made-up'))
  world.journal = { owner: 'one', entries: [...entries, '', 'x', '{}'], revision: world.next() }
  const next = await new Host(world, 'two').lead(1)
  expect((await next.get('b'))?.record.sessions[0]).toBeUndefined()
  expect(world.warnings).toEqual([expect.stringContaining('4 entries')])
  await world.clock.until(() => world.session('a') === 'genuine')
  expect(world.session('b')).toBeUndefined()
})

it('an entry whose server was deleted is dropped', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'match', at('a'))
  world.servers.delete('games/a')
  await world.clock.until(() => journaled(world).length === 0)
})

it('two leaders do not undo each other', async () => {
  const { world, leader, at } = await scene()
  const other = (await new Host(world, 'two', { minGroup: 1 }).lead(1)).own()
  await other.allocate('a', 'match', at('a'))
  // Its journal is not its own any more, so it writes the status.
  await leader.allocate('b', 'direct', at('b'))
  expect(world.session('b')).toBe('direct')
  await world.clock.until(() => world.session('a') === 'match')
  expect(world.session('b')).toBe('direct')
})

it('a host that does not lead writes no journal, and reads what is in it', async () => {
  const { world, leader, at } = await scene()
  await leader.allocate('a', 'match', at('a'))
  const other = new Host(world, 'two', { minGroup: 1 })
  const revision = world.journal?.revision
  const listed = await other.list()
  expect(listed.find(({ record }) => record.name === 'a')?.record.sessions[0]?.id).toBe('match')
  await other.allocate('b', 'direct', at('b'))
  expect(world.session('b')).toBe('direct')
  expect(world.journal?.revision).toBe(revision)
})

it('flush brings all statuses up to date at once', async () => {
  const { world, leader, at } = await scene()
  for (const name of ['a', 'b', 'c']) await leader.allocate(name, `on-${name}`, at(name))
  const flushed = leader.journal.flush()
  await world.clock.advance(1)
  await flushed
  expect(['a', 'b', 'c'].map((name) => world.session(name))).toEqual(['on-a', 'on-b', 'on-c'])
})
