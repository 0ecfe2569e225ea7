/** Faults of the journal that lost or doubled a session: other leaders without it, writes of earlier terms, restored backups. */
import { expect, it } from 'vitest'
import { ApiError } from '../../../../../adapters/kubernetes/client/api-errors.js'
import { FleetError } from '../../../../../src/contracts/errors.js'
import { Host, journaled, scene } from '../../support/journal-world.js'

const forbidden = () =>
  new FleetError('unavailable', 'forbidden', { cause: new ApiError(403, 'Forbidden', 'forbidden', 'x') })

it.each(['same leader', 'next leader'])(
  'a session answered by a leader without the journal is not undone by an old entry: %s',
  async (who) => {
    const { world, leader, at } = await scene()
    const base = at('a')
    await leader.allocate('a', 'old', base)
    leader.term = undefined // killed before the status was written
    const two = new Host(world, 'two', { minGroup: 1 })
    two.held = (call) => (call.endsWith('journal') ? Promise.reject(forbidden()) : undefined)
    await two.lead(1)
    await two.allocate('a', 'answered', base)
    expect(world.session('a')).toBe('answered')
    two.held = undefined
    const next = who === 'same leader' ? two : new Host(world, 'three')
    if (next !== two) two.term = undefined
    await next.lead(1)
    await world.clock.until(() => journaled(world).length === 0)
    expect(world.session('a')).toBe('answered')
  },
)

it('a version whose write was sent in an earlier term of the same host is not its own', async () => {
  const { world, leader, at } = await scene()
  let release = () => {}
  // Answered late: the response arrives when the host leads again.
  const record = world.server('a').record
  const original = world.call.bind(world)
  world.call = (async (host: Host, call: never, name: string, effect: () => unknown) => {
    const result = await original(host, call, name, effect)
    if (host === leader && (call as string) === 'write status' && name === 'a')
      await new Promise<void>((r) => (release = r))
    return result
  }) as never
  const writing = leader.update({ ...record, health: 'Healthy' }, at('a'))
  await world.clock.advance(1)
  world.call = original
  const v2 = at('a')
  // Another host leads meanwhile. Its allocation of that version takes effect late, and its answer arrives.
  leader.term = undefined
  const two = await new Host(world, 'two').lead(1)
  let land = () => {}
  two.held = (call) => (call === 'write status' ? new Promise<void>((r) => (land = r)) : undefined)
  const second = two.allocate('a', 'of-two', v2)
  await world.clock.advance(1)
  two.term = undefined
  await leader.lead(3)
  release()
  await writing
  const first = leader.allocate('a', 'of-one', v2).then(
    () => 'answered',
    () => 'refused',
  )
  await world.clock.advance(1)
  land()
  const outcomes = [
    await first,
    await second.then(
      () => 'answered',
      () => 'refused',
    ),
  ]
  expect(outcomes.filter((o) => o === 'answered')).toHaveLength(1)
})

it('an entry leaves the journal after the cluster was restored from a backup', async () => {
  const { world, leader, at } = await scene()
  world.addServer('z')
  await leader.allocate('a', 'match', at('a'))
  world.touch('a')
  leader.see('a')
  // Restored: revisions are smaller than those that were seen.
  const { record, uid, upon } = world.server('a')
  world.servers.set('games/a', { record, uid, upon, revision: '50' })
  leader.journal.forgetAll()
  leader.see('a')
  leader.quietMs = 1000
  await world.clock.advance(60_000)
  expect(world.session('a')).toBe('match')
})

it('a leader that has lost its lease before the journal is written says so', async () => {
  const { leader, at } = await scene()
  leader.held = (call) =>
    call.startsWith('write') ? Promise.reject(new FleetError('not-leader', 'no lease')) : undefined
  await expect(leader.allocate('a', 'match', at('a'))).rejects.toMatchObject({ code: 'not-leader' })
})

it('an allocation that has waited since an earlier term of its host is not added to the journal', async () => {
  const { world, leader, at } = await scene(2)
  const base = at('a')
  const outcome = (work: Promise<string>) =>
    work.then(
      () => 'answered',
      () => 'refused',
    )
  // Two writes that hang, so a third caller waits.
  leader.held = () => new Promise(() => {})
  for (const name of ['c', 'd']) void leader.allocate(name, `on-${name}`, at(name))
  const first = outcome(leader.allocate('a', 'of-one', base))
  await world.clock.advance(100)
  leader.held = undefined
  // Another host leads meanwhile, and its allocation takes effect late.
  leader.term = undefined
  const two = await new Host(world, 'two').lead(2)
  let land = () => {}
  two.held = (call) => (call === 'write status' ? new Promise<void>((resolve) => (land = resolve)) : undefined)
  const second = outcome(two.allocate('a', 'of-two', base))
  await world.clock.advance(100)
  two.term = undefined
  await leader.lead(3)
  leader.journal.created(world.server('b').record, at('b'))
  await leader.allocate('b', 'next', at('b'))
  land()
  expect([await first, await second].toSorted()).toEqual(['answered', 'refused'])
  expect(await first).toBe(world.session('a') === 'of-one' ? 'answered' : 'refused')
})

it('a write for which a host was asked when it had just been deposed does not overwrite an entry once it leads again', async () => {
  const { world, leader, at } = await scene()
  const { record } = world.server('a')
  leader.term = undefined
  const two = await new Host(world, 'two', { minGroup: 1 }).lead(2)
  await two.update({ ...record, health: 'Healthy' }, at('a'))
  two.see('a')
  const seen = leader.see('a')
  await two.allocate('a', 'answered', seen.revision)
  expect(journaled(world)).toEqual(['answered'])
  two.term = undefined
  // The client sends it late, because other calls are first.
  let send = () => {}
  leader.held = (call) => (call === 'write status' ? new Promise<void>((resolve) => (send = resolve)) : undefined)
  const late = leader.update({ ...seen.record, node: 'x' }, seen.revision).then(
    () => 'written',
    () => 'refused',
  )
  await world.clock.advance(10)
  leader.held = undefined
  const listed = await leader.lead(3)
  expect((await listed.get('a'))?.record.sessions[0]?.id).toBe('answered')
  send()
  await world.clock.advance(5_000)
  expect(world.session('a')).toBe('answered')
  expect(await late).toBe('refused')
})

it('a write that has waited for an entry of an earlier term of its host does not overwrite it', async () => {
  const { world, leader, at } = await scene()
  const outcome = (work: Promise<unknown>) =>
    work.then(
      () => 'answered',
      () => 'refused',
    )
  let send = () => {}
  leader.held = (call) => (call === 'write journal' ? new Promise<void>((resolve) => (send = resolve)) : undefined)
  const base = at('a')
  const first = outcome(leader.allocate('a', 'first', base))
  const second = outcome(leader.allocate('a', 'second', base))
  const { record } = world.server('a')
  const third = outcome(leader.journal.remove(record, base))
  await world.clock.advance(1)
  // It loses its lease and leads again while the journal is being written.
  leader.term = 2
  leader.held = (call) =>
    call === 'read journal' ? new Promise((resolve) => world.clock.after(20, () => resolve())) : undefined
  const listing = leader.list()
  send()
  await world.clock.advance(5_000)
  await listing
  expect([await first, await second, await third]).toEqual(['answered', 'refused', 'refused'])
  expect(world.session('a')).toBe('first')
})
